"""Steps from one value to the next that are out of order, and reads that must not be."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.ops.edges import place_of

_VALUE = ["run", "key", "value"]


def suspicious_steps(mops: DataFrame, values: DataFrame) -> DataFrame:
    """Return the values that ops sent or polled out of order, or must not have polled.

    Each value is compared with the one before it: within an op, with the value before it of the
    same key (`internal`); the first of an op, with the last value that the process sent to, or
    polled from, that key in an earlier OK op (for sends, also in an INFO op).

    Columns:
        run, op, process, type, f, mop, position, kind, key, value: the value, and who sent or
            polled it.
        writer, writer_type: the op that wrote it; null if none did.
        internal: whether it is compared within its op.
        before_op, before: the value before, and its op; null if there is none.
        delta: its distance from the value before in the version order: 1 is in order, and 1 stands
            also for values without a place there, or without a value before.
        place: where the version order has it; -1 if nowhere.
        unread: whether no OK op polled it, or none polled the value before.
        from_place, to_place: where its writer, and the op, stand in the history (edges.py).
        backward: whether the op stands before the writer of what it polled.
    """
    known = values.select(
        *_VALUE,
        "writer",
        "writer_type",
        F.col("place").alias("from_place"),
        "last",
        F.col("reader").isNull().alias("unread"),
    )
    placed = mops.drop("offset").join(known, _VALUE)
    order = Window.partitionBy("run", "process", "kind", "key").orderBy("op", "position")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    moves = (F.col("type") == "ok") | ((F.col("kind") == "send") & (F.col("type") == "info"))

    step = F.struct("op", "value", "place", "unread")
    far = F.last(F.when(moves, step), ignorenulls=True).over(before)
    compared = (
        placed.withColumn("place", F.coalesce("last", F.lit(-1)))
        .select("*", F.lag(step).over(order).alias("near"), far.alias("far"))
        .withColumn("internal", F.coalesce(F.col("near.op") == F.col("op"), F.lit(False)))
    )
    reference = F.when(F.col("internal"), F.col("near")).otherwise(F.col("far"))
    both = (F.col("place") >= 0) & (reference["place"] >= 0)
    delta = F.when(both, F.col("place") - reference["place"])
    named = {
        "before_op": reference["op"],
        "before": reference["value"],
        "delta": F.coalesce(delta, F.lit(1)),
        "to_place": place_of(),
        "unread": F.col("unread") | F.coalesce(reference["unread"], F.lit(False)),
    }
    found = compared.withColumns(named).drop("near", "far", "last", "invoked")
    polled = F.col("kind") == "poll"
    aborted = polled & (F.col("type") == "ok") & (F.col("writer_type") == "fail")
    own = polled & (F.col("writer") == F.col("op"))
    foreign = polled & (F.col("writer") != F.col("op"))
    backward = foreign & (F.col("from_place") >= F.col("to_place"))
    return found.withColumn("backward", F.coalesce(backward, F.lit(False))).where(
        (F.col("delta") != 1) | aborted | own | F.col("backward")
    )


def remembered(steps: DataFrame, ops: DataFrame) -> DataFrame:
    """Return the steps out of order whose process had not given up the key in between.

    An assign or subscribe (OK or INFO) that does not name a key gives it up. Steps have at least
    run, key, process, op, before_op and internal, as in `suspicious_steps`.
    """
    assigned = ops.where(
        F.col("f").isin("assign", "subscribe") & F.col("type").isin("ok", "info")
    ).select(
        F.col("run").alias("assigned_run"),
        F.col("process").alias("assigned_process"),
        F.col("op").alias("assigned_op"),
        "keys",
    )
    return steps.join(
        assigned,
        (F.col("run") == F.col("assigned_run"))
        & (F.col("process") == F.col("assigned_process"))
        & ~F.col("internal")
        & F.col("assigned_op").between(F.col("before_op"), F.col("op"))
        & ~F.array_contains("keys", F.col("key")),
        "left_anti",
    )
