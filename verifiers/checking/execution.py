"""Running the checkers: shared frames, one job for all checkers, and what they found."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from verifiers.checking import polling
from verifiers.checking.checker import CHECKERS, can_find, checkers_of_runs, frames_wanted
from verifiers.checking.crashes import Crashes
from verifiers.cycles.transactions import backward_edges, cycles
from verifiers.frames import consumption, order, records, transactions
from verifiers.frames.history import History
from verifiers.frames.shared import Frames
from verifiers.run_folder.member import MEMBER, Member, assigned_to_members
from verifiers.run_folder.result import OffenceExample
from verifiers.run_folder.schema import ANOMALY_SCHEMA
from verifiers.scanning import digests, offsets, presorted
from verifiers.spark import storage
from verifiers.spark.arrow import frame_of, nothing_like
from verifiers.spark.columns import converted
from verifiers.spark.errors import SPARK_ERRORS, is_unreadable
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
class Built:
    """The shared frames of one run.

    Attributes:
        by_name: all of them, by the names that checkers ask for.
        kept: those that occupy memory or disk until they are unpersisted.
        empty: which of the suspects, and of what checkers need, are known to be none.
    """

    by_name: Mapping[str, DataFrame]
    kept: tuple[DataFrame, ...]
    empty: frozenset[str] = frozenset()

    def with_more(self, frames: Mapping[str, DataFrame], empty: frozenset[str]) -> "Built":
        """Return these frames and others, of which some are known to be empty."""
        return Built(by_name={**self.by_name, **frames}, kept=self.kept, empty=self.empty | empty)


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
) -> Built:
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
    kept: list[DataFrame] = []

    def held(frame: DataFrame) -> DataFrame:
        kept.append(keep(frame))
        return kept[-1]

    log = held(offsets.log(history, by_scan=digest_first))
    checked = (
        _where_digests_differ(history, log, tell, held)
        if digest_first
        else _Suspicious(history=history, values=held(records.values(history)))
    )
    values = checked.values
    turns = held(order.turns(history, checked.polls))
    processing = consumption.processing(history.events)
    of_txns: dict[str, DataFrame] = {}
    if history.transactional:
        txn_reads = held(transactions.txn_reads(history))
        of_txns = {
            "parts": held(transactions.parts(history, values)),
            "txn_reads": txn_reads,
            "txn_cycles": backward_edges(txn_reads, history),
        }
    counted = {
        "values": values,
        "turns": turns,
        "slots": offsets.suspects(values, log),
        "processing": processing,
        "txns": history.txns,
        "aborted_reads": history.aborted_reads,
        **of_txns,
    }
    marks = [frame.select(F.lit(name).alias("frame")) for name, frame in counted.items()]
    sizes = {row["frame"]: row["count"] for row in union(marks).groupBy("frame").count().collect()}
    _LOG.debug("suspects: %s", sizes)
    empty = frozenset({*counted, "parts", "txn_reads", "txn_cycles"}) - frozenset(sizes)

    def known(name: str, frame: DataFrame) -> DataFrame:
        # Of what is known to be empty, Spark plans nothing.
        return nothing_like(frame) if name in empty else frame

    suspects = {name: frame for name, frame in of_txns.items() if name not in empty}
    if "txn_cycles" in suspects:
        suspects["txn_cycles"] = cycles(suspects["txn_reads"], history)
    values = known("values", values)
    if "turns" not in empty:
        suspects["turns"] = held(polling.judged(turns, values, log, history.events))
    session = history.polls.sparkSession
    by_name = {
        **history.recorded(),
        "txns": known("txns", history.txns),
        "aborted_reads": known("aborted_reads", history.aborted_reads),
        "values": values,
        "log": log,
        "turns": frame_of(session, [], polling.TURNS_SCHEMA),
        "producing": held(order.producing(history, values, checked.sends)),
        "slots": frame_of(session, [], offsets.SLOTS_SCHEMA)
        if "slots" in empty
        else offsets.slots(checked.history, values, log),
        "processing": known("processing", processing),
        **suspects,
    }
    return Built(by_name=by_name, kept=tuple(kept), empty=empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspicious:
    """The part of a history that has to be checked.

    Attributes:
        history: the records of values that may not be in order, and of the offsets that may hold
            more than one value; possibly others.
        values: what is known of each value; kept.
        polls: the polls that `turns` needs; None is all.
        sends: the sends that `producing` needs; None is all.
    """

    history: History
    values: DataFrame
    polls: DataFrame | None = None
    sends: DataFrame | None = None


def _where_digests_differ(
    history: History,
    log: DataFrame,
    tell: Callable[[str], None],
    held: Callable[[DataFrame], DataFrame],
) -> _Suspicious:
    tell("Comparing digests of what was acknowledged, polled and finally read, and their order.")
    stretches = held(digests.stretches_of(history))
    polls, sends = held(presorted.polls(history)), held(presorted.sends(history, []))
    # One of these jobs is planned while workers scan for the other.
    with ThreadPoolExecutor(1, "order") as aside:
        ordering = aside.submit(presorted.are_sorted, polls, sends)
        doubt = digests.doubt_of(log, stretches)
        polls_sorted, sends_sorted = ordering.result()
    if doubt.is_large:
        tell(f"{doubt.records:,} records lie where digests differ: looking at every record.")
        return _Suspicious(history=history, values=held(records.values(history)))
    near = history
    if doubt.records == 0:
        tell("All digests agree.")
        values = nothing_like(records.values(history))
    else:
        tell(f"{doubt.records:,} records lie where digests differ: looking at each of them.")
        doubtful = digests.in_doubt(history, log, stretches)
        near = replace(
            doubtful,
            sends=held(doubtful.sends),
            polls=held(doubtful.polls),
            final=held(doubtful.final),
        )
        values = held(records.values(near))
        suspicious = values.select("value").toArrow()["value"].to_pylist()
        # The sends around a suspicious value are to be kept as well.
        sends = held(presorted.sends(history, suspicious))
    return _Suspicious(
        history=near,
        values=values,
        polls=polls if polls_sorted else None,
        sends=sends if sends_sorted else None,
    )


def run_checkers(
    spark: SparkSession, built: Built, members: Sequence[Member], scratch: str
) -> dict[int, Found]:
    """Run every registered checker, and return what they find in each member, by its number.

    They write it into `scratch`, the name of an empty folder. A checker that crashes leaves its
    traceback in the folders of the runs, `crash-<name>.txt`, and stops no other.

    Raises:
        PySparkException: the history itself cannot be read; or Py4JJavaError.
    """
    crashes = Crashes([member.run.path for member in members])
    checks = checkers_of_runs()
    possible = [name for name in checks if can_find(CHECKERS[name], built.empty)]
    plans = plans_of(possible, built.by_name, crashes, _named)
    target = storage.join(scratch, FOUND)

    def begin() -> None:
        storage.remove(target)
        storage.make_folder(target)

    def write(plans: Sequence[DataFrame]) -> None:
        if plans:
            _write(plans, members, target)

    begin()
    in_one_job(plans, write, crashes.note, again=begin)
    # Where nothing was found, no file was written.
    summaries = _summarise(found_in(spark, scratch)) if storage.files_below(target) else {}
    checkers = {name: "crashed" if name in crashes.sentences else "ran" for name in checks}
    return {
        member.number: replace(
            summaries.get(member.number, Found(counts={}, examples={})),
            checkers=checkers,
            crashes=tuple(crashes.sentences.values()),
        )
        for member in members
    }


def plans_of(
    checks: Collection[str],
    by_name: Mapping[str, DataFrame],
    crashes: Crashes,
    named: Callable[[str, DataFrame], DataFrame],
) -> dict[str, DataFrame]:
    """Return what each of some checkers finds, by its name, as a plan.

    Args:
        checks: the names of the checkers.
        by_name: the frames that they may ask for, and of which others are made.
        crashes: is told of each that cannot make a plan.
        named: returns offences of an anomaly in the columns of the plans.
    """
    plans: dict[str, DataFrame] = {}
    frames = Frames(by_name)
    for name in checks:
        check = CHECKERS[name]
        try:
            found = check(**{wanted: frames[wanted] for wanted in frames_wanted(check)})
            plans[name] = named(name, found)
        except Exception as error:  # noqa: BLE001  (a checker may raise anything; it is recorded)
            crashes.note(name, error)
    return plans


def in_one_job(
    plans: Mapping[str, DataFrame],
    job: Callable[[Sequence[DataFrame]], None],
    note: Callable[[str, Exception], None],
    *,
    again: Callable[[], None] = lambda: None,
) -> None:
    """Run all plans in one job; if that fails, each in a job of its own, to learn which one does.

    Args:
        plans: by name.
        job: runs some of them.
        note: is told of each that fails by itself.
        again: called before they are run one by one.

    Raises:
        PySparkException: the history itself cannot be read; or Py4JJavaError.
    """
    try:
        job(list(plans.values()))
    except SPARK_ERRORS as error:
        if is_unreadable(error):
            raise
        again()
        for name, plan in plans.items():
            try:
                job([plan])
            except SPARK_ERRORS as crash:
                if is_unreadable(crash):
                    raise
                note(name, crash)


def found_in(spark: SparkSession, scratch: str) -> DataFrame:
    """Return what the checkers found: FOUND_SCHEMA, and the number of the member."""
    found = storage.spark_name(storage.join(scratch, FOUND))
    return spark.read.schema(_MEMBERS_SCHEMA).parquet(found)


def _named(anomaly: str, found: DataFrame) -> DataFrame:
    columns = [converted(field.name, field) for field in ANOMALY_SCHEMA.fields]
    return found.select(F.lit(anomaly).alias("anomaly"), *columns)


def _write(plans: Sequence[DataFrame], members: Sequence[Member], target: str) -> None:
    found = assigned_to_members(union(plans), members)
    # Of a short run there is one part; of a long one no task has to write all that was found.
    parts = found.repartition(MEMBER, "anomaly", "topic", "partition")
    writer = parts.sortWithinPartitions(MEMBER, "anomaly", *_PLACE).write
    writer.mode("append").partitionBy(MEMBER).option(
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
    for row in sorted(rows, key=_place):
        counts[row["anomaly"], row["kind"]] = row["count"]
        if row["from_ns"] is not None:
            since, until = times.get(row["anomaly"], (row["from_ns"], row["to_ns"]))
            times[row["anomaly"]] = (min(since, row["from_ns"]), max(until, row["to_ns"]))
        columns = {column.name: row[column.name] for column in ANOMALY_SCHEMA.fields}
        examples.setdefault(row["anomaly"], []).append(OffenceExample(**columns))
    lowest = {name: tuple(offences[:MOST_EXAMPLES]) for name, offences in examples.items()}
    return Found(counts=counts, examples=lowest, times=times)


def _place(row: Row) -> tuple[object, ...]:
    # Offences without a known place come last.
    numbers = tuple((row[column] is None, row[column] or 0) for column in _NUMBERS)
    return row["topic"] or "", numbers, row["kind"] or ""
