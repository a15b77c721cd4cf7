"""Running the checkers: frames once, one job for all, none that hides what another finds."""

import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from verifiers import consumption, digests, frames, places, skim, transactions
from verifiers.checker import CHECKERS, Checker, can_find, frames_wanted
from verifiers.frames import History
from verifiers.result import Example
from verifiers.schema import ANOMALY_SCHEMA

_LOG = logging.getLogger(__name__)

MOST_EXAMPLES = 32
"""So many examples of each anomaly stand in a verdict; `anomalies/` holds them all."""

FOUND_SCHEMA = StructType([StructField("anomaly", StringType()), *ANOMALY_SCHEMA.fields])
"""`anomalies/`: ANOMALY_SCHEMA behind the name of the anomaly."""

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises; the latter if Spark has no class of its own for the cause."""

_UNREADABLE = re.compile(r"FAILED_READ_FILE|\bat org\.apache\.parquet\.")
_NUMBERS = ("partition", "offset", "value", "time_ns", "process")
_PLACE = ("topic", *_NUMBERS, "kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The shared frames of one run.

    Attributes:
        by_name: all of them, by the names that checkers ask for.
        kept: those that occupy memory or disk until they are unpersisted.
        empty: which of the suspects, and of what checkers need, are known to be none.
    """

    by_name: Mapping[str, DataFrame]
    kept: tuple[DataFrame, ...]
    empty: frozenset[str] = frozenset()

    def with_more(self, frames: Mapping[str, DataFrame], empty: frozenset[str]) -> "Frames":
        """Return these and others, of whose suspects some are known to be none."""
        return Frames(by_name={**self.by_name, **frames}, kept=self.kept, empty=self.empty | empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the checkers found.

    Attributes:
        counts: offences by anomaly and kind.
        examples: at most 32 by anomaly, the lowest places first.
        times: when the first and the last offence happened, ns, by anomaly, where known.
        checkers: "ran" or "crashed", by name.
        crashes: one sentence for each that crashed.
    """

    counts: Mapping[tuple[str, str | None], int]
    examples: Mapping[str, tuple[Example, ...]]
    checkers: Mapping[str, str]
    crashes: tuple[str, ...] = ()
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def build(
    history: History, *, digest_first: bool = False, tell: Callable[[str], None] = _LOG.debug
) -> Frames:
    """Return the shared frames, the large shuffles behind them done, in one job.

    What is kept is small, and Spark knows its size when it plans all that follows.

    Args:
        history: the recorded frames.
        digest_first: look at single values only where digests differ (digests.py), and at the
            order of records without sorting them (skim.py); it costs jobs of its own, and saves
            the shuffles of all records. The frames are the same.
        tell: is told, in sentences, what came of the digests.
    """
    log = places.log(history).persist()
    seen = _where_digests_differ(history, log, tell) if digest_first else _Seen.of_all(history)
    values = seen.values
    turns = frames.turns(history, seen.polls).persist()
    processing = consumption.processing(history.events)
    parts = transactions.parts(history, values).persist()
    kept = (values, log, turns, parts, *seen.skimmed)
    counted = {
        "values": values,
        "turns": turns,
        "slots": places.suspects(values, log),
        "processing": processing,
        "parts": parts,
        "txns": history.txns,
        "aborted_reads": history.aborted_reads,
    }
    marks = [frame.select(F.lit(name).alias("frame")) for name, frame in counted.items()]
    sizes = {
        row["frame"]: row["count"]
        for row in reduce(DataFrame.unionByName, marks).groupBy("frame").count().collect()
    }
    _LOG.debug("suspects: %s", sizes)
    by_name = {
        **history.recorded(),
        "values": values,
        "log": log,
        "turns": turns,
        "producing": frames.producing(history, values, seen.sends),
        "slots": places.slots(history, values, log),
        "processing": processing,
        "parts": parts,
        "transactors": history.txns.select("process").distinct(),
    }
    return Frames(by_name=by_name, kept=kept, empty=frozenset(counted) - frozenset(sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What of a history must be looked at.

    Attributes:
        values: what is known of each value; kept.
        polls: the polls that `turns` must see; None is all.
        sends: the sends that `producing` must see; None is all.
        skimmed: what occupies memory or disk for that.
    """

    values: DataFrame
    polls: DataFrame | None = None
    sends: DataFrame | None = None
    skimmed: tuple[DataFrame, ...] = ()

    @classmethod
    def of_all(cls, history: History) -> "_Seen":
        return cls(values=frames.values(history).persist())


def _where_digests_differ(history: History, log: DataFrame, tell: Callable[[str], None]) -> _Seen:
    tell("Comparing digests of what was acknowledged, polled and finally read.")
    records = digests.records_in_doubt(history, log)
    if records > digests.MOST_IN_DOUBT:
        tell(f"{records:,} records lie where digests differ: looking at every record.")
        return _Seen.of_all(history)
    if records == 0:
        tell("All digests agree.")
        values, told = digests.nothing_like(frames.values(history)).persist(), []
    else:
        tell(f"{records:,} records lie where digests differ: looking at each of them.")
        values = frames.values(history, digests.suspects(history, log)).persist()
        told = [row["value"] for row in values.select("value").collect()]
    tell("Checking the order of sends and polls.")
    polls, sends = skim.polls(history).persist(), skim.sends(history, told).persist()
    return _Seen(
        values=values,
        polls=polls if skim.is_sorted(polls) else None,
        sends=sends if skim.is_sorted(sends) else None,
        skimmed=(polls, sends),
    )


def run_checkers(spark: SparkSession, path: Path, built: Frames) -> Found:
    """Run every registered checker and write what they found to `anomalies/` in the folder.

    A checker that crashes leaves its traceback in the folder, `crash-<name>.txt`, and stops no
    other.

    Args:
        spark: the session of the frames.
        path: the run's folder.
        built: the shared frames.

    Raises:
        PySparkException: the history itself cannot be read; or Py4JJavaError.
    """
    target = path / "anomalies"
    for stale in path.glob("crash-*.txt"):
        stale.unlink()
    crashes: dict[str, str] = {}
    plans: dict[str, DataFrame] = {}
    for name in CHECKERS:
        if not can_find(CHECKERS[name], built.empty):
            continue
        try:
            plans[name] = _plan(name, CHECKERS[name], built.by_name)
        except Exception as error:  # noqa: BLE001  (a checker may raise anything; it is recorded)
            crashes[name] = _note_crash(path, name, error)
    try:
        _write(spark, list(plans.values()), target, mode="overwrite")
    except SPARK_ERRORS as error:
        if is_unreadable(error):
            raise
        # One of them failed on the data; which one shows when each runs by itself.
        _write(spark, [], target, mode="overwrite")
        for name, plan in plans.items():
            try:
                _write(spark, [plan], target, mode="append")
            except SPARK_ERRORS as crash:
                if is_unreadable(crash):
                    raise
                crashes[name] = _note_crash(path, name, crash)
    counts, examples, times = _summarise(spark, target)
    return Found(
        counts=counts,
        examples=examples,
        checkers={name: "crashed" if name in crashes else "ran" for name in CHECKERS},
        crashes=tuple(crashes.values()),
        times=times,
    )


def is_unreadable(error: Exception) -> bool:
    """Tell whether a job failed because a file of the history could not be read."""
    return _UNREADABLE.search(str(error)) is not None


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, shortened."""
    return _said(error)[:160]


def _said(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        # Its first line says only that something went wrong; the cause is an exception of Java's.
        error = RuntimeError(error.java_exception.getMessage() or type(error).__name__)
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _plan(name: str, check: Checker, by_name: Mapping[str, DataFrame]) -> DataFrame:
    found = check(**{wanted: by_name[wanted] for wanted in frames_wanted(check)})
    columns = [F.col(field.name).cast(field.dataType) for field in ANOMALY_SCHEMA.fields]
    return found.select(F.lit(name).alias("anomaly"), *columns)


def _write(spark: SparkSession, plans: Sequence[DataFrame], target: Path, *, mode: str) -> None:
    nothing = [] if plans else [spark.createDataFrame([], FOUND_SCHEMA)]
    found = reduce(DataFrame.unionByName, [*plans, *nothing])
    writer = found.repartition(1).sortWithinPartitions("anomaly", *_PLACE).write
    writer.mode(mode).option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(
        str(target)
    )


def _summarise(
    spark: SparkSession, target: Path
) -> tuple[
    dict[tuple[str, str | None], int], dict[str, tuple[Example, ...]], dict[str, tuple[int, int]]
]:
    found = spark.read.schema(FOUND_SCHEMA).parquet(str(target))
    alike = Window.partitionBy("anomaly", "kind")
    first = (
        found.withColumn("count", F.count("*").over(alike))
        .withColumn("from_ns", F.min("time_ns").over(alike))
        .withColumn("to_ns", F.max("time_ns").over(alike))
        .withColumn(
            "rank",
            F.row_number().over(alike.orderBy(*(F.col(c).asc_nulls_last() for c in _PLACE))),
        )
        .where(F.col("rank") <= MOST_EXAMPLES)
    )
    counts: dict[tuple[str, str | None], int] = {}
    examples: dict[str, list[Example]] = {}
    times: dict[str, tuple[int, int]] = {}
    for row in first.collect():
        counts[row["anomaly"], row["kind"]] = row["count"]
        if row["from_ns"] is not None:
            since, until = times.get(row["anomaly"], (row["from_ns"], row["to_ns"]))
            times[row["anomaly"]] = (min(since, row["from_ns"]), max(until, row["to_ns"]))
        columns = {column.name: row[column.name] for column in ANOMALY_SCHEMA.fields}
        examples.setdefault(row["anomaly"], []).append(Example(**columns))
    return counts, {name: _lowest(some) for name, some in examples.items()}, times


def _lowest(examples: Sequence[Example]) -> tuple[Example, ...]:
    def place(example: Example) -> tuple[tuple[bool, Any], ...]:
        # Unknown places come last.
        return tuple((getattr(example, c) is None, getattr(example, c) or 0) for c in _NUMBERS)

    by_place = sorted(examples, key=lambda one: (one.topic or "", place(one), one.kind or ""))
    return tuple(by_place[:MOST_EXAMPLES])


def _note_crash(path: Path, name: str, error: Exception) -> str:
    file = path / f"crash-{name}.txt"
    file.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return f"The checker {name} crashed ({first_line(error)}): its traceback is in {file.name}."
