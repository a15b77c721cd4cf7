"""Offsets at which two different records are known."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.frames.history import producer_of, sequence_of


@checker(
    "inconsistent-offsets",
    severity=Severity.DIFFERENT,
    one="offset was seen with different records",
    many="offsets were seen with different records",
)
def inconsistent_offsets(slots: DataFrame) -> DataFrame:
    """Return the offsets at which more than one value is known.

    Returns:
        One row per offset; value is the highest known there, `other_value` in the detail the
        lowest. Kind "reads" if two reads disagree: consumers were shown different logs. Kind
        "acks" if only what producers were told disagrees with what is read, as when an
        acknowledged record was cut off and its offset given to another.

    Source: the inconsistent-offsets analysis of jepsen.tests.kafka.
    """
    reads = F.coalesce(F.col("read_low") < F.col("read_high"), F.lit(False))
    return offences(
        slots,
        value="high",
        process=producer_of(F.col("high")),
        kind=F.when(reads, "reads").otherwise("acks"),
        detail={
            "producer": producer_of(F.col("high")),
            "sequence": sequence_of(F.col("high")),
            "other_value": F.col("low"),
            "other_producer": producer_of(F.col("low")),
            "other_sequence": sequence_of(F.col("low")),
            "read_value": F.col("read_high"),
        },
    )
