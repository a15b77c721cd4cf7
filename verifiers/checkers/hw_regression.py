"""High watermarks that decreased within one leader epoch."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "hw-regression",
    severity=Severity.TOO_EARLY,
    one="high watermark went down",
    many="high watermarks went down",
)
def hw_regression(watermarks: DataFrame) -> DataFrame:
    """Return the samples in which a leader reported a lower high watermark than before.

    Returns:
        One row per sample below an earlier one; offset is the lower high watermark, time_ns when it
        was asked for, `was` the highest one before, `leader_epoch` which. Two samples are compared
        if one was answered before the other was asked for.

    Source: Kafka documentation, replication design; KIP-207.
    """
    before = (
        Window.partitionBy("topic", "partition", "leader_epoch")
        .orderBy("asked_ns")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    compared = watermarks.select(
        "*",
        F.max("offset").over(before).alias("was"),
        F.max("answered_ns").over(before).alias("known_ns"),
    )
    fallen = compared.where(
        (F.col("offset") < F.col("was")) & (F.col("known_ns") <= F.col("asked_ns"))
    )
    return offences(fallen, time_ns="asked_ns", detail=columns("was", "leader_epoch", "known_ns"))
