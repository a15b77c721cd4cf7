"""Ops that polled two values of a key in the wrong order."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import internal, undisturbed


@op_checker("int-nonmonotonic-poll")
def int_nonmonotonic_poll(steps: DataFrame, ops: DataFrame) -> DataFrame:
    """Return where an op, of any type, polled a value of a key after one at or beyond its place.

    Keys that its rebalance-log names are excused.

    Returns:
        One row per pair of neighbours: the value, the one before, how far apart they are (`delta`).

    Source: the int-nonmonotonic-poll analysis of jepsen.tests.kafka.
    """
    rows = undisturbed(steps.where((F.col("kind") == "poll") & (F.col("delta") < 1)), ops)
    return internal(rows, F.lit(True))
