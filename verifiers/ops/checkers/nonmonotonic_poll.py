"""Ops that began to poll a key at or before the end of their process' last poll."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import external


@op_checker("nonmonotonic-poll")
def nonmonotonic_poll(steps: DataFrame) -> DataFrame:
    """Return where an op began to poll a key at or before what its process had last.

    What it had last is the last value of the last OK op of the process that polled the key. A delta
    of 0 is the same value again.

    Returns:
        One row per op and key: the value, the one before and its op, how far apart they are
        (`delta`).

    Source: the nonmonotonic-poll analysis of jepsen.tests.kafka.
    """
    return external(steps, (F.col("kind") == "poll") & (F.col("delta") < 1))
