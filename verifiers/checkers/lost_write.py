"""Acknowledged records that are not in the final log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns, send_details
from verifiers.frames.history import ANY_PARTITION
from verifiers.frames.records import lost


@checker(
    "lost-write",
    severity=Severity.LOST,
    one="acknowledged record was lost",
    many="acknowledged records were lost",
)
def lost_write(values: DataFrame, located: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return the acknowledged records that the final read lacks, the tail included.

    Only offsets that the final read certainly covered count: elsewhere a record is unseen.

    Returns:
        One row per lost record; offset as acknowledged, null under acks=0; time of the
        acknowledgement. `polled` in the detail counts consumers' reads before it was lost;
        `held_by`, `lacking`, `cut_by`, `cut_to`, `cut_at_utc` and `cut_epoch` say which brokers
        still have it on disk and which do not, and who cut it where and when; `lost_by` what can
        have lost it: the first cut that is known to lie below it, or else the first thing of all.
        The kind is "unread" if every replica still has it, so that the final read is wrong;
        "unexplained" if nothing can have lost it; "destroyed" if faults destroyed every copy that
        its acknowledgement stands for, "last-known" if a last known leader led without it,
        "partly-destroyed" if faults destroyed the copy of some replica; else "explained", or null
        where who led the partition is not known.

    Source: the lost-write analysis of jepsen.tests.kafka, with a final read as the authority.
    """
    where = located.drop("partition")
    absent = lost(values)
    found = absent.join(where, ["topic", "value"], "left").join(
        _explained(absent, loss_causes), ["topic", "value"], "left"
    )
    facts = columns(*where.drop("topic", "value").columns, "lost_by")
    is_held = (F.length("held_by") > 0) & (F.coalesce(F.length("lacking"), F.lit(0)) == 0)
    kind = (
        F.when(is_held, "unread")
        .when(F.col("causes").isNull(), "unexplained")
        .when(F.col("destroyed"), "destroyed")
        .when(F.col("last_known"), "last-known")
        .when(F.col("partly_destroyed"), "partly-destroyed")
        .when(F.col("lost_by").isNotNull(), "explained")
    )
    return offences(found, kind=kind, time_ns="complete_ns", detail=send_details() | facts)


def _explained(absent: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return the lost records that something can have lost: how many things, and the likeliest.

    `destroyed` tells whether one of them destroyed every copy, `last_known` whether one is the
    lead of a last known leader, `partly_destroyed` whether one destroyed the copy of some replica.
    """
    cause = F.broadcast(loss_causes)
    is_above = absent["offset"] >= cause["cut_to"]
    fits = (
        (absent["topic"] == cause["topic"])
        & (
            (cause["partition"] == ANY_PARTITION)
            | absent["partition"].isNull()
            | (absent["partition"] == cause["partition"])
        )
        & F.coalesce(absent["invoke_ns"] <= cause["until_ns"], F.lit(True))
        & F.coalesce(absent["complete_ns"] >= cause["since_ns"], F.lit(True))
        & F.coalesce(is_above, F.lit(True))
    )
    # Before KIP-101 a change of leader leaves no trace of where the new leader's log went on.
    is_vague = is_above.isNull()
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
            F.bool_or(took_it).alias("partly_destroyed"),
        )
    )
