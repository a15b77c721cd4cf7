"""Ops that cross the borders of splits: their invocations and completions are paired here."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from verifiers.checking.details import columns
from verifiers.ops import schema
from verifiers.ops.parser import IN_FLIGHT, NOT_INVOKED, OF_ANOTHER_F
from verifiers.spark.columns import in_columns

TOLD_COLUMNS = ("row", "run", "split", "line", "type", "error", "kind", "value")
"""The columns of PARSED_SCHEMA that describe a file."""


def paired_events(parsed: DataFrame) -> DataFrame:
    """Return unpaired events, each with the events of its process in the neighbouring splits."""
    order = Window.partitionBy("run", "process").orderBy("op", "row")
    loose = parsed.where(F.col("row").isin(schema.BEGIN, schema.ORPHAN, schema.OPEN))
    return loose.select(
        "*",
        *(F.lag(c).over(order).alias(f"prev_{c}") for c in ("row", "op", "f", "invoke_ns")),
        F.lead("row").over(order).alias("next_row"),
    )


def pairing_problems(paired: DataFrame) -> DataFrame:
    """Return the events in an impossible order, as rows of PROBLEM with further columns."""
    before, orphan = F.col("prev_row") == schema.OPEN, F.col("row") == schema.ORPHAN
    in_flight = F.format_string(IN_FLIGHT, "process", "prev_op")
    not_invoked = F.format_string(NOT_INVOKED, "process")
    of_another_f = F.format_string(OF_ANOTHER_F, "f", "process", "prev_f", "prev_op")
    problem = (
        F.when((F.col("row") == schema.BEGIN) & before, in_flight)
        .when(orphan & ~F.coalesce(before, F.lit(False)), not_invoked)
        .when(orphan & (F.col("f") != F.col("prev_f")), of_another_f)
    )
    problems = paired.where(problem.isNotNull())
    return problems.withColumns({"row": F.lit(schema.PROBLEM).cast("byte"), "error": problem})


def _never(paired: DataFrame) -> DataFrame:
    """Return the ops that never completed."""
    return paired.where((F.col("row") == schema.OPEN) & F.col("next_row").isNull())


def _pending(parsed: DataFrame, paired: DataFrame) -> DataFrame:
    """Return the values that such ops may have sent."""
    values = parsed.where(F.col("row") == schema.OPEN_MOP)
    return values.join(_never(paired).select("run", "op"), ["run", "op"], "left_semi")


def counts(parsed: DataFrame, paired: DataFrame) -> DataFrame:
    """Return how many such ops and values each run has, as rows of COUNT in TOLD_COLUMNS."""
    ops = _never(paired).select("run", F.lit("open").alias("kind"))
    values = _pending(parsed, paired).select("run", F.lit("pending").alias("kind"))
    counted = ops.unionByName(values).groupBy("run", "kind").agg(F.count("*").alias("value"))
    given = columns(*counted.columns) | {"row": F.lit(schema.COUNT), "type": F.lit("info")}
    told = StructType([schema.PARSED_SCHEMA[name] for name in TOLD_COLUMNS])
    return in_columns(counted, told, given)


def other_ops(paired: DataFrame) -> DataFrame:
    """Return the ops that do not lie whole in a split: OPS_SCHEMA.

    They are few: a process has one a split.
    """
    lost = _never(paired).select(*schema.OPS_SCHEMA.names)
    mended = {"invoked": F.col("prev_op"), "invoke_ns": F.col("prev_invoke_ns")}
    orphans = paired.where(F.col("row") == schema.ORPHAN).withColumns(mended)
    return lost.unionByName(orphans.select(*schema.OPS_SCHEMA.names))


def other_mops(whole: DataFrame, parsed: DataFrame, paired: DataFrame) -> DataFrame:
    """Return the values of such ops: MOPS_SCHEMA.

    Those of completions (`whole`) lack the invocation if it is in another split.
    """
    lost = _pending(parsed, paired).select(*schema.MOPS_SCHEMA.names)
    before = paired.where(F.col("row") == schema.ORPHAN).select(
        "run", "op", F.col("prev_op").alias("invoked")
    )
    mended = whole.where(F.col("invoked").isNull()).drop("invoked")
    return lost.unionByName(mended.join(F.broadcast(before), ["run", "op"]))
