"""Records that were read or written out of order: the frames `turns` and `producing`."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.frames.history import History


def turns(history: History, presorted: DataFrame | None = None) -> DataFrame:
    """Return where a consumer received something other than a partition's next offset.

    Consecutive records of one process and one partition are compared, in the order in which the
    process received them. Only the records in `presorted` are compared (scanning/presorted.py); if
    it is None, all polls are sorted and compared.

    Columns:
        process, topic, partition, mode: which consumer, where; mode is assign or subscribe.
        op, offset, value, time_ns: the later record, by the number of its poll.
        prev_op, prev_offset, prev_value, prev_ns: the earlier one.
        internal: whether one poll gave both.
    """
    order = Window.partitionBy("process", "topic", "partition").orderBy("time_ns", "op", "position")
    # Rows that were left out between two rows of one batch followed each other offset by offset.
    left_out = (F.col("batch") == F.lag("batch").over(order)) & (
        F.col("place") - F.lag("place").over(order) > 1
    )
    neighbours = (history.polls if presorted is None else presorted).select(
        *("process", "topic", "partition", "op", "offset", "value", "time_ns"),
        *(F.lag(name).over(order).alias(f"prev_{name}") for name in ("op", "offset", "value")),
        F.lag("time_ns").over(order).alias("prev_ns"),
        (F.lit(False) if presorted is None else F.coalesce(left_out, F.lit(False))).alias("plain"),
    )
    mode = F.when(F.col("process").isin(*sorted(history.subscribed)), "subscribe")
    turned = (F.col("offset") != F.col("prev_offset") + 1) & ~F.col("plain")
    modes = {
        "mode": mode.otherwise("assign") if history.subscribed else F.lit("assign"),
        "internal": F.col("op") == F.col("prev_op"),
    }
    return neighbours.where(turned).withColumns(modes).drop("plain")


def producing(history: History, values: DataFrame, presorted: DataFrame | None = None) -> DataFrame:
    """Return consecutive sends of one producer to one partition that the log holds reversed.

    Sends that are ok or info and whose partition is known are compared in the order of their
    sequence numbers. The position of a send is the offset at which the final read found it, or else
    its acknowledged offset, or else the one at which its value was read; if it lies at several of
    these, the last of them, as in the version order of Jepsen. Sends without a known position are
    left out. Two sends are not compared if the producer was rebuilt between them: a request of the
    old producer may still wait in the socket of a frozen broker, and be appended after the requests
    of the new one. Only the sends in `presorted` are compared (scanning/presorted.py); if it is
    None, all sends are sorted and compared.

    Columns:
        process, topic, partition: which producer, where.
        op, value, position, complete_ns: the later send.
        prev_op, prev_value, prev_position: the earlier one.
        internal: whether both were sent in one transaction.
        kind: "lost" if the final read lacks one of the two, or did not get to it; else "duplicate"
            if one lies at several offsets, else "order".
    """
    # The offset of a send proves nothing unless the send is known to have happened.
    acknowledged = F.when(F.col("type") == "ok", F.col("offset"))
    every = history.sends.where(F.col("type").isin("ok", "info")).withColumn("offset", acknowledged)
    sends = (every if presorted is None else presorted).select(
        "process", "topic", "value", "op", "complete_ns", "txn", "partition", "offset"
    )
    suspicious = values.where(values["type"].isin("ok", "info")).select(
        *("topic", "value", F.coalesce("final_last", "last").alias("last")),
        F.coalesce("partition", "final_partition", "poll_partition").alias("seen_partition"),
        F.when((values["finals"] == 0) & ~values["deleted"], 2)
        .when(values["first"] < values["last"], 1)
        .otherwise(0)
        .alias("flaw"),
    )
    placed = sends.join(suspicious, ["topic", "value"], "left").select(
        *("process", "topic", "value", "op", "complete_ns", "txn"),
        F.coalesce("partition", "seen_partition").alias("partition"),
        F.coalesce("last", "offset").alias("position"),
        F.coalesce("flaw", F.lit(0)).alias("flaw"),
    )
    order = Window.partitionBy("process", "topic", "partition").orderBy("op")
    neighbours = placed.where(F.col("partition").isNotNull()).select(
        "*",
        *(F.lag(name).over(order).alias(f"prev_{name}") for name in ("op", "value", "position")),
        F.coalesce(F.col("txn") == F.lag("txn").over(order), F.lit(False)).alias("internal"),
        F.greatest("flaw", F.lag("flaw").over(order)).alias("worst"),
    )
    kind = F.when(F.col("worst") == 2, "lost").when(F.col("worst") == 1, "duplicate")
    reversed_ = neighbours.where(F.col("position") <= F.col("prev_position"))
    return (
        _of_one_producer(reversed_, history.events)
        .withColumn("kind", kind.otherwise("order"))
        .drop("txn", "flaw", "worst")
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
