"""Replica logs in which offsets are missing or occur twice."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns

_PLACE = ("topic", "partition")


@checker(
    "replica-gap",
    severity=Severity.DIFFERENT,
    one="place in a replica's log where batches do not follow each other",
    many="places in replicas' logs where batches do not follow each other",
)
def replica_gap(disjoint: DataFrame) -> DataFrame:
    """Return where a replica's batches do not follow each other.

    A compressed set of the formats before v2 does not say where it begins, so that a hole before
    one is not seen.

    Returns:
        One row per place; offset is the first that the batch behind it has. Kind "gap" if offsets
        are missing before it that another replica holds: `missing_from` is the first of them,
        `held_by` who; "overlap" if it begins below the end of the batch before it; "backwards" if
        it begins at or below that one's beginning. Offsets that
        all replicas lack do not count: retention and compaction remove records in the same way.

    Source: Kafka documentation, replication design: a log's offsets are assigned one by one by the
        leader, and followers copy its batches as they are.
    """
    order = Window.partitionBy("broker", *_PLACE).orderBy("segment", "position")
    steps = disjoint.select(
        "broker",
        *_PLACE,
        "segment",
        "position",
        "base_offset",
        "last_offset",
        F.lag("base_offset").over(order).alias("before"),
        (F.lag("last_offset").over(order) + 1).alias("expected"),
    )
    detail = columns("broker", "segment", "position", "last_offset", "expected")
    falling = offences(
        steps.where(F.col("base_offset") < F.col("expected")),
        offset="base_offset",
        kind=F.when(F.col("base_offset") <= F.col("before"), "backwards").otherwise("overlap"),
        detail=detail,
    )
    gaps = _held_elsewhere(steps.where(F.col("base_offset") > F.col("expected")), disjoint)
    missing = offences(
        gaps,
        offset="base_offset",
        kind=F.lit("gap"),
        detail={
            **detail,
            **columns("held_by", missing_from="expected"),
            "missing": F.col("base_offset") - F.col("expected"),
        },
    )
    return falling.unionByName(missing)


def _held_elsewhere(gaps: DataFrame, batches: DataFrame) -> DataFrame:
    """Return the gaps in which another replica holds a record, with the replicas that do.

    Each gap is sorted by offset among the batches of every other replica. Of the batches that begin
    before the gap ends, the highest offset tells whether the replica holds any of it. This takes
    one sort, however wide the gaps are.
    """
    others = batches.select(*_PLACE, F.col("broker").alias("other")).distinct()
    asked = gaps.join(F.broadcast(others), list(_PLACE)).where(F.col("other") != F.col("broker"))
    asked = asked.withColumn("at", F.col("base_offset"))
    laid = batches.select(
        *_PLACE,
        F.col("broker").alias("other"),
        F.col("base_offset").alias("at"),
        F.col("last_offset").alias("holds"),
    )
    # A batch that begins where the gap ends comes after the gap.
    order = (
        Window.partitionBy(*_PLACE, "other")
        .orderBy("at", F.col("holds").isNotNull())
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    with_gaps = asked.unionByName(laid, allowMissingColumns=True).withColumn(
        "highest", F.max("holds").over(order)
    )
    held = with_gaps.where(F.col("broker").isNotNull() & (F.col("highest") >= F.col("expected")))
    return held.groupBy(*gaps.columns).agg(
        F.array_join(F.array_sort(F.collect_set(F.col("other").cast("string"))), ",").alias(
            "held_by"
        )
    )
