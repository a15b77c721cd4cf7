"""Polls that left out a record after the end of the consumer's previous poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import poll_details


@checker(
    "poll-skip",
    severity=Severity.DISORDERED,
    one="poll skipped records",
    many="polls skipped records",
)
def poll_skip(turns: DataFrame) -> DataFrame:
    """Return the polls that began beyond a record that the process never received.

    Returns:
        One row per pair of polls with a known record strictly between them; `skipped` in the
        detail counts those. Kind "subscribe" if a group moves the consumer's partitions, else
        "assign". A fresh assignment or a crash between the two excuses them; a seek excuses them
        up to the offset that was sought.

    Source: the poll-skip analysis of jepsen.tests.kafka.
    """
    rows = turns.where(~F.col("internal") & (F.col("skipped") > 0))
    return offences(rows, kind="mode", detail=poll_details())
