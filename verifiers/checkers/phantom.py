"""Records that were read and that no producer of the run sent."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import read_details


@checker(
    "phantom",
    severity=Severity.FALSE,
    one="record was read that nobody sent",
    many="records were read that nobody sent",
)
def phantom(values: DataFrame) -> DataFrame:
    """Return the values that were read and that no recorded send wrote to that partition.

    Sends of any outcome count, and so do sequence numbers that a killed producer had only
    reserved. A value read in another partition than it was acknowledged in is a phantom there.

    Returns:
        One row per value, at the lowest offset it was read at; kind "partition" if it was sent,
        but elsewhere.
    """
    misplaced = F.coalesce(
        (F.col("type") == "ok") & (F.col("partitions") > 1) & F.col("partition").isNotNull(),
        F.lit(False),
    )
    return offences(
        values.where(F.col("type").isNull() | misplaced),
        partition=F.coalesce("final_partition", "poll_partition"),
        offset=F.coalesce("final_first", "poll_first"),
        process=F.coalesce("reader", "process"),
        time_ns="polled_ns",
        kind=F.when(misplaced, "partition"),
        detail=read_details(),
    )
