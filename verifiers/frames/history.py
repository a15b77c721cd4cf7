"""The recorded history of a run, in frames, and what its values mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.core.op import SEQUENCE_BITS

ANY_PARTITION = -1
"""Stands, in `ends`, for a topic as a whole."""

PROCESS_BITS = 20
"""No process has a number of more bits."""

FOREIGN_PROBLEMS = ("run", "format")
"""The problems of reads whose value proves nothing about ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The recorded frames of one run, columns as declared in run_folder/schema.py.

    Attributes:
        sends: completed sends.
        txns: transactions.
        polls: records that consumers were given.
        final: records of the final read.
        events: everything else.
        ends: how far the final read got (ENDS_SCHEMA).
        subscribed: processes of consumers whose partitions the group assigned.
        span: no process of any run has this number or a higher one, where several runs are verified
            together (run_folder/member.py); 0 for one run.
        transactional: False if it is known that there are no transactions.
        aborted_reads: what read_uncommitted readers saw of aborted transactions, and `polls` does
            not hold for that (transactions.py).
        files: by dataset (send, poll, final), the Parquet files whose rows its frame holds, as they
            stand there; without those of a frame that holds anything else.
    """

    sends: DataFrame
    txns: DataFrame
    polls: DataFrame
    final: DataFrame
    events: DataFrame
    ends: DataFrame
    aborted_reads: DataFrame
    subscribed: frozenset[int] = frozenset()
    span: int = 0
    transactional: bool = True
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def recorded(self) -> Mapping[str, DataFrame]:
        """Return the recorded frames by the names that checkers know."""
        names = ("sends", "txns", "polls", "final", "events", "aborted_reads")
        return {name: getattr(self, name) for name in names}


def readable(reads: DataFrame) -> DataFrame:
    """Return the reads whose value belongs to this run.

    A record of another run, or one that cannot be parsed, proves nothing about our values. A record
    with a wrong checksum or in the wrong topic still shows that its value is in the log.
    """
    return reads.where(legible())


def legible() -> Column:
    """Return whether the value of a read belongs to this run, as for `readable`."""
    foreign = F.coalesce(F.col("problem").isin(*FOREIGN_PROBLEMS), F.lit(False))
    return F.col("value").isNotNull() & ~foreign


def with_ends(rows: DataFrame, ends: DataFrame, partition: Column) -> DataFrame:
    """Return rows that have a topic with the low, reached and complete of the end there, or null.

    Args:
        rows: of any columns, `topic` among them.
        ends: of the final read.
        partition: of each row; ANY_PARTITION for its topic as a whole.
    """
    ends = ends.withColumnsRenamed({"topic": "end_topic", "partition": "end_partition"})
    there = (rows["topic"] == F.col("end_topic")) & (partition == F.col("end_partition"))
    return rows.join(F.broadcast(ends), there, "left").drop("end_topic", "end_partition")


def was_searched(offset: Column) -> Column:
    """Return whether the final read, by the columns of `with_ends`, certainly covered an offset."""
    return F.coalesce(F.col("complete") | (offset < F.col("reached")), F.lit(False))


def producer_of(value: Column) -> Column:
    """Return the process that wrote a value."""
    return F.shiftright(value, SEQUENCE_BITS)


def sequence_of(value: Column) -> Column:
    """Return the sequence number of a value."""
    return value.bitwiseAND((1 << SEQUENCE_BITS) - 1)
