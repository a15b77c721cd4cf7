"""Running the checkers: shared frames, one job for all checkers, and what they found."""

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from verifiers.checking.checker import CHECKERS, Checker, can_find, frames_wanted
from verifiers.frames import consumption, order, records, transactions
from verifiers.frames.answers import answers
from verifiers.frames.giving_up import fatals
from verifiers.frames.history import History
from verifiers.run_folder.member import MEMBER, Member, assigned_to_members
from verifiers.run_folder.result import OffenceExample
from verifiers.run_folder.schema import ANOMALY_SCHEMA
from verifiers.scanning import digests, offsets, presorted
from verifiers.spark import storage
from verifiers.spark.arrow import nothing_like
from verifiers.spark.columns import converted
from verifiers.spark.errors import SPARK_ERRORS, first_line, is_unreadable
from verifiers.spark.plans import keep, union

_LOG = logging.getLogger(__name__)

MOST_EXAMPLES = 32
"""So many examples of each anomaly stand in a verdict; `anomalies/` holds them all."""

FOUND_SCHEMA = StructType([StructField("anomaly", StringType()), *ANOMALY_SCHEMA.fields])
"""`anomalies/`: ANOMALY_SCHEMA behind the name of the anomaly."""

_MEMBERS_SCHEMA = StructType([*FOUND_SCHEMA.fields, StructField(MEMBER, IntegerType())])
FOUND = "found"
"""Where `run_checkers` leaves what was found, in its scratch folder, by member."""

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
        """Return these frames and others, of which some are known to be empty."""
        return Frames(by_name={**self.by_name, **frames}, kept=self.kept, empty=self.empty | empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the checkers found in one run.

    Attributes:
        counts: offences by anomaly and kind.
        examples: at most 32 by anomaly, the lowest places first.
        times: when the first and the last offence happened, ns, by anomaly, where known.
        checkers: "ran" or "crashed", by name.
        crashes: one sentence for each that crashed.
    """

    counts: Mapping[tuple[str, str | None], int]
    examples: Mapping[str, tuple[OffenceExample, ...]]
    checkers: Mapping[str, str] = field(default_factory=dict)
    crashes: tuple[str, ...] = ()
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def build(
    history: History, *, digest_first: bool = False, tell: Callable[[str], None] = _LOG.debug
) -> Frames:
    """Return the shared frames; one job does the large shuffles.

    The persisted frames are small, and Spark knows their sizes when it plans the checkers.

    Args:
        history: the recorded frames.
        digest_first: compare digests first, read single values only where those differ
            (scanning/digests.py), and check the order of records without sorting them
            (scanning/presorted.py). That costs jobs of its own and saves the shuffle of all
            records. The frames are the same.
        tell: receives, in sentences, what the digests showed.
    """
    log = keep(offsets.log(history, by_scan=digest_first))
    checked = (
        _where_digests_differ(history, log, tell) if digest_first else _Suspicious.of_all(history)
    )
    values = checked.values
    turns = keep(order.turns(history, checked.polls))
    processing = consumption.processing(history.events)
    parts = transactions.parts(history, values)
    kept = (values, log, turns, *checked.kept)
    if history.transactional:
        parts = keep(parts)
        kept += (parts,)
    counted = {
        "values": values,
        "turns": turns,
        "slots": offsets.suspects(values, log),
        "processing": processing,
        "parts": parts,
        "txns": history.txns,
        "aborted_reads": history.aborted_reads,
    }
    marks = [frame.select(F.lit(name).alias("frame")) for name, frame in counted.items()]
    sizes = {row["frame"]: row["count"] for row in union(marks).groupBy("frame").count().collect()}
    _LOG.debug("suspects: %s", sizes)
    empty = frozenset(counted) - frozenset(sizes)

    def known(name: str, frame: DataFrame) -> DataFrame:
        # Of what is known to be empty, Spark plans nothing.
        return nothing_like(frame) if name in empty else frame

    values = known("values", values)
    txns = known("txns", history.txns)
    by_name = {
        **history.recorded(),
        "txns": txns,
        "aborted_reads": known("aborted_reads", history.aborted_reads),
        "values": values,
        "log": log,
        "turns": known("turns", turns),
        "producing": order.producing(history, values, checked.sends),
        "slots": known("slots", offsets.slots(checked.history, values, log)),
        "processing": known("processing", processing),
        "parts": known("parts", parts),
        "answers": answers(history.sends, txns, history.events),
        "fatals": fatals(history.events, txns),
        "transactors": txns.select("process").distinct(),
    }
    return Frames(by_name=by_name, kept=kept, empty=empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspicious:
    """The part of a history that has to be checked.

    Attributes:
        history: the records of values that may not be in order, and of the offsets that may hold
            more than one value; possibly others.
        values: what is known of each value; kept.
        polls: the polls that `turns` needs; None is all.
        sends: the sends that `producing` needs; None is all.
        kept: further frames that occupy memory or disk until they are unpersisted.
    """

    history: History
    values: DataFrame
    polls: DataFrame | None = None
    sends: DataFrame | None = None
    kept: tuple[DataFrame, ...] = ()

    @classmethod
    def of_all(cls, history: History) -> "_Suspicious":
        return cls(history=history, values=keep(records.values(history)))


def _where_digests_differ(
    history: History, log: DataFrame, tell: Callable[[str], None]
) -> _Suspicious:
    tell("Comparing digests of what was acknowledged, polled and finally read.")
    stretches = keep(digests.stretches_of(history))
    doubt = digests.doubt_of(log, stretches)
    near = history
    looked_at: tuple[DataFrame, ...] = ()
    if doubt.is_large:
        tell(f"{doubt.records:,} records lie where digests differ: looking at every record.")
        return replace(_Suspicious.of_all(history), kept=(stretches,))
    if doubt.records == 0:
        tell("All digests agree.")
        values, suspicious = nothing_like(records.values(history)), []
    else:
        tell(f"{doubt.records:,} records lie where digests differ: looking at each of them.")
        near = _persisted(digests.in_doubt(history, log, stretches))
        looked_at = (near.sends, near.polls, near.final)
        values = keep(records.values(near))
        suspicious = values.select("value").toArrow()["value"].to_pylist()
    tell("Checking the order of sends and polls.")
    polls, sends = (
        keep(presorted.polls(history)),
        keep(presorted.sends(history, suspicious)),
    )
    return _Suspicious(
        history=near,
        values=values,
        polls=polls if presorted.is_sorted(polls) else None,
        sends=sends if presorted.is_sorted(sends) else None,
        kept=(stretches, polls, sends, *looked_at),
    )


def _persisted(history: History) -> History:
    return replace(
        history,
        sends=keep(history.sends),
        polls=keep(history.polls),
        final=keep(history.final),
    )


def run_checkers(
    spark: SparkSession, built: Frames, members: Sequence[Member], scratch: str
) -> dict[int, Found]:
    """Run every registered checker and write what they find into `scratch`.

    A checker that crashes leaves its traceback in the folders of the runs, `crash-<name>.txt`, and
    stops no other.

    Args:
        spark: the session of the frames.
        built: the shared frames.
        members: the runs that they are of.
        scratch: the name of an empty folder.

    Returns:
        What was found, by member.

    Raises:
        PySparkException: the history itself cannot be read; or Py4JJavaError.
    """
    folders = [member.run.path for member in members]
    for folder in folders:
        for stale in folder.glob("crash-*.txt"):
            stale.unlink()
    crashes: dict[str, str] = {}
    plans = _plans(built, folders, crashes)
    target = storage.join(scratch, FOUND)
    storage.make_folder(target)
    try:
        _write(list(plans.values()), members, target, mode="overwrite")
    except SPARK_ERRORS as error:
        if is_unreadable(error):
            raise
        # One checker failed on the data: to learn which one, each runs in a job of its own.
        storage.remove(target)
        storage.make_folder(target)
        for name, plan in plans.items():
            try:
                _write([plan], members, target, mode="append")
            except SPARK_ERRORS as crash:
                if is_unreadable(crash):
                    raise
                crashes[name] = _note_crash(folders, name, crash)
    # Where nothing was found, no file was written.
    summaries = _summarise(found_in(spark, scratch)) if storage.files_below(target) else {}
    checkers = {name: "crashed" if name in crashes else "ran" for name in CHECKERS}
    return {
        member.number: replace(
            summaries.get(member.number, Found(counts={}, examples={})),
            checkers=checkers,
            crashes=tuple(crashes.values()),
        )
        for member in members
    }


def _plans(built: Frames, folders: Sequence[Path], crashes: dict[str, str]) -> dict[str, DataFrame]:
    """Return the result of each checker that can find anything, by name, as a plan."""
    plans: dict[str, DataFrame] = {}
    for name in CHECKERS:
        if not can_find(CHECKERS[name], built.empty):
            continue
        try:
            plans[name] = _plan(name, CHECKERS[name], built.by_name)
        except Exception as error:  # noqa: BLE001  (a checker may raise anything; it is recorded)
            crashes[name] = _note_crash(folders, name, error)
    return plans


def found_in(spark: SparkSession, scratch: str) -> DataFrame:
    """Return what the checkers found: FOUND_SCHEMA, and the number of the member."""
    found = storage.spark_name(storage.join(scratch, FOUND))
    return spark.read.schema(_MEMBERS_SCHEMA).parquet(found)


def _plan(name: str, check: Checker, by_name: Mapping[str, DataFrame]) -> DataFrame:
    found = check(**{wanted: by_name[wanted] for wanted in frames_wanted(check)})
    columns = [converted(field.name, field) for field in ANOMALY_SCHEMA.fields]
    return found.select(F.lit(name).alias("anomaly"), *columns)


def _write(
    plans: Sequence[DataFrame], members: Sequence[Member], target: str, *, mode: str
) -> None:
    if not plans:
        return
    found = assigned_to_members(union(plans), members)
    # Of a short run there is one part; of a long one no task has to write all that was found.
    parts = found.repartition(MEMBER, "anomaly", "topic", "partition")
    writer = parts.sortWithinPartitions(MEMBER, "anomaly", *_PLACE).write
    writer.mode(mode).partitionBy(MEMBER).option(
        "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
    ).parquet(storage.spark_name(target))


def _summarise(found: DataFrame) -> dict[int, Found]:
    alike = Window.partitionBy(MEMBER, "anomaly", "kind")
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
    by_member: dict[int, list[Row]] = {}
    for row in first.collect():
        by_member.setdefault(row[MEMBER], []).append(row)
    return {number: _summary(rows) for number, rows in by_member.items()}


def _summary(rows: Sequence[Row]) -> Found:
    counts: dict[tuple[str, str | None], int] = {}
    examples: dict[str, list[OffenceExample]] = {}
    times: dict[str, tuple[int, int]] = {}
    for row in rows:
        counts[row["anomaly"], row["kind"]] = row["count"]
        if row["from_ns"] is not None:
            since, until = times.get(row["anomaly"], (row["from_ns"], row["to_ns"]))
            times[row["anomaly"]] = (min(since, row["from_ns"]), max(until, row["to_ns"]))
        columns = {column.name: row[column.name] for column in ANOMALY_SCHEMA.fields}
        examples.setdefault(row["anomaly"], []).append(OffenceExample(**columns))
    lowest = {name: _lowest(offences) for name, offences in examples.items()}
    return Found(counts=counts, examples=lowest, times=times)


def _lowest(examples: Sequence[OffenceExample]) -> tuple[OffenceExample, ...]:
    def place(example: OffenceExample) -> tuple[tuple[bool, Any], ...]:
        # Examples without a known place come last.
        return tuple((getattr(example, c) is None, getattr(example, c) or 0) for c in _NUMBERS)

    by_place = sorted(
        examples, key=lambda example: (example.topic or "", place(example), example.kind or "")
    )
    return tuple(by_place[:MOST_EXAMPLES])


def _note_crash(folders: Sequence[Path], name: str, error: Exception) -> str:
    text = "".join(traceback.format_exception(error))
    file = f"crash-{name}.txt"
    for folder in folders:
        (folder / file).write_text(text, encoding="utf-8")
    return f"The checker {name} crashed ({first_line(error)}): its traceback is in {file}."
