"""Offsets at which two replicas hold different batches on disk."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import difference_details
from verifiers.frames.history import producer_of


@checker(
    "replica-divergence",
    severity=Severity.DIFFERENT,
    one="stretch of offsets holds other records on another replica",
    many="stretches of offsets hold other records on another replica",
)
def replica_divergence(differences: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return where two replicas hold different batches below the high watermark, at rest.

    Returns:
        One row per pair of batches; offset is the first at which they differ, `last_offset` in
        the detail the last. Kind "in-sync" if the other replica was in the ISR when the run
        ended, so that it counts as a copy and may lead; "partly-destroyed" if a fault had moreover
        destroyed what some replica held there, and no epoch kept the two alike: they have one
        epoch where they part, or none, or a follower took its leader's end for its own further up
        in the log, without asking for epochs. Else "out-of-sync": it cuts its log before it is let
        in again. An end that such a replica lacks is no divergence. Value is what the leader holds
        at the offset, or whoever stands for it; `other_value` what the other one has; `holds` and
        `other_holds` name the records on each side.

    Source: KIP-101, scenario 2; KIP-279; KIP-320.
    """
    destroyed = F.broadcast(
        loss_causes.where("takes_a_copy").select(
            *(F.col(name).alias(f"gone_{name}") for name in ("topic", "partition")),
            *("cut_to", "cut_end"),
        )
    )
    lay_there = (
        (F.col("topic") == F.col("gone_topic"))
        & (F.col("partition") == F.col("gone_partition"))
        & (F.col("last") >= F.col("cut_to"))
        & (F.col("first") < F.col("cut_end"))
    )
    unlike = _with_epochs_told(differences.where(~F.col("same_records")), loss_causes)
    partly = unlike.join(destroyed, lay_there, "left_semi").withColumn(
        "kind", F.when(F.col("epochs_told"), "in-sync").otherwise("partly-destroyed")
    )
    whole = unlike.join(destroyed, lay_there, "left_anti").withColumn("kind", F.lit("in-sync"))
    return offences(
        partly.unionByName(whole),
        offset="first",
        process=producer_of(F.col("value")),
        kind=F.when(F.col("in_sync"), F.col("kind")).otherwise("out-of-sync"),
        detail=difference_details() | {"other_value": F.col("other_value")},
    )


def _with_epochs_told(unlike: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Add `epochs_told`: whether a follower that asks where epochs end would not differ there.

    It would not where the two have different epochs from the first offset on at which they part;
    and nobody has asked who took the end of its leader's log for its own, above that offset.
    """
    place = ["topic", "partition"]
    resets = loss_causes.where("is_reset").groupBy(*place).agg(F.max("cut_to").alias("reset_to"))
    replicas = Window.partitionBy(*place, "broker", "other_broker")
    parted = F.min_by(F.col("epoch") != F.col("other_epoch"), "first").over(replicas)
    asked = F.coalesce(F.min("first").over(replicas) >= F.col("reset_to"), F.lit(True))
    return unlike.join(F.broadcast(resets), place, "left").withColumn("epochs_told", parted & asked)
