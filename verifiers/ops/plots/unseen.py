"""How many values had been sent and not yet been seen: a series by key, thinned by Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.core.grouping import by_key
from verifiers.ops.kept import Kept
from verifiers.ops.plots.axes import Axes, axes_frame, bin_of

BINS = 500
"""Each keeps its first, last, lowest and highest sum over all keys: at most 2000 moments."""

MOST_NAMED = 8
"""So many keys have a layer of their own, all others share one."""

_MOMENT = ("run", "x", "op")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The series of one key, or of all that have none of their own, whose key is None.

    `counts` are the values sent and not yet seen at each moment of the series, `most` how many
    there ever were, also between the moments (None for the others).
    """

    key: str | None
    counts: tuple[int, ...]
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """The values of one history that were sent and not yet seen, at rising places of the axis.

    The first layers are those of keys with values that are never seen, then those that had most of
    them; `keys` is how many keys ever had one.
    """

    moments: tuple[int, ...] = ()
    layers: tuple[Layer, ...] = ()
    keys: int = 0


def unseen_series(
    ops: DataFrame, mops: DataFrame, axes: Mapping[int, Axes]
) -> Mapping[int, Unseen]:
    """Return the series of each history, by run; one that is not there never had such a value.

    A value is sent when the first OK op that sent it completed, and seen when the first OK op that
    polled it did; what was seen before it was sent counts at no time.
    """
    along = axes_frame(ops.sparkSession, ((run, a.moments) for run, a in axes.items()), bins=BINS)
    with Kept() as kept:
        rows = _thinned(kept.keep(_steps(ops, mops, along))).collect()
    return {run: _series(of_run) for run, of_run in by_key(rows, itemgetter("run")).items()}


def _steps(ops: DataFrame, mops: DataFrame, along: DataFrame) -> DataFrame:
    """Return by how much the count of each key changes with each op: run, bin, key, x, op, step."""
    ok = F.col("type") == "ok"
    x = F.when(F.col("timed"), F.col("complete_ns")).otherwise(F.col("op"))
    when = ops.where(ok).join(along, "run").select("run", "op", x.alias("x"))
    sends, moment = F.col("kind") == "send", F.struct("x", "op")
    fates = (
        mops.where(ok)
        .select("run", "op", "key", "value", "kind")
        .join(when, ["run", "op"])
        .groupBy("run", "key", "value")
        .agg(
            F.min(F.when(sends, moment)).alias("sent"), F.min(F.when(~sends, moment)).alias("seen")
        )
        .where(F.col("sent").isNotNull())
        .where(F.col("seen").isNull() | (F.col("seen") > F.col("sent")))
    )
    both = F.array(
        F.struct("sent.*", F.lit(1).alias("step")), F.struct("seen.*", F.lit(-1).alias("step"))
    )
    changes = fates.select("run", "key", F.explode(both).alias("one")).select("run", "key", "one.*")
    return (
        changes.where(F.col("op").isNotNull())
        .groupBy("run", "key", "x", "op")
        .agg(F.sum("step").alias("step"))
        .join(along, "run")
        .select("run", bin_of(F.col("x"), BINS).alias("bin"), "key", "x", "op", "step")
    )


def _thinned(steps: DataFrame) -> DataFrame:
    """Return the change of each layer up to each moment that is kept.

    Columns: run, key (null of those that have no layer of their own), x, order, step; most and
    keys.
    """
    whole = Window.partitionBy("run", "bin")
    along = whole.orderBy("x", "op")
    moment = F.struct("x", "op")
    level = F.struct("level", "x", "op")
    summed = steps.groupBy("run", "bin", "x", "op").agg(F.sum("step").alias("step"))
    before = Window.partitionBy("run").orderBy("bin").rowsBetween(Window.unboundedPreceding, -1)
    bases = (
        summed.groupBy("run", "bin")
        .agg(F.sum("step").alias("sum"))
        .withColumn("base", F.coalesce(F.sum("sum").over(before), F.lit(0)))
        .select("run", "bin", "base")
    )
    kept = (
        (moment == F.min(moment).over(whole))
        | (moment == F.max(moment).over(whole))
        | (level == F.min(level).over(whole))
        | (level == F.max(level).over(whole))
    )
    earlier = along.rowsBetween(Window.unboundedPreceding, -1)
    slots = (
        summed.join(bases, ["run", "bin"])
        .withColumn("level", F.col("base") + F.sum("step").over(along))
        .withColumn("kept", kept.cast("int"))
        .withColumn("slot", F.coalesce(F.sum("kept").over(earlier), F.lit(0)))
        .withColumn("moment", F.max("x").over(Window.partitionBy("run", "bin", "slot")))
        .select(*_MOMENT, "slot", "moment")
    )
    return (
        steps.join(slots, list(_MOMENT))
        .join(_ranked(steps), ["run", "key"])
        .groupBy(
            "run",
            F.when(F.col("rank") <= MOST_NAMED, F.col("key")).alias("key"),
            "bin",
            "slot",
            "moment",
        )
        .agg(
            F.sum("step").alias("step"),
            F.min("rank").alias("rank"),
            F.max("most").alias("most"),
            F.max("keys").alias("keys"),
        )
    )


def _ranked(steps: DataFrame) -> DataFrame:
    """Return the keys in the order in which they deserve a layer: run, key, rank, most, keys."""
    along = Window.partitionBy("run", "key").orderBy("x", "op")
    counted = steps.withColumn("level", F.sum("step").over(along)).groupBy("run", "key")
    alike = Window.partitionBy("run")
    order = alike.orderBy((F.col("left") == 0), F.desc("most"), "key")
    return (
        counted.agg(F.max("level").alias("most"), F.sum("step").alias("left"))
        .withColumn("rank", F.row_number().over(order))
        .withColumn("keys", F.count("*").over(alike))
        .drop("left")
    )


def _series(rows: Sequence[Row]) -> Unseen:
    places = sorted({(row["bin"], row["slot"], row["moment"]) for row in rows})
    at = {place: number for number, place in enumerate(places)}
    layers = []
    for key, of_key in by_key(sorted(rows, key=itemgetter("rank")), itemgetter("key")).items():
        steps = [0] * len(places)
        for row in of_key:
            steps[at[row["bin"], row["slot"], row["moment"]]] += row["step"]
        most = None if key is None else of_key[0]["most"]
        layers.append(Layer(key=key, counts=tuple(accumulate(steps)), most=most))
    # Those that share a layer come last: it may have begun before that of a key of its own.
    layers.sort(key=lambda layer: layer.key is None)
    return Unseen(
        moments=tuple(place[2] for place in places), layers=tuple(layers), keys=rows[0]["keys"]
    )
