"""Acknowledged records that nobody read, where the final read did not get that far."""

from pyspark.sql import DataFrame

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import send_details


@checker(
    "unseen",
    severity=Severity.UNKNOWN,
    one="acknowledged record was never read",
    many="acknowledged records were never read",
)
def unseen(values: DataFrame) -> DataFrame:
    """Return the acknowledged records that nobody read, beyond the end of the final read.

    Whether they are in the log is unknown, so the verdict of the run is UNKNOWN.

    Returns:
        One row per record; offset as acknowledged, null under acks=0.

    Source: the unseen analysis of jepsen.tests.kafka.
    """
    return offences(values.where("unsought"), time_ns="complete_ns", detail=send_details())
