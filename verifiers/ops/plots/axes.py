"""The axes of the plots of op histories: from when to when, and when the drain began."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from verifiers.ops.parser import WITH_MOPS
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import BOOL, DOUBLE, INT, LONG, declared

AXES_SCHEMA = declared(run=INT, timed=BOOL, low=LONG, width=DOUBLE)
"""The axis of each history: whether it is one of time, where it begins, and how wide a bin is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The horizontal axis of a history's plots: time in ns, or indices of completions if not timed.

    `drain` is where polls went on and nothing was sent any more; None if no OK poll or transaction
    was invoked after the last send.
    """

    timed: bool
    low: int
    high: int
    drain: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes of one history: when ops completed, and time, which is None if no op has a time."""

    moments: Axis
    times: Axis | None


def axes_of(ops: DataFrame, mops: DataFrame) -> Mapping[int, Axes]:
    """Return the axes of each history that has ops (OPS_SCHEMA, MOPS_SCHEMA), by run."""
    sent = mops.where(F.col("kind") == "send").groupBy("run").agg(F.max("op").alias("last_send"))
    ok, f = F.col("type") == "ok", F.col("f")
    times = F.array_compact(F.array("invoke_ns", "complete_ns"))
    sends_last = F.col("op") == F.col("last_send")
    polls_on = ok & f.isin("poll", "txn") & (F.col("invoked") > F.col("last_send"))
    rows = (
        ops.join(F.broadcast(sent), "run", "left")
        .groupBy("run")
        .agg(
            F.count_if(ok & f.isin(*WITH_MOPS) & F.col("complete_ns").isNull()).alias("untimed"),
            F.min("invoked").alias("first"),
            F.max("op").alias("last"),
            F.min(F.array_min(times)).alias("low"),
            F.max(F.array_max(times)).alias("high"),
            F.max("last_send").alias("last_send"),
            F.max(F.when(sends_last, F.coalesce("complete_ns", "invoke_ns"))).alias("sent_ns"),
            F.count_if(polls_on).alias("polls_on"),
        )
        .collect()
    )
    axes = {}
    for row in rows:
        drained = row["polls_on"] > 0
        timed = None
        if row["low"] is not None:
            drain = row["sent_ns"] if drained else None
            timed = Axis(timed=True, low=row["low"], high=row["high"], drain=drain)
        by_index = Axis(
            timed=False,
            low=row["first"],
            high=row["last"],
            drain=row["last_send"] if drained else None,
        )
        moments = by_index if timed is None or row["untimed"] else timed
        axes[row["run"]] = Axes(moments=moments, times=timed)
    return axes


def axes_frame(spark: SparkSession, axes: Iterable[tuple[int, Axis]], *, bins: int) -> DataFrame:
    """Return axes as a frame, each divided into so many bins: AXES_SCHEMA."""
    rows = [(run, axis.timed, axis.low, max(axis.high - axis.low, 1) / bins) for run, axis in axes]
    return F.broadcast(frame_of(spark, rows, AXES_SCHEMA))


def bin_of(x: Column, bins: int) -> Column:
    """Return the bin in which a place of the axis lies, from 0; ends are kept within."""
    # As doubles, since times may be anything that 64 bits hold.
    share = (x.cast("double") - F.col("low").cast("double")) / F.col("width")
    return F.greatest(F.lit(0), F.least(F.lit(bins - 1), F.floor(share))).cast("int")
