"""What is known of each record that may not be in order: the frame `values`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import (
    ANY_PARTITION,
    PROCESS_BITS,
    History,
    readable,
    was_searched,
    with_ends,
)

_OK, _INFO, _FAIL, _POLL, _FINAL = range(5)


def values(history: History) -> DataFrame:
    """Return what is known of each (topic, value) that may not be in order.

    Values in order are left out: those that were acknowledged once, found by the final read exactly
    once, at the acknowledged offset, and polled at no other offset; and sends that were not
    acknowledged and that nobody read.

    Args:
        history: the recorded frames; or an excerpt that holds all evidence of the values that may
            not be in order (scanning/digests.py).

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
        sends: how many sends of it were recorded.
        searched: whether the final read certainly covered the place where it should be.
        deleted: whether that place lies below the first offset of the log, so that it was deleted
            in order (retention, DeleteRecords), or cut off at the front.
        unsought: whether it was acknowledged, nobody read it, and nobody looked where it should be.
    """
    ok = F.col("type") == "ok"
    written = history.sends.select(
        *("topic", "value", "partition", "process"),
        F.when(ok, _OK).when(F.col("type") == "info", _INFO).otherwise(_FAIL).alias("evidence"),
        # The offset of a send proves nothing unless the send is known to have happened.
        F.when(ok, F.col("offset")).alias("offset"),
        F.col("invoke_ns").alias("begin_ns"),
        F.col("complete_ns").alias("end_ns"),
    )

    polled, found = (
        readable(reads).select(
            *("topic", "value", "partition", "offset", "process"),
            F.lit(evidence).alias("evidence"),
            F.col("time_ns").alias("begin_ns"),
            F.lit(None).cast("long").alias("end_ns"),
        )
        for reads, evidence in ((history.polls, _POLL), (history.final, _FINAL))
    )
    evidence = written.unionByName(polled).unionByName(found)
    # Values are almost unique within a file: aggregating before the shuffle would only widen the
    # rows.
    known = evidence.repartition("value").groupBy("topic", "value").agg(*_value_columns())
    suspicious = _with_search(known.where(~_in_order(known)), history.ends)
    outcome = (
        F.when(F.col("send") == _OK, "ok")
        .when(F.col("send") == _INFO, "info")
        .when(F.col("send") == _FAIL, "fail")
    )
    several = F.col("partition_low") < F.col("partition_high")
    reader = F.col("reader").bitwiseAND((1 << PROCESS_BITS) - 1).cast("int")
    return suspicious.withColumns(
        {"type": outcome, "reader": reader, "partitions": F.when(several, 2).otherwise(1)}
    ).drop("send", "partition_low", "partition_high")


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
        # The partition of a send proves nothing unless the send is known to have happened.
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
    offset = F.coalesce(known["offset"], known["poll_last"])
    joined = with_ends(known, ends, place)
    searched = was_searched(offset)
    deleted = F.coalesce(offset < F.col("low"), F.lit(False))
    nobody = (known["send"] == _OK) & (known["polls"] == 0) & (known["finals"] == 0)
    told = {
        "searched": searched & ~deleted,
        "deleted": deleted,
        "unsought": F.coalesce(nobody & ~searched & ~deleted, F.lit(False)),
    }
    return joined.withColumns(told).drop("low", "reached", "complete")


def lost(values: DataFrame) -> DataFrame:
    """Return the rows of `values` that were acknowledged and that the final read lacks.

    Only offsets that the final read certainly covered count: elsewhere a record is unseen.
    """
    # A value may lie in several partitions, its own among them.
    elsewhere = ~F.col("partition").between(F.col("final_partition"), F.col("final_partition_high"))
    absent = (F.col("finals") == 0) | F.coalesce(elsewhere, F.lit(False))
    return values.where((F.col("type") == "ok") & F.col("searched") & absent)


def on_every_replica() -> Column:
    """Return whether every replica has a lost record, and nothing else at its offset.

    By `held_by`, `lacking` and `replaced_on` of `located`. Before 0.11 a follower copies a set of
    messages that begins below the end of its log: who comes to it is given what lay there before.
    """
    none_lacks = F.coalesce(F.length("lacking"), F.lit(0)) == 0
    is_readable = none_lacks & F.col("replaced_on").isNull()
    return F.coalesce((F.length("held_by") > 0) & is_readable, F.lit(False))
