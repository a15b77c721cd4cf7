"""What was lost, and by what: the frame `losses`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import ANY_PARTITION
from verifiers.frames.records import lost, on_every_replica
from verifiers.frames.shared import shared_frame

_RECORD = ["topic", "value"]


@shared_frame("losses")
def losses(values: DataFrame, located: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return the acknowledged records that the final read lacks, as `lost` has them.

    Columns, besides those of `values` and `located`:
        kind: how it was lost, as `lost-write` has it.
        lost_by: what can have lost it, in words: the first cut that is known to lie below it, or
            else the first thing of all.
    """
    where = located.drop("partition")
    return with_causes(lost(values).join(where, _RECORD, "left"), loss_causes)


def with_causes(absent: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return lost records with `kind` and `lost_by`, as for `losses`.

    Args:
        absent: with topic, partition, offset, value, invoke_ns and complete_ns of the send, and
            held_by, lacking, replaced_on, marker and marker_at as in `located`.
        loss_causes: the frame of that name.
    """
    rows = absent.withColumn("is_held", on_every_replica())
    explained = rows.join(_explained(rows, loss_causes), _RECORD, "left")
    unexplained = F.col("causes").isNull()
    kind = (
        F.when(F.col("is_held") & unexplained & (F.col("marker") == "abort"), "aborted")
        .when(F.col("is_held") & unexplained, "unread")
        .when(unexplained, "unexplained")
        .when(F.col("destroyed"), "destroyed")
        .when(F.col("last_known"), "last-known")
        .when(F.col("divergent"), "divergent")
        .when(F.col("partly_destroyed"), "partly-destroyed")
        .when(F.col("lost_by").isNotNull(), "explained")
    )
    return explained.withColumn("kind", kind).drop(
        "is_held", "causes", "destroyed", "last_known", "divergent", "partly_destroyed"
    )


def damage_to(read: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return what faults did to the transactions of records that were read.

    Args:
        read: with topic, partition, offset, value, and invoke_ns of the send.
        loss_causes: the frame of that name.

    Returns:
        topic, value, and `damage`: "destroyed" if faults can have destroyed every copy of how the
        transaction ended, "partly-destroyed" if one of them. The others have no row.
    """
    cause = F.broadcast(loss_causes)
    fits = (
        (read["topic"] == cause["topic"])
        & F.coalesce(read["invoke_ns"] <= cause["until_ns"], F.lit(True))
        & _took_its_decision(read, cause, F.lit(None).cast("long"))
    )
    kind = F.when(F.bool_or("destroys"), "destroyed").otherwise("partly-destroyed")
    joined = read.join(cause, fits)
    return joined.groupBy(read["topic"], read["value"]).agg(kind.alias("damage"))


def _explained(absent: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return the lost records that something can have lost: how many things, and the likeliest.

    `destroyed` tells whether one of them destroyed every copy, `last_known` whether one is the
    lead of a last known leader, `divergent` whether each is the lead of one whose log went on above
    the record and held another in its place, `partly_destroyed` whether one destroyed the copy of
    some replica that led after it, or nothing else can have lost the record.
    """
    cause = F.broadcast(loss_causes)
    lies_above = F.coalesce(absent["offset"] >= cause["cut_to"], F.lit(True))
    holds_another = cause["is_lead"] & absent["replaced_on"].isNotNull() & ~lies_above
    fits = (
        (absent["topic"] == cause["topic"])
        & F.coalesce(absent["invoke_ns"] <= cause["until_ns"], F.lit(True))
        & F.coalesce(absent["complete_ns"] >= cause["since_ns"], F.lit(True))
        & F.when(
            absent["is_held"],
            (absent["marker"] == "abort") & _took_its_decision(absent, cause, absent["marker_at"]),
        ).otherwise(
            ~cause["is_of_coordinator"]
            & _is_of_its_partition(absent, cause)
            & (lies_above | holds_another)
        )
    )
    # Before KIP-101 a change of leader leaves no trace of where the new leader's log went on.
    is_vague = cause["cut_to"].isNull() | absent["offset"].isNull()
    # What a log that was cut did not hold yet has not been taken from it.
    took_it = cause["takes_a_copy"] & F.coalesce(absent["offset"] < cause["cut_end"], F.lit(True))
    return (
        absent.join(cause, fits)
        .groupBy(absent["topic"], absent["value"])
        .agg(
            F.count("*").alias("causes"),
            F.min_by(
                "words",
                F.struct(
                    holds_another, ~cause["is_last_known"], "leads_no_more", is_vague, "at_ns"
                ),
            ).alias("lost_by"),
            F.bool_or("destroys").alias("destroyed"),
            F.bool_or("is_last_known").alias("last_known"),
            F.bool_and(holds_another).alias("divergent"),
            (
                F.bool_or((took_it & ~cause["leads_no_more"]) | absent["is_held"])
                | (F.bool_or(took_it) & F.bool_and("leads_no_more"))
            ).alias("partly_destroyed"),
        )
    )


def _is_of_its_partition(absent: DataFrame, cause: DataFrame) -> Column:
    return (
        (cause["partition"] == ANY_PARTITION)
        | absent["partition"].isNull()
        | (absent["partition"] == cause["partition"])
    )


def _took_its_decision(record: DataFrame, cause: DataFrame, marker_at: Column) -> Column:
    """Return whether a cause can have lost how the transaction of a record that is there ended.

    That is its marker, if a fault has cut the log behind the record and not above the marker that
    ends it now, or else what its coordinator had noted.
    """
    behind = F.coalesce(marker_at >= cause["cut_to"], F.lit(True)) & F.coalesce(
        record["offset"] + 1 < cause["cut_end"], F.lit(True)
    )
    cut_by_fault = cause["takes_a_copy"] | cause["destroys"] | cause["is_last_known"]
    return cause["is_of_coordinator"] | (
        _is_of_its_partition(record, cause) & cut_by_fault & behind
    )
