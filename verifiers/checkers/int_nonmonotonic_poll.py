"""Polls that returned two records of a partition in the wrong order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import poll_details


@checker(
    "int-nonmonotonic-poll",
    severity=Severity.DISORDERED,
    one="step inside a poll went back in the log",
    many="steps inside polls went back in the log",
)
def int_nonmonotonic_poll(turns: DataFrame) -> DataFrame:
    """Return neighbouring records of one poll whose offsets do not grow.

    Returns:
        One row per pair of records. Kind "lost" if the final read lacks one of the
        two, or did not get to it. Polls in which partitions moved are passed over.

    Source: the int-nonmonotonic-poll analysis of jepsen.tests.kafka.
    """
    rows = turns.where(F.col("internal") & (F.col("offset") < F.col("due")))
    return offences(rows, detail=poll_details())
