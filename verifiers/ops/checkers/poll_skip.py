"""Ops that began to poll a key beyond the next value of their process."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import external


@op_checker("poll-skip")
def poll_skip(steps: DataFrame, log: DataFrame) -> DataFrame:
    """Return where an op began to poll a key beyond the value that was next for its process.

    What was next follows the last value that the last OK op of the process polled of the key: an op
    that fails must be polled again. Ops of every type are held against that.

    Returns:
        One row per op and key: the value, the one before and its op, how far apart they are
        (`delta`), and up to eight of the values it `skipped`.

    Source: the poll-skip analysis of jepsen.tests.kafka.
    """
    return external(steps, (F.col("kind") == "poll") & (F.col("delta") > 1), log=log)
