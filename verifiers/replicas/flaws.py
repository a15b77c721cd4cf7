"""What is wrong in a replica's own log: bytes that changed, offsets that are missing or twice."""

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from verifiers.replicas.batches import BATCH_SCHEMA, Stretch, Summary
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, struct

DAMAGE_SCHEMA = struct(
    broker=INT, topic=TEXT, partition=INT, segment=TEXT, position=LONG, size=LONG, offset=LONG,
    last_offset=LONG, in_sync=BOOL, problem=TEXT,
)  # fmt: skip
"""One row per batch below the high watermark that is not as its leader appended it.

`problem` is "checksum" if it does not fit; else why the bytes from `position` on, `size` of them,
are no batch at all, and `last_offset` is null. `in_sync` tells whether the replica was in the ISR
at the end.
"""

_REPLICA_SCHEMA = struct(broker=INT, topic=TEXT, partition=INT, in_sync=BOOL, bound=LONG)


def damaged(
    spark: SparkSession, batches: DataFrame, summaries: Sequence[Summary]
) -> DataFrame | None:
    """Return the batches below the high watermark that are not as they were (DAMAGE_SCHEMA).

    None if the summaries tell of no such batch.
    """
    rows = [
        (*summary.replica.key, bool(summary.replica.in_sync), summary.bound)
        for summary in summaries
        if summary.damaged
    ]
    garbage = [
        (
            *summary.replica.key,
            *(stretch.segment, stretch.position, stretch.size_bytes, stretch.offset, None),
            *(bool(summary.replica.in_sync), stretch.problem),
        )
        for summary in summaries
        for stretch in _lost(summary)
    ]
    if not rows and not garbage:
        return None
    replicas = F.broadcast(frame_of(spark, rows, _REPLICA_SCHEMA))
    changed = (
        batches.where(~F.col("intact"))
        .join(replicas, ["broker", "topic", "partition"])
        .where(F.col("base_offset") < F.col("bound"))
        .withColumn("offset", F.col("base_offset"))
        .withColumn("problem", F.lit("checksum"))
        .select(*DAMAGE_SCHEMA.names)
    )
    return changed.unionByName(frame_of(spark, garbage, DAMAGE_SCHEMA))


def _lost(summary: Summary) -> list[Stretch]:
    """Return the stretches in place of which records must lie.

    Half a batch at the end of a log outside the ISR is how a killed broker leaves it: it lags.
    """
    may_lag = summary.replica.in_sync is False
    return [
        stretch
        for stretch in summary.garbage
        if stretch.offset < summary.bound and not (may_lag and stretch.problem == "truncated")
    ]


def of_keys(batches: DataFrame, columns: Sequence[str], keys: Collection[Any]) -> DataFrame:
    """Return the batches that have one of some keys in some columns of BATCH_SCHEMA."""
    schema = StructType([BATCH_SCHEMA[name] for name in columns])
    chosen = frame_of(batches.sparkSession, sorted(keys), schema)
    return batches.join(F.broadcast(chosen), list(columns), "left_semi")
