"""Sent later, and earlier in the log."""

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
    """Return neighbouring sends of one producer to one partition that the log holds reversed.

    Args:
        producing: such pairs, with their positions in the log; sends without a known position
            are no ground for complaint.

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
