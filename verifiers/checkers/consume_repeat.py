"""Records that a consumer group processed more than once."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.consumption import (
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    acknowledged,
    with_copy_destroyed,
)


@checker(
    "consume-repeat",
    severity=Severity.DELAYED,
    one="record was processed again by a group",
    many="records were processed again by a group",
)
def consume_repeat(
    processing: DataFrame, events: DataFrame, polls: DataFrame, taken_commits: DataFrame
) -> DataFrame:
    """Return the records that a group processed more than once.

    What was written in the place of a lost record is another record.

    Returns:
        One row for each time after the first; the process is the member that did it again, the time
        when it had. Kind "partly-destroyed" if a commit beyond the record had been acknowledged
        before it was given out again, and a fault had destroyed a copy of the last such commit in
        between; else "transactional" if the group's offsets are committed in transactions, so that
        it is promised exactly once; else "committed" if there was such a commit, so nobody had
        reason to; else "before-processing" if the member that had processed it first commits so,
        and therefore had a commit beyond the record in hand before it did: its group has moved on
        without it, and its commit was taken all the same; else "uncommitted".

    Source: at least once, in Kafka's documentation of message delivery semantics.
    """
    place = ["group", "topic", "partition", "offset"]
    # There are few repeats: the others need not be looked up among the polls.
    several = processing.groupBy(*place).count().where("count > 1").select(*place)
    given = polls.select(
        "process", "op", "topic", "partition", "offset", "value", F.col("time_ns").alias("given_ns")
    )
    dated = (
        processing.join(several, place, "left_semi")
        .join(given, ["process", "op", "topic", "partition", "offset"], "left")
        .withColumn("given_ns", F.coalesce("given_ns", "time_ns"))
        # A client that does not tell what it was given was given what the others were.
        .withColumn(
            "value",
            F.coalesce("value", F.min("value").over(Window.partitionBy(*place))),
        )
    )
    order = Window.partitionBy(*place, "value").orderBy("time_ns", "process")
    again = dated.select(
        "*",
        F.lag("process").over(order).alias("after_process"),
        F.lag("time_ns").over(order).alias("after_ns"),
        F.lag("commits").over(order).alias("after_commits"),
    ).where(F.col("after_process").isNotNull())
    commits = acknowledged(events).withColumnsRenamed(
        {"group": "of_group", "topic": "of_topic", "partition": "of_partition"}
    )
    # There are a few commits a second and partition, and few repeats.
    beyond = (
        (F.col("group") == F.col("of_group"))
        & (F.col("topic") == F.col("of_topic"))
        & (F.col("partition") == F.col("of_partition"))
        & (F.col("committed") > F.col("offset"))
        & (F.col("committed_ns") < F.col("given_ns"))
    )
    judged = (
        again.join(commits, beyond, "left")
        .groupBy(*again.columns)
        .agg(F.max("committed").alias("committed"), F.max("committed_ns").alias("committed_ns"))
    )
    told = with_copy_destroyed(judged.drop("value"), taken_commits, "given_ns")
    kind = (
        F.when(F.col("destroyed"), "partly-destroyed")
        .when(F.col("commits") == EXACTLY_ONCE, EXACTLY_ONCE)
        .when(F.col("committed").isNotNull(), "committed")
        .when(F.col("after_commits") == AT_MOST_ONCE, AT_MOST_ONCE)
        .otherwise("uncommitted")
    )
    detail = columns("group", "after_process", "after_ns", "committed", poll="op")
    return offences(told, kind=kind, detail=detail)
