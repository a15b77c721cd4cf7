"""What the frames of op histories are made of: logs, and what is known of each value.

Each is a frame keyed by run; the definitions are those of Jepsen's Kafka checker.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from verifiers.ops.edges import place_of
from verifiers.ops.first_look import FAIL, INFO, OK
from verifiers.ops.kept import Kept

FEW_SENDS = 200_000
"""So many sends of unknown outcome are broadcast; more are shuffled."""

_VALUE = ("run", "key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The shared frames of some op histories; `committed`, `log` and `values` are persisted.

    Attributes:
        mops: the values that ops sent and polled of the keys that are looked at (MOPS_SCHEMA).
        committed: ops of unknown outcome that are known to have happened: run, op. One of the
            values they wrote was read by an OK op.
        log: one row per value at an offset: run, key, offset, index (dense, from 0), value,
            lowest and highest (of the values at that offset).
        values: one row per value that was sent, or lies in a log (see `values_of`).
    """

    mops: DataFrame
    committed: DataFrame
    log: DataFrame
    values: DataFrame


def versions_of(
    mops: DataFrame, kept: Kept, *, indeterminate: int, keys: DataFrame | None = None
) -> Versions:
    """Return the shared frames.

    Args:
        mops: the values that ops sent and polled (MOPS_SCHEMA).
        kept: holds those that are persisted.
        indeterminate: how many values ops of unknown outcome have sent.
        keys: the keys that are checked: run, key; None is all. All frames but `committed` are of
            these alone: what an op sent to one key may prove it to have happened in another.
    """
    committed = kept.keep(_committed(mops, indeterminate))
    if keys is not None:
        mops = mops.join(F.broadcast(keys), ["run", "key"], "left_semi")
    log = kept.keep(log_of(mops, committed, indeterminate=indeterminate))
    values = kept.keep(values_of(mops, log))
    return Versions(mops=mops, committed=committed, log=log, values=values)


def _committed(mops: DataFrame, indeterminate: int) -> DataFrame:
    sent = mops.where((F.col("type") == "info") & (F.col("kind") == "send")).select(*_VALUE, "op")
    if indeterminate == 0:
        return sent.select("run", "op").limit(0)
    read = mops.where((F.col("type") == "ok") & (F.col("kind") == "poll")).select(*_VALUE)
    if indeterminate <= FEW_SENDS:
        sent = F.broadcast(sent)
    return read.join(sent, list(_VALUE)).select("run", "op").distinct()


def log_of(mops: DataFrame, committed: DataFrame, *, indeterminate: int = 1) -> DataFrame:
    """Return the values that are known at each offset (see `Versions.log`).

    The evidence are polls of ops of every type, and sends with a known offset of ops that happened.
    Empty offsets have no index, so transaction markers leave no gaps.
    """
    polled = F.col("kind") == "poll"
    placed = (F.col("kind") == "send") & F.col("offset").isNotNull()
    evidence = mops.where(polled | (placed & (F.col("type") == "ok")))
    columns = ("run", "key", "offset", "value")
    evidence = evidence.select(*columns)
    if indeterminate:
        unknown = mops.where(placed & (F.col("type") == "info"))
        proven = unknown.join(committed, ["run", "op"], "left_semi").select(*columns)
        evidence = evidence.unionByName(proven)
    in_order = Window.partitionBy("run", "key").orderBy("offset")
    there = Window.partitionBy("run", "key", "offset")
    return evidence.distinct().select(
        *columns,
        (F.dense_rank().over(in_order) - 1).cast("long").alias("index"),
        F.min("value").over(there).alias("lowest"),
        F.max("value").over(there).alias("highest"),
    )


def code_of_type() -> Column:
    """Return the type of an op as a number: OK, INFO or FAIL; the least is the most certain."""
    of_type = F.col("type")
    return F.when(of_type == "ok", OK).when(of_type == "info", INFO).otherwise(FAIL)


def values_of(mops: DataFrame, log: DataFrame) -> DataFrame:
    """Return what is known of each value, in one shuffle.

    Columns:
        run, key, value: the key.
        writer, writer_type, writer_process: the last op that wrote it; null if none did.
        sends: how many micro-ops wrote it.
        acked: whether an OK op wrote it.
        place: where in the history that op stands (edges.py).
        reader: the first OK op that read it; null if none did.
        first, latest: its lowest and highest dense index; null if it lies in no log.
        last: the highest of those that the version order leaves it.
        places: at how many offsets it lies.
        lowest_offset, highest_offset: of these.
    """
    sent, ok = F.col("kind") == "send", F.col("type") == "ok"
    touched = mops.select(
        *_VALUE,
        F.when(sent, F.col("op")).alias("writer"),
        F.when(sent, code_of_type()).alias("code"),
        F.when(sent, F.col("process")).alias("process"),
        F.when(sent, place_of()).alias("place"),
        F.when(~sent & ok, F.col("op")).alias("reader"),
    )
    lying = log.select(
        *_VALUE,
        "index",
        "offset",
        F.when(F.col("value") == F.col("lowest"), F.col("index")).alias("order"),
    )
    return (
        touched.unionByName(lying, allowMissingColumns=True)
        .groupBy(*_VALUE)
        .agg(
            F.max("writer").alias("writer"),
            F.max_by("code", "writer").alias("code"),
            F.max_by("process", "writer").alias("writer_process"),
            F.max_by("place", "writer").alias("place"),
            F.count("writer").alias("sends"),
            F.min("code").alias("best"),
            F.min("reader").alias("reader"),
            F.min("index").alias("first"),
            F.max("index").alias("latest"),
            F.max("order").alias("last"),
            F.count("index").alias("places"),
            F.min("offset").alias("lowest_offset"),
            F.max("offset").alias("highest_offset"),
        )
        .withColumn("writer_type", _type(F.col("code")))
        .withColumn("acked", F.coalesce(F.col("best") == OK, F.lit(False)))
        .drop("code", "best")
    )


def _type(code: Column) -> Column:
    return F.when(code == OK, "ok").when(code == INFO, "info").when(code == FAIL, "fail")
