"""Sends that the log holds in the opposite order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.history import sequence_of


@checker(
    "nonmonotonic-send",
    severity=Severity.DISORDERED,
    one="send was logged before an earlier one",
    many="sends were logged before earlier ones",
)
def nonmonotonic_send(producing: DataFrame) -> DataFrame:
    """Return the pairs of consecutive sends that the log holds in the opposite order.

    Args:
        producing: such pairs, with their positions in the log; sends without a known position
            do not count.

    Returns:
        One row per pair, named by the later send. Kind "lost" if the final read lacks one of
        the two, "duplicate" if one lies at several offsets (its last counts), else "order".

    Source: the nonmonotonic-send analysis of jepsen.tests.kafka.
    """
    return offences(
        producing,
        offset="position",
        time_ns="complete_ns",
        detail={
            "after_sequence": sequence_of(F.col("prev_value")),
            **columns(producer="process", sequence="op"),
            **columns(after_value="prev_value", after_offset="prev_position"),
        },
    )
