"""Sends that the log holds in the opposite order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import pair_details


@checker(
    "nonmonotonic-send",
    severity=Severity.DISORDERED,
    one="send was logged before an earlier one",
    many="sends were logged before earlier ones",
)
def nonmonotonic_send(producing: DataFrame) -> DataFrame:
    """Return the pairs of consecutive sends, not of one transaction, that the log holds reversed.

    Sends without a known position in the log do not count.

    Returns:
        One row per pair, named by the later send. Kind "lost" if the final read lacks one of
        the two, "duplicate" if one lies at several offsets (its last counts), else "order".

    Source: the nonmonotonic-send analysis of jepsen.tests.kafka.
    """
    return offences(
        producing.where(~F.col("internal")),
        offset="position",
        time_ns="complete_ns",
        detail=pair_details(),
    )
