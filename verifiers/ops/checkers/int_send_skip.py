"""Ops whose sends have a value of another op between them in the log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker
from verifiers.ops.order import internal


@op_checker("int-send-skip")
def int_send_skip(steps: DataFrame, log: DataFrame) -> DataFrame:
    """Return where an op, of any type, sent two values to a key that have another one between them.

    Kafka's transactions do not isolate writes, so this is always permitted.

    Returns:
        One row per pair of neighbours: the value, the one before, how far apart they are (`delta`),
        and up to eight of the values it `skipped`.

    Source: the int-send-skip analysis of jepsen.tests.kafka.
    """
    return internal(steps, (F.col("kind") == "send") & (F.col("delta") > 1), log=log)
