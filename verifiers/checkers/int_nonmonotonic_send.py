"""Sends of one transaction that the log holds in the opposite order."""

from pyspark.sql import DataFrame

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import pair_details


@checker(
    "int-nonmonotonic-send",
    severity=Severity.DISORDERED,
    one="send was logged before an earlier one of its transaction",
    many="sends were logged before earlier ones of their transaction",
)
def int_nonmonotonic_send(producing: DataFrame) -> DataFrame:
    """Return the pairs of consecutive sends of one transaction that the log holds reversed.

    Sends without a known position in the log do not count.

    Returns:
        One row per pair, named by the later send. Kinds are those of nonmonotonic-send.

    Source: the int-nonmonotonic-send analysis of jepsen.tests.kafka.
    """
    return offences(
        producing.where("internal"), offset="position", time_ns="complete_ns", detail=pair_details()
    )
