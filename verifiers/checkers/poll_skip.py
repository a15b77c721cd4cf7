"""Polls that left out a record after the end of the consumer's previous poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import passed_over, poll_details, unprepared


@checker(
    "poll-skip",
    severity=Severity.DISORDERED,
    one="poll skipped records",
    many="polls skipped records",
)
def poll_skip(turns: DataFrame, log: DataFrame, events: DataFrame) -> DataFrame:
    """Return the polls that began beyond a record that the process never received.

    Args:
        turns: where consumers were given something other than the next offset.
        log: which offsets hold a record.
        events: what else happened to the consumers.

    Returns:
        One row per pair of polls with a known record strictly between them; `skipped` in the
        detail counts those. Kind "subscribe" if a group moves the consumer's partitions, else
        "assign". A fresh assignment or a crash between the two excuses them; a seek excuses them
        up to the offset that was sought.

    Source: the poll-skip analysis of jepsen.tests.kafka.
    """
    rows = unprepared(turns.where(~F.col("internal")), events)
    rows = passed_over(rows, log)
    return offences(rows, kind="mode", detail=poll_details() | {"skipped": F.col("skipped")})
