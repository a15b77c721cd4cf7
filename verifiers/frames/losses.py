"""What was lost, and by what: the frame `losses`."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import ANY_PARTITION
from verifiers.frames.records import lost
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
            held_by, lacking, marker and marker_at as in `located`.
        loss_causes: the frame of that name.
    """
    rows = absent.withColumn(
        "is_held", (F.length("held_by") > 0) & (F.coalesce(F.length("lacking"), F.lit(0)) == 0)
    ).fillna(value=False, subset=["is_held"])
    explained = rows.join(_explained(rows, loss_causes), _RECORD, "left")
    unexplained = F.col("causes").isNull()
    kind = (
        F.when(F.col("is_held") & unexplained & (F.col("marker") == "abort"), "aborted")
        .when(F.col("is_held") & unexplained, "unread")
        .when(unexplained, "unexplained")
        .when(F.col("destroyed"), "destroyed")
        .when(F.col("last_known"), "last-known")
        .when(F.col("partly_destroyed"), "partly-destroyed")
        .when(F.col("lost_by").isNotNull(), "explained")
    )
    return explained.withColumn("kind", kind).drop(
        "is_held", "causes", "destroyed", "last_known", "partly_destroyed"
    )


def _explained(absent: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return the lost records that something can have lost: how many things, and the likeliest.

    `destroyed` tells whether one of them destroyed every copy, `last_known` whether one is the
    lead of a last known leader, `partly_destroyed` whether one destroyed the copy of some replica.
    """
    cause = F.broadcast(loss_causes)
    fits = (
        (absent["topic"] == cause["topic"])
        & F.coalesce(absent["invoke_ns"] <= cause["until_ns"], F.lit(True))
        & F.coalesce(absent["complete_ns"] >= cause["since_ns"], F.lit(True))
        & F.when(absent["is_held"], _took_its_marker(absent, cause)).otherwise(
            ~cause["is_of_coordinator"]
            & _is_of_its_partition(absent, cause)
            & F.coalesce(absent["offset"] >= cause["cut_to"], F.lit(True))
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
            F.min_by("words", F.struct(~cause["is_last_known"], is_vague, "at_ns")).alias(
                "lost_by"
            ),
            F.bool_or("destroys").alias("destroyed"),
            F.bool_or("is_last_known").alias("last_known"),
            F.bool_or(took_it | absent["is_held"]).alias("partly_destroyed"),
        )
    )


def _is_of_its_partition(absent: DataFrame, cause: DataFrame) -> Column:
    return (
        (cause["partition"] == ANY_PARTITION)
        | absent["partition"].isNull()
        | (absent["partition"] == cause["partition"])
    )


def _took_its_marker(absent: DataFrame, cause: DataFrame) -> Column:
    """Return whether a cause can have lost what decided the transaction of a record that is there.

    That is the marker of its commit, if a fault has cut the log between the record and the marker
    that lies behind it now, or else what its coordinator had noted.
    """
    between = F.coalesce(absent["marker_at"] >= cause["cut_to"], F.lit(True)) & F.coalesce(
        absent["offset"] + 1 < cause["cut_end"], F.lit(True)
    )
    cut_by_fault = cause["takes_a_copy"] | cause["destroys"] | cause["is_last_known"]
    return (absent["marker"] == "abort") & (
        cause["is_of_coordinator"] | (_is_of_its_partition(absent, cause) & cut_by_fault & between)
    )
