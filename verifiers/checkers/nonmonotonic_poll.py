"""Polls that began at or before the end of the consumer's previous poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import poll_details


@checker(
    "nonmonotonic-poll",
    severity=Severity.DISORDERED,
    one="poll went back in the log",
    many="polls went back in the log",
)
def nonmonotonic_poll(turns: DataFrame) -> DataFrame:
    """Return the polls that began at or before the last offset that the process had read.

    Returns:
        One row per pair of polls. Kind "subscribe" if a group moves the consumer's partitions,
        else "assign". A fresh assignment or a crash between the two excuses them; a seek excuses
        them down to the offset that was sought.

    Source: the nonmonotonic-poll analysis of jepsen.tests.kafka.
    """
    rows = turns.where(~F.col("internal") & (F.col("offset") < F.col("due")))
    return offences(rows, kind="mode", detail=poll_details())
