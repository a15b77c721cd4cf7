"""How far behind polls were over time: a series by thread, by key and by both, thinned by Spark."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.core.grouping import by_key
from verifiers.ops.lags import stands
from verifiers.ops.plots.axes import Axes, axes_frame, bin_of
from verifiers.ops.plots.threads import threads_in
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, LONG, declared

BINS = 400
"""Each keeps the stretch that ends furthest behind, and the one that began first."""

MOST_MEMBERS = 24
"""So many members have a panel, those first that were furthest behind."""

THREAD, KEY, THREAD_KEY = "thread", "key", "thread-key"

_THREADS_SCHEMA = declared(run=INT, threads=LONG)
_MEMBER = ("run", "grouping", "thread", "of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time in which a process stood still in a key, while the log went on.

    It was behind since `from_ns`, and polled there for the last time at `to_ns`, by `op` (the index
    of its completion); then it was behind by `lag_ns`.
    """

    from_ns: int
    to_ns: int
    lag_ns: int
    process: int
    key: str
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLag:
    """How far behind one member of a grouping was: a thread, a key, or both.

    `stretches` are at most two of each bin; a member that never was behind has none.
    """

    thread: int | None
    key: str | None
    stretches: tuple[Stretch, ...]

    @property
    def worst(self) -> Stretch | None:
        """The first of the worst stretches; None if there is none."""
        stretches = self.stretches
        return max(stretches, key=lambda one: (one.lag_ns, -one.to_ns), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """How far behind the polls of a history were, in one grouping.

    `members` are the worst of `count`, at most MOST_MEMBERS. `replaced` tells whether a thread is
    more than one process.
    """

    members: tuple[MemberLag, ...]
    count: int
    replaced: bool


def lag_series(
    ops: DataFrame, mops: DataFrame, axes: Mapping[int, Axes]
) -> Mapping[int, Mapping[str, Lags]]:
    """Return the lags of each history by grouping, by run; of one without times there are none."""
    threads = threads_in(ops)
    timed = [(run, axis.times) for run, axis in axes.items() if axis.times is not None]
    spark = ops.sparkSession
    along = axes_frame(spark, timed, bins=BINS)
    known = F.broadcast(frame_of(spark, list(threads.items()), _THREADS_SCHEMA))
    found = stands(ops, mops).join(along, "run").join(known, "run", "left")
    return {
        run: {
            name: _lags(members, replaced=run in threads)
            for name, members in by_key(rows, itemgetter("grouping")).items()
        }
        for run, rows in by_key(_thinned(found).collect(), itemgetter("run")).items()
    }


def _thinned(found: DataFrame) -> DataFrame:
    """Return the members of each grouping with what is kept of each bin.

    Columns: run, grouping, thread, of (the key); highest, longest (structs of the fields of
    Stretch; null if the lag is 0), members, rank.
    """
    thread = F.coalesce(F.col("process") % F.col("threads"), F.col("process")).cast("long")
    no_thread, no_key = F.lit(None).cast("long"), F.lit(None).cast("string")
    members = (
        (THREAD, thread, no_key), (KEY, no_thread, F.col("key")),
        (THREAD_KEY, thread, F.col("key")),
    )  # fmt: skip
    groupings = F.array(
        *(
            F.struct(F.lit(name).alias("grouping"), of_thread.alias("thread"), of_key.alias("of"))
            for name, of_thread, of_key in members
        )
    )
    # It is behind from when a record was known that it does not have, or since it stands there.
    from_ns = F.least("time", F.greatest("since", "from_ns")).alias("from_ns")
    lag_ns, to_ns = F.col("lag").alias("lag_ns"), F.col("time").alias("to_ns")
    behind = F.col("lag") > 0
    sooner = F.try_subtract(F.lit(0), F.col("time")).alias("sooner")
    highest = F.struct(lag_ns, sooner, from_ns, to_ns, "process", "key", "op")
    longest = F.struct(from_ns, to_ns, "process", "key", "op", lag_ns)
    binned = (
        found.select(
            "run",
            F.explode(groupings).alias("member"),
            bin_of(F.col("time"), BINS).alias("bin"),
            F.when(behind, highest).alias("highest"),
            F.when(behind, longest).alias("longest"),
        )
        .select("run", "member.*", "bin", "highest", "longest")
        .groupBy(*_MEMBER, "bin")
        .agg(F.max("highest").alias("highest"), F.min("longest").alias("longest"))
    )
    alike = Window.partitionBy("run", "grouping")
    order = alike.orderBy(F.desc_nulls_last("worst"), "thread", "of")
    return (
        binned.withColumn("worst", F.max("highest.lag_ns").over(Window.partitionBy(*_MEMBER)))
        .withColumn("rank", F.dense_rank().over(order))
        .withColumn("members", F.max("rank").over(alike))
        .where(F.col("rank") <= MOST_MEMBERS)
        .drop("worst")
    )


def _lags(rows: Sequence[Row], *, replaced: bool) -> Lags:
    by_rank = sorted(by_key(rows, itemgetter("rank")).items())
    return Lags(
        members=tuple(_member(member) for _, member in by_rank),
        count=rows[0]["members"],
        replaced=replaced,
    )


def _member(rows: Sequence[Row]) -> MemberLag:
    fields = [field.name for field in dataclasses.fields(Stretch)]
    found = {
        Stretch(**{name: kept[name] for name in fields})
        for row in rows
        for kept in (row["highest"], row["longest"])
        if kept is not None
    }
    stretches = sorted(
        found, key=lambda stretch: (stretch.from_ns, stretch.to_ns, stretch.op, stretch.key)
    )
    return MemberLag(thread=rows[0]["thread"], key=rows[0]["of"], stretches=tuple(stretches))
