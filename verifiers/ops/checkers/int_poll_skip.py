"""Ops that polled two values of a key and left out one between them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import internal, undisturbed


@op_checker("int-poll-skip")
def int_poll_skip(steps: DataFrame, ops: DataFrame, log: DataFrame) -> DataFrame:
    """Return where an op, of any type, polled two values of a key with another one between them.

    Keys that its rebalance-log names are excused.

    Returns:
        One row per pair of neighbours: the value, the one before, how far apart they are (`delta`),
        and up to eight of the values it `skipped`.

    Source: the int-poll-skip analysis of jepsen.tests.kafka.
    """
    rows = undisturbed(steps.where((F.col("kind") == "poll") & (F.col("delta") > 1)), ops)
    return internal(rows, F.lit(True), log=log)
