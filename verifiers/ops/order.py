"""Offences of order, from the steps that are out of order."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_offences

MOST_SKIPPED = 8
"""So many of the skipped values are named."""


def external(steps: DataFrame, wrong: Column, *, log: DataFrame | None = None) -> DataFrame:
    """Return the offences among steps from one op of a process to another.

    Values between are named if the log is given, which says what lies at each offset.
    """
    return _offences(steps.where(~F.col("internal") & wrong), log)


def internal(steps: DataFrame, wrong: Column, *, log: DataFrame | None = None) -> DataFrame:
    """Return the offences among steps within one op, as `external` does."""
    return _offences(steps.where(F.col("internal") & wrong), log)


def undisturbed(steps: DataFrame, ops: DataFrame) -> DataFrame:
    """Return the steps of keys that were not rebalanced while their op ran."""
    moved = ops.where(F.col("rebalanced").isNotNull()).select(
        "run", "op", F.explode("rebalanced").alias("key")
    )
    return steps.join(moved, ["run", "op", "key"], "left_anti")


def _offences(rows: DataFrame, log: DataFrame | None) -> DataFrame:
    facts: dict[str, Column | str] = {
        "values": F.array("before", "value"),
        "delta": "delta",
        "ops": F.array("before_op", "op"),
        "process": "process",
        "mop": "mop",
    }
    if log is not None:
        rows = _with_skipped(rows, log)
        facts["skipped"] = "skipped"
    return op_offences(rows, value="value", op="op", **facts)


def _with_skipped(rows: DataFrame, log: DataFrame) -> DataFrame:
    before = F.col("place") - F.col("delta")
    last = F.least(F.col("place") - 1, before + MOST_SKIPPED)
    wanted = rows.withColumn("between", F.explode(F.sequence(before + 1, last)))
    order = log.where(F.col("value") == F.col("lowest")).select(
        "run", "key", F.col("index").alias("between"), F.col("value").alias("passed")
    )
    return (
        wanted.join(order, ["run", "key", "between"])
        .groupBy(*rows.columns)
        .agg(F.sort_array(F.collect_list(F.struct("between", "passed"))).alias("pairs"))
        .withColumn("skipped", F.col("pairs.passed"))
    )
