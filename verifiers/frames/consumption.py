"""What consumer groups processed and committed, from the events of their members.

A poll alone proves nothing about a group: what counts is whether a member had processed a record
before it died. So a member records one event for each record that it processed, and records how it
commits when it subscribes.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EXACTLY_ONCE = "transactional"
"""How a group commits whose offsets are part of the transactions that it is polled in."""

TELLS_GROUP = ("subscribe", "assign", "audit")
"""The events by which a client names its group; the last one only asks for committed offsets."""

AT_MOST_ONCE = "before-processing"
"""How a group commits that processes only what an acknowledged commit covers already."""

MAY_SKIP = ("auto-delivered", AT_MOST_ONCE)
"""Ways to commit an offset before its record has been processed: at most once."""


def members(events: DataFrame) -> DataFrame:
    """Return who processes records for which group.

    Columns:
        process, group.
        commits: how its offsets are committed, see `workloads.group_member`.
    """
    # A subscriber that does not process records names no group and does not count here. A client
    # that assigns its partitions itself may work for a group too.
    joins = F.col("f").isin(*TELLS_GROUP)
    joined = events.where(joins & F.col("detail").contains(" "))
    return joined.select(
        "process",
        F.substring_index("detail", " ", 1).alias("commits"),
        F.expr("substr(detail, instr(detail, ' ') + 1)").alias("group"),
    ).distinct()


def processing(events: DataFrame) -> DataFrame:
    """Return one row for each time that a member of a group processed a record.

    Columns:
        group, commits, process, topic, partition, offset.
        op: number of the poll that gave it; null if the client does not tell.
        time_ns: when it had been processed.
    """
    done = events.where(F.col("f") == "processed").select(
        "process", "op", "topic", "partition", "offset", "time_ns"
    )
    return done.join(F.broadcast(members(events)), "process")


def acknowledged(events: DataFrame) -> DataFrame:
    """Return the commits that the group's coordinator acknowledged.

    Columns:
        group, topic, partition.
        committed: the offset committed: that of the next record to be read.
        committed_by, committed_ns: the member, and when it was told.
    """
    commits = events.where((F.col("f") == "committed") & F.col("offset").isNotNull()).select(
        *("process", "topic", "partition"),
        F.col("offset").alias("committed"),
        F.col("time_ns").alias("committed_ns"),
    )
    return _of_groups(commits, events).withColumnRenamed("process", "committed_by")


def fetched(events: DataFrame) -> DataFrame:
    """Return the committed offsets that members were told when they asked for them.

    Columns:
        group, process, topic, partition.
        fetched: the committed offset; null if the coordinator knew of none.
        asked_ns, time_ns: when it was asked and when it was answered.
    """
    answers = events.where(F.col("f") == "offset-fetch").select(
        *("process", "topic", "partition", "time_ns"),
        F.col("offset").alias("fetched"),
        F.col("detail").cast("long").alias("asked_ns"),
    )
    return _of_groups(answers, events)


def with_copy_destroyed(rows: DataFrame, taken_commits: DataFrame, gone_ns: str) -> DataFrame:
    """Return rows with a column `destroyed`: whether a fault had taken a copy of a commit.

    Which partition of the offsets topic holds the commits of a group is not asked: what a fault
    takes from any of them counts.

    Args:
        rows: with `topic`, and with `committed_ns`, when what is gone had been acknowledged.
        taken_commits: the frame of that name.
        gone_ns: the column that says by when it was gone.
    """
    between = F.exists("taken_ns", lambda at: (F.col("committed_ns") < at) & (at <= F.col(gone_ns)))
    return (
        rows.join(F.broadcast(taken_commits), "topic", "left")
        .withColumn("destroyed", F.coalesce(between, F.lit(False)))
        .drop("taken_ns")
    )


def _of_groups(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Return the rows of members, by `process`, with the group of each."""
    return rows.join(F.broadcast(members(events).select("process", "group")), "process")
