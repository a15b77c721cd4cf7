"""Records that lie in the log at more than one offset."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import send_details


@checker(
    "duplicate",
    severity=Severity.DIFFERENT,
    one="record is in the log more than once",
    many="records are in the log more than once",
)
def duplicate(values: DataFrame) -> DataFrame:
    """Return the values that lie at more than one offset, or in more than one partition.

    It is about the log, not about delivery: one offset read twice is no duplicate.

    Returns:
        One row per value; offset is the lowest, the detail holds the highest. Kind "log" if the
        final read found both copies; "moved" if they were seen at different times, so that the
        log may never have held both.

    Source: the duplicate analysis of jepsen.tests.kafka; KIP-98.
    """
    several = (F.col("first") < F.col("last")) | (F.col("partitions") > 1)
    both = (F.col("final_first") < F.col("final_last")) | (
        F.col("final_partition") < F.col("final_partition_high")
    )
    return offences(
        values.where(several),
        partition=F.coalesce("partition", "final_partition", "poll_partition"),
        offset="first",
        time_ns="complete_ns",
        kind=F.when(both, "log").otherwise("moved"),
        detail=send_details() | {"last_offset": F.col("last"), "partitions": F.col("partitions")},
    )
