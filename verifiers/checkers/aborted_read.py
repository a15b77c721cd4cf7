"""Refused, and read all the same."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checker import checker, offences
from verifiers.story import read_story


@checker("G1a")
def aborted_read(values: DataFrame) -> DataFrame:
    """Return the values that were read although their send certainly failed.

    Args:
        values: what is known of each value.

    Returns:
        One row per value, at the lowest offset it was read at.

    Source: G1a of Adya's isolation levels, as jepsen.tests.kafka applies it.
    """
    read = (F.col("polls") > 0) | (F.col("finals") > 0)
    rows = values.where((F.col("type") == "fail") & read)
    return offences(
        rows,
        partition=F.coalesce("final_partition", "poll_partition"),
        offset=F.coalesce("final_first", "poll_first"),
        time_ns="complete_ns",
        detail=read_story(),
    )
