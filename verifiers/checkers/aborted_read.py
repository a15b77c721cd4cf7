"""Records that were read although their send failed or their transaction was aborted."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns, read_details
from verifiers.frames.losses import damage_to


@checker(
    "G1a",
    severity=Severity.TOO_EARLY,
    one="record was read although its send had failed",
    many="records were read although their sends had failed",
)
def aborted_read(
    values: DataFrame, transactors: DataFrame, aborted_reads: DataFrame, loss_causes: DataFrame
) -> DataFrame:
    """Return the values that were read although their send certainly failed.

    Returns:
        One row per value, at the lowest offset it was read at. Kind "read_committed" if it belongs
        to a client of transactions and a reader who should not have been given it was, "destroyed"
        or "partly-destroyed" if faults can have destroyed every copy, or one, of how its
        transaction ended; kind "read_uncommitted" if it was aborted and only such readers saw it;
        else no kind.

    Source: G1a of Adya's isolation levels, as jepsen.tests.kafka applies it.
    """
    read = (F.col("polls") > 0) | (F.col("finals") > 0)
    transactional = F.broadcast(transactors.withColumn("transactional", F.lit(True)))
    failed = values.where((F.col("type") == "fail") & read).join(transactional, "process", "left")
    partition = F.coalesce("final_partition", "poll_partition")
    offset = F.coalesce("final_first", "poll_first")
    seen = failed.select(
        "topic", "value", "invoke_ns", partition.alias("partition"), offset.alias("offset")
    )
    shown = offences(
        failed.join(damage_to(seen, loss_causes), ["topic", "value"], "left"),
        partition=partition,
        offset=offset,
        time_ns="complete_ns",
        kind=F.when(F.col("transactional"), F.coalesce("damage", F.lit("read_committed"))),
        detail=read_details(),
    )
    early = (
        aborted_reads.groupBy("topic", "value", "sent_by", "txn")
        .agg(
            F.min(F.struct("offset", "partition")).alias("first"),
            F.count("*").alias("reads"),
            F.max_by("process", "time_ns").alias("reader"),
            F.min("complete_ns").alias("complete_ns"),
        )
        # Values that other readers were given too are among `shown`.
        .join(failed.select("topic", "value"), ["topic", "value"], "left_anti")
    )
    return shown.unionByName(
        offences(
            early.select("*", "first.*"),
            process="sent_by",
            time_ns="complete_ns",
            kind=F.lit("read_uncommitted"),
            detail=columns("txn", polled="reads", last_reader="reader"),
        )
    )
