"""What the rules count in a history: by one job of Spark, whatever its length."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from verifiers.frames.history import History
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.member import Member, number_of
from verifiers.scanning import offsets

_POSITION_BITS = 20
"""A poll gives fewer records than two to the power of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCount:
    """What one client read of one partition.

    Attributes:
        rows: how many records it was given.
        first: the offset of the first one, in the order in which it was given them.
        last: the highest offset.
    """

    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """What became of the acknowledged records that may not be in order.

    Attributes:
        doubtful: how many those are.
        found: of these, in the final read.
        lost: of these, in no place that the final read covered.
        unseen: of these, read by nobody where the final read did not get to.
        deleted: of these, below the first offset of their log.
        twice: how many values were sent more than once.
    """

    doubtful: int = 0
    found: int = 0
    lost: int = 0
    unseen: int = 0
    deleted: int = 0
    twice: int = 0


_FATES = tuple(fate.name for fate in fields(Fates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted in the history of one run.

    Attributes:
        polls: by process and partition.
        final: what the final read gave, by partition; the lowest offset as the first.
        fates: of acknowledged records.
        gaps: how many offsets of a replica hold control records, and how many hold records of
            aborted transactions, by broker and partition; empty if there were no transactions.
    """

    polls: Mapping[tuple[int, TopicPartition], ReadCount] = field(default_factory=dict)
    final: Mapping[TopicPartition, ReadCount] = field(default_factory=dict)
    fates: Fates = field(default_factory=Fates)
    gaps: Mapping[tuple[int, TopicPartition], tuple[int, int]] = field(default_factory=dict)


def count(
    history: History,
    values: DataFrame,
    log: DataFrame,
    batches: DataFrame,
    members: Sequence[Member],
) -> dict[int, Counted]:
    """Return what was counted in the history of each member, by its number.

    Args:
        history: the recorded frames.
        values: what is known of the values that may not be in order (frames/records.py).
        log: which offsets hold a record (scanning/offsets.py).
        batches: of all replicas (BATCH_SCHEMA).
        members: whose history it is.
    """
    parts = [_polls(history.polls), _final(log), _fates(values)]
    if history.transactional:
        parts.append(_gaps(batches, history.ends))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    of_member: dict[int, list[Row]] = {member.number: [] for member in members}
    for row in rows.collect():
        of_member[number_of(row["topic"])].append(row)
    return {member.number: _counted(of_member[member.number], member) for member in members}


def _polls(polls: DataFrame) -> DataFrame:
    place = F.shiftleft("op", _POSITION_BITS) + F.col("position")
    return polls.groupBy("topic", "partition", "process").agg(
        F.lit("poll").alias("what"),
        F.count("*").alias("rows"),
        F.min_by("offset", place).alias("first"),
        F.max("offset").alias("last"),
    )


def _final(log: DataFrame) -> DataFrame:
    block = F.struct("block", F.col("final_bits").alias("bits"))
    return (
        log.where(F.col("final_reads") > 0)
        .groupBy("topic", "partition")
        .agg(
            F.lit("final").alias("what"),
            F.sum("final_reads").alias("rows"),
            F.min(block).alias("low"),
            F.max(block).alias("high"),
        )
    )


def _fates(values: DataFrame) -> DataFrame:
    acked = F.col("type") == "ok"
    absent = acked & (F.col("finals") == 0) & ~F.col("deleted")
    return values.groupBy("topic").agg(
        F.lit("value").alias("what"),
        F.count_if(acked).alias("doubtful"),
        F.count_if(acked & (F.col("finals") > 0)).alias("found"),
        F.count_if(absent & F.col("searched")).alias("lost"),
        F.count_if(absent & ~F.col("searched") & (F.col("polls") == 0)).alias("unseen"),
        F.count_if(acked & (F.col("finals") == 0) & F.col("deleted")).alias("deleted"),
        F.count_if(F.col("sends") > 1).alias("twice"),
    )


def _gaps(batches: DataFrame, ends: DataFrame) -> DataFrame:
    """Return how many offsets of each replica no read_committed reader is given.

    Only what the final read covered counts: coordinators may end transactions after it.
    """
    later = (
        Window.partitionBy("broker", "topic", "partition", "producer_id")
        .orderBy("base_offset")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    marker = F.first("marker", ignorenulls=True).over(later)
    size = F.col("last_offset") - F.col("base_offset") + 1
    aborted = F.col("is_transactional") & ~F.col("is_control") & (F.col("ends_by") == "abort")
    covered = F.broadcast(ends.select("topic", "partition", "low", "reached"))
    return (
        batches.where(F.col("problem").isNull() & F.col("is_transactional"))
        .withColumn("ends_by", marker)
        .join(covered, ["topic", "partition"])
        .where(F.col("base_offset").between(F.col("low"), F.col("reached") - 1))
        .groupBy("topic", "partition", "broker")
        .agg(
            F.lit("gap").alias("what"),
            F.sum(F.when(F.col("is_control"), size).otherwise(0)).alias("control"),
            F.sum(F.when(aborted, size).otherwise(0)).alias("aborted"),
        )
    )


def _counted(rows: Sequence[Row], member: Member) -> Counted:
    polls, final, gaps = {}, {}, {}
    fates = Counter(dict.fromkeys(_FATES, 0))
    for row in rows:
        place = member.own(row["topic"]), row["partition"]
        match row["what"]:
            case "poll":
                read = ReadCount(rows=row["rows"], first=row["first"], last=row["last"])
                polls[row["process"] - member.base, place] = read
            case "final":
                first, _ = offsets.bounds(*row["low"])
                _, last = offsets.bounds(*row["high"])
                final[place] = ReadCount(rows=row["rows"], first=first, last=last)
            case "value":
                fates.update({fate: row[fate] for fate in _FATES})
            case "gap":
                gaps[row["broker"], place] = row["control"], row["aborted"]
    return Counted(polls=polls, final=final, fates=Fates(**fates), gaps=gaps)
