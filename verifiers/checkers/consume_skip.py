"""Records below a group's committed offset that no member of the group processed."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.consumption import MAY_SKIP, acknowledged, fetched, members
from verifiers.frames.history import readable

_GROUP_PARTITION = ("group", "topic", "partition")
_PLACE = (*_GROUP_PARTITION, "offset")


@checker(
    "consume-skip",
    severity=Severity.PASSED_OVER,
    one="record was passed over by a group",
    many="records were passed over by a group",
)
def consume_skip(
    processing: DataFrame, events: DataFrame, polls: DataFrame, final: DataFrame, values: DataFrame
) -> DataFrame:
    """Return the records below a group's committed offset that no member processed.

    A group begins at the beginning of its partitions. Records above the highest committed offset
    that was acknowledged, or found by those who came after, may still be processed, so they do not
    count. Records that the final read lacks do not count either: they are lost to every reader. And
    a commit does not count whose group had last processed a record that was lost since: it says how
    far the group was in a log that was cut off.

    Returns:
        One row per group and record. `given_to` in the detail is the member that was given it last,
        absent if none was; the time is that of this poll. The kind is how the group commits, of
        several ways the weakest; "lost" for a group at least once that had read this far in a log
        that was cut off, and went on from there.

    Source: at most once, in Kafka's documentation of message delivery semantics.
    """
    commits = acknowledged(events).unionByName(
        fetched(events).withColumnsRenamed({"fetched": "committed", "time_ns": "committed_ns"}),
        allowMissingColumns=True,
    )
    group_members = members(events)
    given = polls.join(F.broadcast(group_members.select("process", "group")), "process")
    fates = _with_fate(processing, given, values)
    cuts = _cuts(fates, commits)
    known = (
        commits.groupBy(*_GROUP_PARTITION)
        .agg(F.max("committed").alias("highest"))
        .join(cuts, list(_GROUP_PARTITION), "left")
        .withColumn(
            "committed",
            F.when(F.col("cut_to").isNull(), F.col("highest")).otherwise(F.col("valid")),
        )
    )
    weak = F.when(F.col("commits").isin(*MAY_SKIP), F.col("commits"))
    ways = group_members.groupBy("group").agg(
        F.min(weak).alias("weakest"), F.min("commits").alias("way")
    )
    due = (
        readable(final)
        .select("topic", "partition", "offset", "value")
        .join(F.broadcast(known), ["topic", "partition"])
        .where(F.col("offset") < F.col("committed"))
        .dropDuplicates(list(_PLACE))
    )
    skipped = due.join(fates.where("not gone").select(*_PLACE), list(_PLACE), "left_anti")
    last_given = given.groupBy(*_PLACE, "value").agg(
        F.max_by("process", "time_ns").alias("given_to"), F.max("time_ns").alias("time_ns")
    )
    rows = skipped.join(last_given, [*_PLACE, "value"], "left").join(F.broadcast(ways), "group")
    leapt = (F.col("offset") >= F.col("cut_to")) & (F.col("offset") < F.col("read_to"))
    kind = F.coalesce("weakest", F.when(leapt, "lost"), "way")
    return offences(
        rows, kind=kind, process="given_to", detail=columns("group", "committed", "given_to")
    )


def _with_fate(processing: DataFrame, given: DataFrame, values: DataFrame) -> DataFrame:
    """Return what groups processed, with `gone`: whether the final log lacks it at its offset.

    Args:
        processing: the frame of that name.
        given: what members of groups were given by their polls.
        values: what is known of records that may not be in order.
    """
    lasts = F.col("offset").between(F.col("final_first"), F.col("final_last"))
    searched = values.where("searched").select("topic", "value", "final_first", "final_last")
    poll = ["process", "op", "topic", "partition", "offset"]
    gone = (
        given.join(searched, ["topic", "value"])
        .where(~F.coalesce(lasts, F.lit(False)))
        .select(*poll, F.lit(True).alias("gone"))
        .distinct()
    )
    return processing.join(gone, poll, "left").withColumn("gone", F.coalesce("gone", F.lit(False)))


def _cuts(fates: DataFrame, commits: DataFrame) -> DataFrame:
    """Return the partitions of which a group processed records that were lost since.

    Columns:
        group, topic, partition.
        cut_to: one more than the highest offset of what the group had processed before and that is
            still there; 0 if there is none. The log was cut off there or above.
        read_to: how far the group was in the log that was cut off.
        valid: the highest commit by a group that had last processed what is still there; null if
            there is none.
    """
    places = fates.where("gone").select(*_GROUP_PARTITION).distinct()
    steps = (
        fates.select(*_PLACE, "time_ns", "gone")
        .unionByName(
            commits.select(*_GROUP_PARTITION, "committed", F.col("committed_ns").alias("time_ns")),
            allowMissingColumns=True,
        )
        # There are none in most runs, and the others need not be sorted.
        .join(F.broadcast(places), list(_GROUP_PARTITION), "left_semi")
    )
    here = Window.partitionBy(*_GROUP_PARTITION)
    # Of one moment, the commit is last: a member commits what it has processed.
    until = here.orderBy("time_ns", F.col("committed").isNotNull(), "gone")
    gone_ns = F.max(F.when(F.col("gone"), F.col("time_ns"))).over(here)
    told = steps.select(
        "*",
        F.coalesce(F.last("gone", ignorenulls=True).over(until), F.lit(False)).alias("stale"),
        gone_ns.alias("gone_ns"),
    )
    stays = ~F.col("gone") & (F.col("time_ns") < F.col("gone_ns"))
    return told.groupBy(*_GROUP_PARTITION).agg(
        F.coalesce(F.max(F.when(stays, F.col("offset"))) + 1, F.lit(0)).alias("cut_to"),
        F.max(
            F.coalesce(
                F.when(F.col("gone"), F.col("offset") + 1),
                F.when(F.col("stale"), F.col("committed")),
            )
        ).alias("read_to"),
        F.max(F.when(~F.col("stale"), F.col("committed"))).alias("valid"),
    )
