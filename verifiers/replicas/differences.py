"""Where replicas of one partition hold different batches."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import attrgetter

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from harness.core.grouping import by_key
from harness.core.op import producer_of, sequence_of
from verifiers.replicas.batches import Summary
from verifiers.replicas.records import read_batch, values_in
from verifiers.run_folder.member import name_in
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, struct

SHOWN_VALUES = 8
"""So many values of each side are put into words."""

_KEY = ("base_offset", "last_offset", "crc", "leader_epoch")


DIFFERENCE_SCHEMA = struct(
    topic=TEXT, partition=INT, first=LONG, last=LONG, broker=INT, other_broker=INT, in_sync=BOOL,
    same_records=BOOL, epoch=LONG, other_epoch=LONG, value=LONG, other_value=LONG, holds=TEXT,
    other_holds=TEXT,
)  # fmt: skip
"""One row per pair of batches that two replicas hold for the same offsets, from `first` to `last`.

`broker` is the leader at the end, or who stands for it; `other_broker` differs from it, and was in
the ISR at the end if `in_sync`. `same_records` are the same bytes under another leader epoch.
`holds` and `other_holds` name the values on each side, `producer:sequence`, and `value` and
`other_value` the first of them; an epoch is null where there is no batch, or none of format v2.
"""


def by_partition(summaries: Sequence[Summary]) -> list[list[Summary]]:
    """Return the replicas by partition, first the one that the others are compared with.

    That is the leader at the end; where there is none, a member of the ISR, else the longest log.
    """

    def weight(summary: Summary) -> tuple[bool, bool, int, int]:
        replica = summary.replica
        return (replica.leads, bool(replica.in_sync), summary.end, -replica.broker)

    partitions = by_key(summaries, attrgetter("replica.topic_partition")).values()
    return [sorted(replicas, key=weight, reverse=True) for replicas in partitions]


def are_alike(replicas: Sequence[Summary]) -> bool:
    """Tell whether replicas hold the same batches below the bound."""
    return len(set(map(attrgetter("start", "digest", "compared"), replicas))) == 1


def differences(
    spark: SparkSession,
    batches: DataFrame,
    partitions: Sequence[Sequence[Summary]],
    homes: Mapping[str, str],
) -> DataFrame:
    """Return where replicas hold different batches below the high watermark (DIFFERENCE_SCHEMA).

    A replica outside the ISR may lack the end of the log: that is no difference. Of the batches
    (BATCH_SCHEMA) only those of these partitions (`by_partition`) are looked at, and their records
    in the run's folder.
    """
    members = frame_of(spark, list(map(_members, partitions)), _MEMBERS_SCHEMA)
    compared = batches.where(F.col("problem").isNull()).join(
        F.broadcast(members), ["topic", "partition"]
    )
    compared = compared.where(F.col("base_offset") < F.col("bound")).withColumn(
        "bit", _bits_of(lambda member: member["broker"] == F.col("broker"))
    )
    held = compared.groupBy("topic", "partition", *_KEY).agg(
        F.bit_or("bit").alias("holders"),
        F.first("bound").alias("bound"),
        F.first("members").alias("members"),
    )
    odd = held.withColumn("excused", _excused()).where(
        F.col("holders").bitwiseOR(F.col("excused")) != _all_bits()
    )
    pairs = _pairs(odd)
    placed = _with_place(_with_place(pairs, batches, "broker", ""), batches, "other_broker", "o_")
    read = _reader(homes)
    sides = placed.select(
        "*",
        read("segment", "position", "size", "first", "last").alias("ours"),
        read("o_segment", "o_position", "o_size", "first", "last").alias("theirs"),
    )
    one, other = F.col("batch"), F.col("o_batch")
    same = reduce(Column.__and__, (one[name] == other[name] for name in _KEY[:3]))
    facts = {
        "same_records": F.coalesce(same, F.lit(False)),
        "epoch": one["leader_epoch"].cast("long"),
        "other_epoch": other["leader_epoch"].cast("long"),
        "value": F.col("ours.value"),
        "other_value": F.col("theirs.value"),
        "holds": F.col("ours.holds"),
        "other_holds": F.col("theirs.holds"),
    }
    return sides.withColumns(facts).select(*DIFFERENCE_SCHEMA.names)


_REFERENCE = 1
"""The bit of the replica that the others are compared with."""
_MEMBER = struct(broker=INT, bit=LONG, start=LONG, end=LONG, in_sync=BOOL)
_MEMBERS_SCHEMA = struct(topic=TEXT, partition=INT, bound=LONG, members=ArrayType(_MEMBER))


def _members(replicas: Sequence[Summary]) -> tuple[object, ...]:
    """Return a partition, each replica with a bit of its own."""
    members = [
        (log.replica.broker, 1 << bit, log.start, log.end, bool(log.replica.in_sync))
        for bit, log in enumerate(replicas)
    ]
    return (*replicas[0].replica.topic_partition, replicas[0].bound, members)


def _bits_of(chosen: Callable[[Column], Column]) -> Column:
    """Return the bits of the members that are chosen."""
    return F.aggregate(
        "members",
        F.lit(0).cast("long"),
        lambda bits, member: bits.bitwiseOR(
            F.when(chosen(member), member["bit"]).otherwise(F.lit(0))
        ),
    )


def _all_bits() -> Column:
    return _bits_of(lambda _: F.lit(True))


def _excused() -> Column:
    """Return the bits of those who need not hold a batch: it is below or above all they have."""
    return _bits_of(
        lambda member: (
            (F.col("last_offset") < member["start"])
            | (~member["in_sync"] & (F.col("base_offset") >= member["end"]))
        )
    )


def _pairs(odd: DataFrame) -> DataFrame:
    """Return each pair of differing batches once, with the offsets that both speak of."""

    def has(bits: str) -> Column:
        return F.col(bits).bitwiseAND(F.lit(_REFERENCE)) != 0

    def spread(rows: DataFrame, sign: str, which: Column) -> DataFrame:
        chosen = F.filter("members", lambda member: member["bit"].bitwiseAND(which) != 0)
        last = F.least(F.col("last_offset"), F.col("bound") - 1)
        return rows.withColumn("member", F.explode(chosen)).select(
            "topic",
            "partition",
            F.col("member")["broker"].alias("other_broker"),
            F.col("member")["in_sync"].alias("in_sync"),
            F.col("members")[0]["broker"].alias("broker"),
            F.struct(*_KEY).alias(f"{sign}batch"),
            F.explode(F.sequence("base_offset", last)).alias("offset"),
        )

    absent = _all_bits().bitwiseAND(F.bitwise_not(F.col("holders").bitwiseOR(F.col("excused"))))
    ours = spread(odd.where(has("holders")), "", absent)
    theirs = spread(odd.where(~has("holders") & ~has("excused")), "o_", F.col("holders"))
    # Joined by offset, not by overlap: that grows with what differs, not with its square.
    key = ["topic", "partition", "broker", "other_broker", "in_sync", "offset"]
    met = ours.join(theirs, key, "full_outer")
    return met.groupBy(*key[:-1], "batch", "o_batch").agg(
        F.min("offset").alias("first"), F.max("offset").alias("last")
    )


def _with_place(pairs: DataFrame, batches: DataFrame, who: str, sign: str) -> DataFrame:
    """Add where the batch of one side lies: segment, position and size; null if it has none."""
    lie = batches.where(F.col("problem").isNull()).select(
        "topic",
        "partition",
        F.col("broker").alias(who),
        F.struct(*_KEY).alias(f"{sign}batch"),
        F.col("segment").alias(f"{sign}segment"),
        F.col("position").alias(f"{sign}position"),
        F.col("size").alias(f"{sign}size"),
    )
    batch = f"{sign}batch"
    return pairs.join(lie, ["topic", "partition", who, batch], "left")


_SIDE_SCHEMA = struct(value=LONG, holds=TEXT)


def _reader(homes: Mapping[str, str]) -> Callable[..., Column]:
    """Return the function that reads one side of a pair: its first value, and all in words."""

    def side(
        segment: str | None, position: int, size: int, first: int, last: int
    ) -> tuple[int | None, str]:
        if segment is None:
            return None, "nothing"
        batch = read_batch(name_in(homes, segment), position, size)
        held = [value for offset, value in values_in(batch) if first <= offset <= last]
        return next((value for value in held if value is not None), None), _in_words(held)

    return F.udf(side, _SIDE_SCHEMA, useArrow=False)


def _in_words(held: Sequence[int | None]) -> str:
    if not held:
        return "a batch without records that could be read"
    records = [
        "a record of no producer of ours"
        if value is None
        else f"{producer_of(value)}:{sequence_of(value)}"
        for value in held[:SHOWN_VALUES]
    ]
    more = len(held) - len(records)
    return " ".join(records) + (f" and {more} more" if more > 0 else "")
