"""Acknowledged, and nobody looked."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import send_details


@checker(
    "unseen",
    severity=Severity.UNKNOWN,
    one="acknowledged record was never read",
    many="acknowledged records were never read",
)
def unseen(values: DataFrame) -> DataFrame:
    """Return the acknowledged records that nobody read where the final read did not get to.

    They may be there: whether they are is unknown, and so is the run's verdict.

    Args:
        values: what is known of each value.

    Returns:
        One row per record; offset as acknowledged, null under acks=0.

    Source: the unseen analysis of jepsen.tests.kafka.
    """
    nobody = (F.col("polls") == 0) & (F.col("finals") == 0)
    rows = values.where((F.col("type") == "ok") & ~F.col("searched") & nobody)
    return offences(rows, time_ns="complete_ns", detail=send_details())
