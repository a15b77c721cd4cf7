"""Records below a group's committed offset that no member of the group processed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.consumption import MAY_SKIP, acknowledged, fetched, members
from verifiers.frames.history import readable

_PLACE = ("group", "topic", "partition", "offset")


@checker(
    "consume-skip",
    severity=Severity.PASSED_OVER,
    one="record was passed over by a group",
    many="records were passed over by a group",
)
def consume_skip(
    processing: DataFrame, events: DataFrame, polls: DataFrame, final: DataFrame
) -> DataFrame:
    """Return the records below a group's committed offset that no member processed.

    A group begins at the beginning of its partitions. Records above the highest committed offset
    that was acknowledged, or found by those who came after, may still be processed, so they do not
    count. Records that the final read lacks do not count either: they are lost to every reader.

    Returns:
        One row per group and record. `given_to` in the detail is the member that was given it last,
        absent if none was; the time is that of this poll. The kind is how the group commits; of
        several ways the weakest.

    Source: at most once, in Kafka's documentation of message delivery semantics.
    """
    commits = acknowledged(events).unionByName(
        fetched(events).withColumnRenamed("fetched", "committed"), allowMissingColumns=True
    )
    known = commits.groupBy("group", "topic", "partition").agg(
        F.max("committed").alias("committed")
    )
    group_members = members(events)
    weak = F.when(F.col("commits").isin(*MAY_SKIP), F.col("commits"))
    kinds = group_members.groupBy("group").agg(
        F.coalesce(F.min(weak), F.min("commits")).alias("kind")
    )
    due = (
        readable(final)
        .select("topic", "partition", "offset", "value")
        .join(F.broadcast(known), ["topic", "partition"])
        .where(F.col("offset") < F.col("committed"))
        .dropDuplicates(list(_PLACE))
    )
    skipped = due.join(processing.select(*_PLACE), list(_PLACE), "left_anti")
    given = (
        polls.join(F.broadcast(group_members.select("process", "group")), "process")
        .groupBy(*_PLACE)
        .agg(F.max_by("process", "time_ns").alias("given_to"), F.max("time_ns").alias("time_ns"))
    )
    rows = skipped.join(given, list(_PLACE), "left").join(F.broadcast(kinds), "group")
    return offences(rows, process="given_to", detail=columns("group", "committed", "given_to"))
