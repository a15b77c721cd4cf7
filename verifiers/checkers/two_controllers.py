"""Epochs in which two nodes were the active controller."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences


@checker(
    "two-controllers",
    severity=Severity.DIFFERENT,
    one="controller epoch belonged to two nodes",
    many="controller epochs belonged to two nodes",
)
def two_controllers(elections: DataFrame) -> DataFrame:
    """Return the epochs in which more than one node was the active controller.

    Two controllers at one time in two epochs are no offence: one that is paused or cut off does not
    know that it was deposed, and brokers, voters and ZooKeeper refuse its older epoch.

    Returns:
        One row per epoch: `nodes` are those that claim it, `claims` who tells so and when, by the
        teller's clock.

    Source: KIP-595, election safety.
    """
    claim = F.concat_ws(" ", F.lit("node"), F.col("node"), F.lit("by"), "told_by", "at_utc")
    epochs = elections.groupBy("topic", "epoch").agg(
        F.array_sort(F.collect_set("node")).alias("nodes"),
        F.array_sort(F.collect_set(claim)).alias("claims"),
    )
    return offences(
        epochs.where(F.size("nodes") > 1),
        detail={
            "epoch": F.col("epoch"),
            "nodes": F.array_join(F.col("nodes").cast("array<string>"), ","),
            "claims": F.array_join("claims", "; "),
        },
    )
