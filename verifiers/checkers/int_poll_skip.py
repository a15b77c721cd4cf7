"""Polls that left out a record between two others of the same poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import poll_details


@checker(
    "int-poll-skip",
    severity=Severity.DISORDERED,
    one="step inside a poll skipped records",
    many="steps inside polls skipped records",
)
def int_poll_skip(turns: DataFrame) -> DataFrame:
    """Return neighbouring records of one poll with a known record between them.

    Returns:
        One row per pair of records; `skipped` in the detail counts those between. Kind "lost" if
        the final read lacks one of the two, or did not get to it. Polls in which partitions moved
        are passed over.

    Source: the int-poll-skip analysis of jepsen.tests.kafka.
    """
    rows = turns.where(F.col("internal") & (F.col("skipped") > 0))
    return offences(rows, detail=poll_details())
