"""Offsets of a key at which more than one value lies."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("inconsistent-offsets")
def inconsistent_offsets(log: DataFrame) -> DataFrame:
    """Return the offsets of a key at which more than one value is known to lie.

    Acknowledgement against acknowledgement, against a poll, poll against poll: all alike.

    Returns:
        One row per offset; value is the lowest of its `values`. The detail has the offset and its
        dense index.

    Source: the inconsistent-offsets analysis of jepsen.tests.kafka.
    """
    crowded = log.where(F.col("lowest") != F.col("highest"))
    rows = crowded.groupBy("run", "key", "offset", "index", "lowest").agg(
        F.sort_array(F.collect_set("value")).alias("values")
    )
    return op_offences(
        rows, value="lowest", op=None, offset="offset", index="index", values="values"
    )
