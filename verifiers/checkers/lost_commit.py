"""Acknowledged offset commits that the group coordinator has lost."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.consumption import acknowledged, fetched, with_copy_destroyed


@checker(
    "lost-commit",
    severity=Severity.PASSED_OVER,
    one="acknowledged offset commit was lost",
    many="acknowledged offset commits were lost",
)
def lost_commit(processing: DataFrame, events: DataFrame, taken_commits: DataFrame) -> DataFrame:
    """Return the answers that named an earlier offset than the group had committed.

    Returns:
        One row for each answer that is behind the last commit acknowledged before it was asked for;
        the offset is the one committed, the process the one that asked. `fetched` in the detail is
        what it was told; absent if the coordinator knew of no commit at all. Kind
        "partly-destroyed" if a fault had destroyed a copy of the commit in between, else "in-sync":
        the whole ISR had it.

    Source: KAFKA-5600 and KAFKA-20634, both commits that went back with a new coordinator.
    """
    del processing  # Without it there were no commits.
    asked = fetched(events)
    earlier = (
        asked.join(acknowledged(events), ["group", "topic", "partition"])
        .where(F.col("committed_ns") < F.col("asked_ns"))
        .groupBy(*asked.columns)
        .agg(
            # The last commit, not the highest: a group may be reset to an earlier offset.
            F.max_by("committed", "committed_ns").alias("offset"),
            F.max_by("committed_by", "committed_ns").alias("committed_by"),
            F.max("committed_ns").alias("committed_ns"),
        )
    )
    gone = earlier.where(F.coalesce(F.col("fetched"), F.lit(-1)) < F.col("offset"))
    return offences(
        with_copy_destroyed(gone, taken_commits, "time_ns"),
        kind=F.when(F.col("destroyed"), "partly-destroyed").otherwise("in-sync"),
        detail=columns("group", "fetched", "committed_by", "committed_ns"),
    )
