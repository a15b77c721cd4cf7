"""Offsets at which two replicas hold different batches on disk."""

from pyspark.sql import Column, DataFrame, Window
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
    unlike = differences.where(~F.col("same_records")).join(
        F.broadcast(_damage(loss_causes)), ["topic", "partition"], "left"
    )
    no_epoch_tells = ~F.coalesce(_parted_by_epoch() & _asked_for_epochs(), F.lit(False))
    return offences(
        unlike,
        offset="first",
        process=producer_of(F.col("value")),
        kind=F.when(~F.col("in_sync"), "out-of-sync")
        .when(_is_destroyed() & no_epoch_tells, "partly-destroyed")
        .otherwise("in-sync"),
        detail=difference_details() | {"other_value": F.col("other_value")},
    )


def _damage(loss_causes: DataFrame) -> DataFrame:
    """Return what happened to each partition: `destroyed`, from where to where, and `reset_to`.

    `reset_to` is the highest offset at which a follower took its leader's end for its own.
    """
    destroyed = F.when(F.col("takes_a_copy"), F.struct("cut_to", "cut_end"))
    return loss_causes.groupBy("topic", "partition").agg(
        F.collect_list(destroyed).alias("destroyed"),
        F.max(F.when(F.col("is_reset"), F.col("cut_to"))).alias("reset_to"),
    )


def _is_destroyed() -> Column:
    """Return whether a fault had destroyed what some replica held at these offsets."""

    def lay_there(cut: Column) -> Column:
        return (F.col("last") >= cut["cut_to"]) & (F.col("first") < cut["cut_end"])

    return F.coalesce(F.exists("destroyed", lay_there), F.lit(False))


def _of_these_replicas(what: Column) -> Column:
    return what.over(Window.partitionBy("topic", "partition", "broker", "other_broker"))


def _parted_by_epoch() -> Column:
    """Return whether two replicas have different epochs at the first offset at which they part."""
    return _of_these_replicas(F.min_by(F.col("epoch") != F.col("other_epoch"), "first"))


def _asked_for_epochs() -> Column:
    """Return whether no follower took its leader's end for its own above where the two part."""
    return F.coalesce(_of_these_replicas(F.min("first")) >= F.col("reset_to"), F.lit(True))
