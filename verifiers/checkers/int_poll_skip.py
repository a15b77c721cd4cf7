"""Polls that left out a record between two others of the same poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.polling import passed_over, poll_details, untouched


@checker(
    "int-poll-skip",
    severity=Severity.DISORDERED,
    one="step inside a poll skipped records",
    many="steps inside polls skipped records",
)
def int_poll_skip(turns: DataFrame, log: DataFrame, events: DataFrame) -> DataFrame:
    """Return neighbouring records of one poll with a known record between them.

    Args:
        turns: where consumers were given something other than the next offset.
        log: which offsets hold a record.
        events: what else happened to the consumers.

    Returns:
        One row per pair of records; `skipped` in the detail counts those between. Polls in
        which partitions moved are passed over.

    Source: the int-poll-skip analysis of jepsen.tests.kafka.
    """
    rows = turns.where(F.col("internal") & (F.col("offset") > F.col("prev_offset")))
    rows = untouched(rows, events)
    rows = passed_over(rows.withColumn("due", F.col("prev_offset") + 1), log)
    return offences(rows, detail=poll_details() | {"skipped": F.col("skipped")})
