"""Sends of one process that lie in the log in the opposite order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import external


@op_checker("nonmonotonic-send")
def nonmonotonic_send(steps: DataFrame) -> DataFrame:
    """Return where an op sent first to a key what lies at or before its process' last.

    The last is the last value that the last OK or INFO op of the process sent to the key.

    Returns:
        One row per op and key: the value, the one before and its op, how far apart they are
        (`delta`).

    Source: the nonmonotonic-send analysis of jepsen.tests.kafka.
    """
    sent = (F.col("kind") == "send") & F.col("type").isin("ok", "info")
    return external(steps, sent & (F.col("delta") < 1))
