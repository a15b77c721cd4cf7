"""Ops whose sends lie in the log in the opposite order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import internal


@op_checker("int-nonmonotonic-send")
def int_nonmonotonic_send(steps: DataFrame) -> DataFrame:
    """Return where an op, of any type, sent a value to a key after one at or beyond its place.

    A producer keeps the order of what it sends to a partition.

    Returns:
        One row per pair of neighbours: the value, the one before, how far apart they are (`delta`).

    Source: the int-nonmonotonic-send analysis of jepsen.tests.kafka.
    """
    return internal(steps, (F.col("kind") == "send") & (F.col("delta") < 1))
