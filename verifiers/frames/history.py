"""The frames that checkers share, each built once a run.

A checker asks for frames by the names of its parameters:

sends, txns, polls, final, events
    the history as it was recorded (docs/run-folder.md).
values
    what is known of each (topic, value) that is not plainly in order. One shuffle.
log
    which offsets are known to hold a record, 64 to a row.
turns
    where a consumer was given something other than the next offset of a partition. One shuffle.
producing
    each producer's sends to each partition in the order it made them, where the log's order
    differs. One shuffle.
slots
    the offsets that are known to hold more than one value.
aborted_reads
    what read_uncommitted readers saw of aborted transactions (transactions.py); `polls` holds
    nothing that such a reader saw of transactions that were not committed.
transactors
    the processes that did transactions.
parts
    the sends of transactions of which the final read may hold a part only (transactions.py).
processing
    what members of consumer groups processed (consumption.py). A few rows of the events.

A history in good order leaves `values`, `turns`, `producing` and `slots` all but empty, so a
checker costs what there is to say, not what was recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.core.op import SEQUENCE_BITS

ANY_PARTITION = -1
"""Stands, in `ends`, for a topic as a whole."""

PROCESS_BITS = 20
"""No process has a number of more bits."""

FOREIGN_PROBLEMS = ("run", "format")
"""The problems of reads whose value proves nothing about ours."""

_OK, _INFO, _FAIL, _POLL, _FINAL = range(5)


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
    transactional: bool = True
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def recorded(self) -> Mapping[str, DataFrame]:
        """Return the recorded frames by the names that checkers know."""
        return {
            "sends": self.sends,
            "txns": self.txns,
            "polls": self.polls,
            "final": self.final,
            "events": self.events,
            "aborted_reads": self.aborted_reads,
        }


def readable(reads: DataFrame) -> DataFrame:
    """Return the reads whose value means something.

    A record of another run, or one too broken to parse, proves nothing about our values; one
    with a wrong checksum or in the wrong topic still shows that a record with its value is there.
    """
    return reads.where(legible())


def legible() -> Column:
    """Return whether the value of a read means something, as `readable` has it."""
    foreign = F.coalesce(F.col("problem").isin(*FOREIGN_PROBLEMS), F.lit(False))
    return F.col("value").isNotNull() & ~foreign


def values(history: History) -> DataFrame:
    """Return what is known of each (topic, value) about which there is anything to say.

    Left out is what is plainly in order: values acknowledged once with an offset and found in
    the final read exactly once, there, and polled nowhere else; and sends that were not
    acknowledged and that nobody ever read.

    Args:
        history: the recorded frames; or an excerpt that holds all evidence of the values about
            which there may be anything to say (scanning/digests.py).

    Columns:
        topic, value: the key; producer and sequence are in the value.
        process, partition, offset, invoke_ns, complete_ns: of its send; null as there, or if it
            has none.
        type: ok, info or fail, or null if no recorded send wrote it.
        polls, finals: how often it was polled, and found in the final read.
        poll_first, poll_last, final_first, final_last: lowest and highest offset of those reads.
        poll_partition, final_partition: where it was read (the lowest, if in several).
        final_partition_high: the highest, of the final read.
        polled_ns, reader: when it was polled last, in ns, and the process that did.
        first, last: lowest and highest offset of all evidence, acknowledgement included.
        partitions: 1, or 2 if the evidence names more than one partition; that a send which is not
            known to have happened was meant for one is no evidence.
        searched: whether the final read certainly covered the place where it should be.
    """
    ok = F.col("type") == "ok"
    written = history.sends.select(
        "topic",
        "value",
        F.when(ok, _OK).when(F.col("type") == "info", _INFO).otherwise(_FAIL).alias("evidence"),
        "partition",
        # The offset of a send that is not known to have happened is no evidence.
        F.when(ok, F.col("offset")).alias("offset"),
        F.col("invoke_ns").alias("begin_ns"),
        F.col("complete_ns").alias("end_ns"),
        "process",
    )

    def read(reads: DataFrame, evidence: int) -> DataFrame:
        return readable(reads).select(
            "topic",
            "value",
            F.lit(evidence).alias("evidence"),
            "partition",
            "offset",
            F.col("time_ns").alias("begin_ns"),
            F.lit(None).cast("long").alias("end_ns"),
            "process",
        )

    evidence = written.unionByName(read(history.polls, _POLL)).unionByName(
        read(history.final, _FINAL)
    )
    known = (
        # Values are all but unique within a file: aggregating before the shuffle would only
        # widen the rows.
        evidence.repartition("value").groupBy("topic", "value").agg(*_value_columns())
    )
    return _with_search(known.where(~_in_order(known)), history.ends).select(
        "topic",
        "value",
        "process",
        "partition",
        "offset",
        "invoke_ns",
        "complete_ns",
        F.when(F.col("send") == _OK, "ok")
        .when(F.col("send") == _INFO, "info")
        .when(F.col("send") == _FAIL, "fail")
        .alias("type"),
        "polls",
        "finals",
        "poll_first",
        "poll_last",
        "final_first",
        "final_last",
        "poll_partition",
        "final_partition",
        "final_partition_high",
        "polled_ns",
        F.col("reader").bitwiseAND((1 << PROCESS_BITS) - 1).cast("int").alias("reader"),
        "first",
        "last",
        F.when(F.col("partition_low") < F.col("partition_high"), 2)
        .otherwise(1)
        .alias("partitions"),
        "searched",
    )


def _value_columns() -> list[Column]:
    sent = F.col("evidence") <= _FAIL
    polled = F.col("evidence") == _POLL
    found = F.col("evidence") == _FINAL
    happened = ~F.col("evidence").isin(_INFO, _FAIL)
    # A maximum over structures would force a sort; packed in one long it stays a hash aggregate.
    # At 0.01 ms there is room for the process beside the time for years of uptime.
    last = F.shiftleft(F.floor(F.col("begin_ns") / 10_000).cast("long"), PROCESS_BITS).bitwiseOR(
        F.col("process").cast("long")
    )
    return [
        F.min(F.when(sent, F.col("evidence"))).alias("send"),
        F.count_if(sent).alias("sends"),
        F.min(F.when(sent, F.col("process"))).alias("process"),
        F.min(F.when(sent, F.col("partition"))).alias("partition"),
        F.min(F.when(sent, F.col("offset"))).alias("offset"),
        F.min(F.when(sent, F.col("begin_ns"))).alias("invoke_ns"),
        F.max("end_ns").alias("complete_ns"),
        F.count_if(polled).alias("polls"),
        F.min(F.when(polled, F.col("offset"))).alias("poll_first"),
        F.max(F.when(polled, F.col("offset"))).alias("poll_last"),
        F.min(F.when(polled, F.col("partition"))).alias("poll_partition"),
        F.max(F.when(polled, F.col("begin_ns"))).alias("polled_ns"),
        F.max(F.when(polled, last)).alias("reader"),
        F.count_if(found).alias("finals"),
        F.min(F.when(found, F.col("offset"))).alias("final_first"),
        F.max(F.when(found, F.col("offset"))).alias("final_last"),
        F.min(F.when(found, F.col("partition"))).alias("final_partition"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.max(F.when(found, F.col("partition"))).alias("final_partition_high"),
        # Where a send was meant to go is evidence only if it is known to have happened.
        F.min(F.when(happened, F.col("partition"))).alias("partition_low"),
        F.max(F.when(happened, F.col("partition"))).alias("partition_high"),
    ]


def _in_order(known: DataFrame) -> Column:
    acknowledged = (
        (known["send"] == _OK)
        & (known["sends"] == 1)
        & known["offset"].isNotNull()
        & (known["finals"] == 1)
        & (known["first"] == known["last"])
        & (known["partition_low"] == known["partition_high"])
    )
    never_seen = (known["send"] != _OK) & (known["polls"] == 0) & (known["finals"] == 0)
    return F.coalesce(acknowledged | never_seen, F.lit(False))


def _with_search(known: DataFrame, ends: DataFrame) -> DataFrame:
    place = F.coalesce(known["partition"], known["poll_partition"], F.lit(ANY_PARTITION))
    reached = F.broadcast(
        ends.select(
            F.col("topic").alias("end_topic"),
            F.col("partition").alias("end_partition"),
            "reached",
            "complete",
        )
    )
    joined = known.join(
        reached,
        (known["topic"] == F.col("end_topic")) & (place == F.col("end_partition")),
        "left",
    )
    offset = F.coalesce(known["offset"], known["poll_last"])
    return joined.withColumn(
        "searched",
        F.coalesce(F.col("complete") | (offset < F.col("reached")), F.lit(False)),
    )


def turns(history: History, skimmed: DataFrame | None = None) -> DataFrame:
    """Return where a consumer was given something other than a partition's next offset.

    Compared are neighbouring records of one process and one partition, in the order they were
    given. Only `skimmed` records are looked at (scanning/skim.py); if it is None, all are, and
    sorted.

    Columns:
        process, topic, partition, mode: which consumer, where; mode is assign or subscribe.
        op, offset, value, time_ns: the later record, by the number of its poll.
        prev_op, prev_offset, prev_value, prev_ns: the earlier one.
        internal: whether one poll gave both.
    """
    order = Window.partitionBy("process", "topic", "partition").orderBy("time_ns", "op", "position")
    # Between two rows that were skimmed off one batch, what was left out was next by next.
    left_out = (F.col("batch") == F.lag("batch").over(order)) & (
        F.col("place") - F.lag("place").over(order) > 1
    )
    neighbours = (history.polls if skimmed is None else skimmed).select(
        *("process", "topic", "partition", "op", "offset", "value", "time_ns"),
        F.lag("op").over(order).alias("prev_op"),
        F.lag("offset").over(order).alias("prev_offset"),
        F.lag("value").over(order).alias("prev_value"),
        F.lag("time_ns").over(order).alias("prev_ns"),
        (F.lit(False) if skimmed is None else F.coalesce(left_out, F.lit(False))).alias("plain"),
    )
    mode = F.when(F.col("process").isin(*sorted(history.subscribed)), "subscribe")
    turned = (F.col("offset") != F.col("prev_offset") + 1) & ~F.col("plain")
    return neighbours.where(turned).select(
        "process",
        "topic",
        "partition",
        (mode.otherwise("assign") if history.subscribed else F.lit("assign")).alias("mode"),
        "op",
        "offset",
        "value",
        "time_ns",
        "prev_op",
        "prev_offset",
        "prev_value",
        "prev_ns",
        (F.col("op") == F.col("prev_op")).alias("internal"),
    )


def producing(history: History, values: DataFrame, skimmed: DataFrame | None = None) -> DataFrame:
    """Return neighbouring sends of one producer to one partition that the log holds reversed.

    Neighbours in the order of sequence numbers, among sends that are ok or info and whose
    partition is known. A send's position is its acknowledged offset; if that is unknown, where
    its value was read; and if the value lies at several offsets, the last of them, as the
    version order of the anomalies' definitions has it. A send without a known position is no
    ground for complaint and no reference either. Nor are two sends compared between which the
    producer was rebuilt: a request of the old one may still lie in the socket of a frozen broker,
    and be appended after those of the new one. Only `skimmed` sends are looked at
    (scanning/skim.py); if it is None, all are, and sorted.

    Columns:
        process, topic, partition: which producer, where.
        op, value, position, complete_ns: the later send.
        prev_op, prev_value, prev_position: the earlier one.
        kind: "lost" if the final read lacks one of the two, else "duplicate" if one lies at
            several offsets, else "order".
    """
    every = history.sends.where(F.col("type").isin("ok", "info"))
    sends = (every if skimmed is None else skimmed).select(
        "process", "topic", "value", "op", "complete_ns", "partition", "offset"
    )
    strange = values.where(values["type"].isin("ok", "info")).select(
        "topic",
        "value",
        F.coalesce("partition", "final_partition", "poll_partition").alias("seen_partition"),
        "last",
        F.when(values["searched"] & (values["finals"] == 0), 2)
        .when(values["first"] < values["last"], 1)
        .otherwise(0)
        .alias("flaw"),
    )
    placed = sends.join(strange, ["topic", "value"], "left").select(
        "process",
        "topic",
        "value",
        "op",
        "complete_ns",
        F.coalesce("partition", "seen_partition").alias("partition"),
        F.coalesce("last", "offset").alias("position"),
        F.coalesce("flaw", F.lit(0)).alias("flaw"),
    )
    order = Window.partitionBy("process", "topic", "partition").orderBy("op")
    neighbours = placed.where(F.col("partition").isNotNull()).select(
        "*",
        F.lag("op").over(order).alias("prev_op"),
        F.lag("value").over(order).alias("prev_value"),
        F.lag("position").over(order).alias("prev_position"),
        F.greatest("flaw", F.lag("flaw").over(order)).alias("worst"),
    )
    kind = F.when(F.col("worst") == 2, "lost").when(F.col("worst") == 1, "duplicate")
    reversed_ = neighbours.where(F.col("position") <= F.col("prev_position"))
    return _of_one_producer(reversed_, history.events).select(
        "process",
        "topic",
        "partition",
        "op",
        "value",
        "position",
        "complete_ns",
        "prev_op",
        "prev_value",
        "prev_position",
        kind.otherwise("order").alias("kind"),
    )


def _of_one_producer(pairs: DataFrame, events: DataFrame) -> DataFrame:
    # The `error` event of a rebuilt producer names the first sequence number of the new one.
    rebuilt = events.where((F.col("f") == "error") & F.col("op").isNotNull()).select(
        F.col("process").alias("rebuilt"), F.col("op").alias("first_op")
    )
    return pairs.join(
        rebuilt,
        (pairs["process"] == F.col("rebuilt"))
        & (pairs["prev_op"] < F.col("first_op"))
        & (F.col("first_op") <= pairs["op"]),
        "left_anti",
    )


def producer_of(value: Column) -> Column:
    """Return the process that wrote a value."""
    return F.shiftright(value, SEQUENCE_BITS)


def sequence_of(value: Column) -> Column:
    """Return the sequence number of a value."""
    return value.bitwiseAND((1 << SEQUENCE_BITS) - 1)
