"""Values that lie at more than one offset of a key's log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("duplicate")
def duplicate(values: DataFrame, log: DataFrame) -> DataFrame:
    """Return the values that lie at more than one offset of a key's log.

    It is about the log: one offset that is read twice is no duplicate.

    Returns:
        One row per value; the detail has its `offsets`, their `count`, and its writer.

    Source: the duplicate analysis of jepsen.tests.kafka.
    """
    twice = values.where(F.col("places") > 1).select("run", "key", "value", "writer", "places")
    rows = (
        log.join(F.broadcast(twice), ["run", "key", "value"])
        .groupBy("run", "key", "value", "writer", "places")
        .agg(F.sort_array(F.collect_set("offset")).alias("offsets"))
    )
    return op_offences(rows, value="value", op="writer", count="places", offsets="offsets")
