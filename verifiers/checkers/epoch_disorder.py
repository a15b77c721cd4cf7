"""Leader epochs that decrease along a log, or that do not identify one batch."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns, difference_details


@checker(
    "epoch-disorder",
    severity=Severity.DIFFERENT,
    one="batch has a leader epoch that it must not have",
    many="batches have a leader epoch that they must not have",
)
def epoch_disorder(disordered: DataFrame, epochs: DataFrame, differences: DataFrame) -> DataFrame:
    """Return the batches that have a wrong leader epoch.

    Batches of formats before v2 have no epoch.

    Returns:
        One row per batch, or pair of batches. Kind "decreases" if the epoch is lower than that of
        the batch before it in the same log; "checkpoint" if the replica's own leader-epoch
        checkpoint has another epoch for its offsets; "ambiguous" if two replicas hold different
        batches under one epoch and offset; "renamed" if they hold the same one under two epochs.

    Source: KIP-101, which has one leader an epoch, whose log is what its followers have.
    """
    known = disordered.where(F.col("problem").isNull() & (F.col("leader_epoch") >= 0))
    log = Window.partitionBy("broker", "topic", "partition").orderBy("base_offset")
    before = F.lag("leader_epoch").over(log)
    falling = _of_batch(
        known.withColumn("before", before).where(F.col("before") > F.col("leader_epoch")),
        kind=F.lit("decreases"),
        epoch_before=F.col("before"),
    )
    # A replica without a checkpoint file has nothing to be compared with.
    noted = epochs.select("broker", "topic", "partition", "log_start").distinct()
    key = ["broker", "topic", "partition"]
    against = known.join(noted, key).join(epochs.drop("log_start"), [*key, "leader_epoch"], "left")
    outside = (
        F.col("since").isNull()
        | (F.greatest("base_offset", "log_start") < F.col("since"))
        | (F.col("last_offset") >= F.col("until"))
    )
    contradicting = _of_batch(
        against.where(outside & (F.col("last_offset") >= F.col("log_start"))),
        kind=F.lit("checkpoint"),
        checkpoint_since=F.col("since"),
        checkpoint_until=F.col("until"),
    )
    same_epoch = F.col("epoch") == F.col("other_epoch")
    two = offences(
        differences.where(F.col("same_records") != same_epoch),
        offset="first",
        kind=F.when(F.col("same_records"), "renamed").otherwise("ambiguous"),
        detail=difference_details(),
    )
    return falling.unionByName(contradicting).unionByName(two)


def _of_batch(batches: DataFrame, *, kind: Column, **more: Column) -> DataFrame:
    return offences(
        batches,
        offset="base_offset",
        value=None,
        kind=kind,
        detail=columns("last_offset", "broker", epoch="leader_epoch") | more,
    )
