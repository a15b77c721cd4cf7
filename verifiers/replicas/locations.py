"""Where lost records still lie, and who cut them away."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from verifiers.frames.records import on_every_replica
from verifiers.replicas.copied import FOR_EVER, Copied, Replica
from verifiers.replicas.cuts import Cut
from verifiers.replicas.records import read_batch, values_in
from verifiers.run_folder.member import name_in
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, LONG, TEXT, struct

_BLOCK_BITS = 8

LOCATION_SCHEMA = struct(
    topic=TEXT, partition=INT, value=LONG, held_by=TEXT, lacking=TEXT, cut_by=TEXT, cut_to=TEXT,
    cut_at_utc=TEXT, cut_epoch=TEXT, replaced_on=TEXT, marker=TEXT, marker_at=LONG,
)  # fmt: skip
"""One row per lost record whose offset is known.

`held_by` and `lacking` are brokers that have a replica, `replaced_on` those of them on which
another record lies at its offset, null if on none. `cut_by` are those whose logs tell that they cut
theirs at or below the record, nearest to it; `cut_to` and `cut_at_utc` say where and when, in the
same order; null if nobody told. `cut_epoch` is the leader epoch whose interval covers the
offset now: the one under which the log went on without the record. `marker` says how the
transaction of a record that every replica has was ended, commit or abort, and `marker_at` where.
"""

_RECORDS_SCHEMA = ArrayType(struct(offset=LONG, value=LONG))
_STRETCH_SCHEMA = struct(
    topic=TEXT, partition=INT, since=LONG, until=LONG, cut_by=TEXT, cut_to=TEXT, cut_at_utc=TEXT,
    cut_epoch=TEXT, replicas=TEXT,
)  # fmt: skip


def locate(
    spark: SparkSession,
    lost: DataFrame,
    batches: DataFrame,
    copied: Copied,
    homes: Mapping[str, str],
) -> DataFrame:
    """Return where lost records lie, and who cut them (LOCATION_SCHEMA).

    Of `lost` the columns topic, partition, offset and value are read; the offset may be null.
    `batches` are those of all replicas (BATCH_SCHEMA).
    """

    def records(segment: str, position: int, size: int) -> list[tuple[int, int | None]]:
        return values_in(read_batch(name_in(homes, segment), position, size))

    read = F.udf(records, _RECORDS_SCHEMA, useArrow=False)
    wanted = lost.where(F.col("offset").isNotNull() & F.col("partition").isNotNull()).select(
        "topic", "partition", "offset", "value", F.shiftright("offset", _BLOCK_BITS).alias("block")
    )
    near = batches.where(F.col("problem").isNull()).select(
        "topic", "partition", "broker", "segment", "position", "size", "base_offset",
        "last_offset", "producer_id", F.explode(F.sequence(
            F.shiftright("base_offset", _BLOCK_BITS), F.shiftright("last_offset", _BLOCK_BITS)
        )).alias("block"),
    )  # fmt: skip
    asked = near.join(
        wanted.select("topic", "partition", "block").distinct(),
        ["topic", "partition", "block"],
        "left_semi",
    )
    found = (
        asked.drop("block")
        .distinct()
        .withColumn("record", F.explode(read("segment", "position", "size")))
        .select(
            "topic", "partition", "record.offset", F.col("record.value").alias("found"),
            F.col("broker").cast("string"), "producer_id",
        )
    )  # fmt: skip
    is_it = F.col("found").eqNullSafe(F.col("value"))
    placed = (
        wanted.join(found, ["topic", "partition", "offset"], "left")
        .groupBy("topic", "partition", "offset", "value")
        .agg(
            F.array_sort(F.collect_set(F.when(is_it, F.col("broker")))).alias("holders"),
            F.array_sort(F.collect_set(F.when(~is_it, F.col("broker")))).alias("others"),
            F.max(F.when(is_it, F.col("producer_id"))).alias("producer_id"),
        )
    )
    stretches = F.broadcast(frame_of(spark, _stretches(copied), _STRETCH_SCHEMA))
    within = (F.col("offset") >= F.col("since")) & (F.col("offset") < F.col("until"))
    lacking = F.array_except(F.split("replicas", ","), F.col("holders"))
    located = (
        placed.join(stretches, ["topic", "partition"])
        .where(within)
        .withColumn("held_by", F.array_join("holders", ","))
        .withColumn("lacking", F.array_join(lacking, ","))
        .withColumn("replaced_on", F.array_join(F.when(F.size("others") > 0, F.col("others")), ","))
    )
    return _with_markers(located, batches).select(*LOCATION_SCHEMA.names)


def _with_markers(located: DataFrame, batches: DataFrame) -> DataFrame:
    """Return located records with the first marker behind those that every replica has."""
    key = ["topic", "partition", "producer_id"]
    markers = batches.where(F.col("problem").isNull() & F.col("marker").isNotNull()).select(
        *key, F.struct(F.col("base_offset").alias("at"), "marker").alias("end")
    )
    held = located.where(on_every_replica())
    first = (
        held.join(markers, key)
        .where(F.col("end.at") > F.col("offset"))
        .groupBy("topic", "partition", "value")
        .agg(F.min("end").alias("end"))
        .select(
            "topic", "partition", "value", F.col("end.marker").alias("marker"),
            F.col("end.at").alias("marker_at"),
        )
    )  # fmt: skip
    return located.join(first, ["topic", "partition", "value"], "left")


def _stretches(copied: Copied) -> list[tuple[object, ...]]:
    """Return the offsets of each partition in stretches between which nothing changes.

    Within one the same truncations are the nearest, and the same epoch covers it: there are a few
    dozen, however many records were lost.
    """
    rows: list[tuple[object, ...]] = []
    for tp, replicas in copied.by_partition().items():
        cuts = [cut for cut in copied.cuts if cut.topic_partition == tp]
        epochs = _authority(replicas).epochs or ()
        points = sorted({0, *(cut.to for cut in cuts), *(first for _, first in epochs)})
        everybody = ",".join(str(replica.broker) for replica in replicas)
        for since, until in zip(points, [*points[1:], FOR_EVER], strict=True):
            near = _nearest(cuts, since)
            epoch = [number for number, first in epochs if first <= since]
            rows.append(
                (
                    *tp, since, until,
                    ",".join(cut.who for cut in near) or None,
                    ",".join(str(cut.to) for cut in near) or None,
                    ",".join(cut.at_utc for cut in near) or None,
                    str(epoch[-1]) if epoch else None,
                    everybody,
                )
            )  # fmt: skip
    return rows


def _nearest(cuts: Sequence[Cut], offset: int) -> list[Cut]:
    """Return the truncations nearest at or below an offset, of each broker the first.

    A log grows between two truncations, so what a broker cut away was cut by the nearest.
    """
    below = [cut for cut in cuts if cut.to <= offset]
    highest = max((cut.to for cut in below), default=0)
    first = {cut.broker: cut for cut in reversed(below) if cut.to == highest}
    return sorted(first.values(), key=attrgetter("at_utc", "broker"))


def _authority(replicas: Sequence[Replica]) -> Replica:
    return max(
        replicas, key=lambda replica: (replica.leads, bool(replica.in_sync), -replica.broker)
    )
