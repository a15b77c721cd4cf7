"""The job: from a run's folder to its verdict."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from harness.core.errors import HistoryUnreadable
from harness.history_seal import seal
from harness.run_dir import RunDir
from verifiers.checking import (
    SPARK_ERRORS,
    Found,
    Frames,
    build,
    first_line,
    is_unreadable,
    run_checkers,
)
from verifiers.folder import RunInput, check_history, count_rows, read_run
from verifiers.frames import ANY_PARTITION, History
from verifiers.judgement import judge_findings, judge_liveness, verdict_of, why_not_valid
from verifiers.lanes import Lanes, bin_width_ns, draw
from verifiers.replicas.comparison import Comparison, compare, located_in
from verifiers.replicas.copied import read_copied
from verifiers.result import Report, write_verdict
from verifiers.schema import ENDS_SCHEMA, HISTORY_SCHEMAS
from verifiers.session import FEW_ROWS, in_service, open_session, tuned
from verifiers.timeline.frames import see
from verifiers.transactions import aborted_reads, committed_reads

__all__ = ["Report", "verify", "write_verdict"]

_LOG = logging.getLogger(__name__)


def verify(
    run_dir: Path,
    *,
    master: str | None = None,
    say: Callable[[str], None] | None = None,
    exact: bool = False,
) -> Report:
    """Return the verdict on a run, having written `anomalies/` and `lanes.json` into its folder.

    May be called again on the same folder, on any machine that has it.

    Args:
        run_dir: the folder of a run; its raw history is sealed first if it is not.
        master: a Spark master; None is all cores of this machine.
        say: is told, in sentences, what is being done.
        exact: look at every record, also in a long history whose digests agree (digests.py);
            what is found is the same.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: what was recorded is damaged; the message names the file.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    tell = say or _LOG.info
    watch = _Watch()
    with watch("verify"):
        run = read_run(run_dir)
        if (run.path / "history" / "raw").is_dir():
            seal(run.path)
            run = read_run(run_dir)
        files = check_history(run.path)
        with watch("verify: start Spark"):
            spark = open_session(master)
        rows = count_rows(files)
        # A short history is looked at sooner than its digests have been compared.
        digest_first = not exact and rows >= FEW_ROWS
        if rows >= FEW_ROWS:
            tell(f"Verifying {rows:,} rows of history.")
        with in_service(spark), _unreadable_named(run.path), tuned(spark, rows=rows):
            history = _history(spark, run, files)
            # The lanes are small jobs that mostly wait for their plans: they fill the gaps of the
            # large ones.
            with ThreadPoolExecutor(1, "lanes") as aside:
                comparing = aside.submit(_compare, spark, run, watch)
                drawing = aside.submit(_draw, run, history, watch)
                with watch("verify: build frames"):
                    built = build(history, digest_first=digest_first, tell=tell)
                found, replicas = _check(spark, run, built, comparing, watch)
                lanes = drawing.result()
            lanes.write(run.path)
            tell(
                f"Checked {lanes.counts.sends:,} sends, {lanes.counts.read:,} reads and "
                f"{lanes.counts.final:,} final reads with {len(found.checkers)} checkers."
            )
    return _conclude(run, lanes, found, replicas, watch)


@dataclass(slots=True)
class _Watch:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self.seconds[what] = round((time.monotonic_ns() - begin_ns) / 1e9, 3)


def _history(spark: SparkSession, run: RunInput, files: Mapping[str, list[Path]]) -> History:
    recorded: dict[str, DataFrame] = {}
    for dataset, schema in HISTORY_SCHEMAS.items():
        paths = [str(file) for file in files[dataset]]
        # Parquet's own columns are all nullable, so the declared schema says names and types.
        reader = spark.read.schema(schema)
        recorded[dataset] = reader.parquet(*paths) if paths else spark.createDataFrame([], schema)
    reached = [(end.topic, end.partition, end.reached, end.complete) for end in run.ends]
    for topic in run.meta.get("topics", []):
        name, partitions = topic["name"], topic["partitions"]
        complete = sum(end.topic == name and end.complete for end in run.ends) >= partitions
        reached.append((name, ANY_PARTITION, 0, complete))
    return History(
        sends=recorded["send"],
        txns=recorded["txn"],
        polls=committed_reads(recorded["poll"], recorded["send"], run.uncommitted),
        final=recorded["final"],
        events=recorded["event"],
        ends=spark.createDataFrame(reached, ENDS_SCHEMA),
        aborted_reads=aborted_reads(recorded["poll"], recorded["send"], run.uncommitted),
        subscribed=run.subscribed,
        transactional=bool(files["txn"]),
    )


@contextmanager
def _unreadable_named(path: Path) -> Iterator[None]:
    """Turn what Spark says of a damaged file into the error that the caller knows."""
    try:
        yield
    except SPARK_ERRORS as error:
        if not is_unreadable(error):
            raise
        raise HistoryUnreadable(
            f"The history of {path} is damaged ({first_line(error)}): restore it, or seal the "
            "raw history again."
        ) from error


def _draw(run: RunInput, history: History, watch: _Watch) -> Lanes:
    with watch("verify: draw lanes"):
        bin_ns = bin_width_ns(run.meta, run.origin_ns)
        return draw(history, origin_ns=run.origin_ns, bin_ns=bin_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replicas:
    """What the verdict says of replicas and timeline, and why replicas are not compared in full."""

    told: Mapping[str, Any]
    reasons: tuple[str, ...]
    timeline: Mapping[str, Any]


def _compare(spark: SparkSession, run: RunInput, watch: _Watch) -> Comparison:
    with watch("verify: compare replicas"):
        copied = read_copied(RunDir(run.path), run.meta)
        ends = {(end.topic, end.partition): end.high for end in run.ends}
        return compare(spark, copied, ends, run.path)


def _check(
    spark: SparkSession,
    run: RunInput,
    built: Frames,
    comparing: Future[Comparison],
    watch: _Watch,
) -> tuple[Found, _Replicas]:
    kept = built.kept
    try:
        compared = comparing.result()
        kept += compared.kept
        built = built.with_more(compared.frames(spark, built.by_name["values"]), compared.empty)
        with watch("verify: read timeline"):
            seen = see(spark, run)
        built = built.with_more(seen.frames, seen.empty)
        with watch("verify: run checkers"):
            found = run_checkers(spark, run.path, built)
        told = dict(compared.to_json())
        if any(anomaly == "lost-write" for anomaly, _ in found.counts):
            told["located"] = located_in(spark, run.path / "anomalies")
        return found, _Replicas(told=told, reasons=compared.reasons, timeline=seen.told)
    finally:
        for frame in kept:
            frame.unpersist()


def _conclude(
    run: RunInput, lanes: Lanes, found: Found, replicas: _Replicas, watch: _Watch
) -> Report:
    findings = judge_findings(run, found)
    reasons = why_not_valid(run, lanes.counts, found, findings, replicas.reasons)
    return Report(
        run=str(run.meta.get("run", run.path.name)),
        scenario=str(run.meta.get("scenario", "")),
        seed=run.meta.get("seed"),
        kafka=run.kafka,
        verdict=verdict_of(findings, reasons),
        reasons=reasons,
        anomalies=findings,
        counts=lanes.counts,
        faults=run.faults,
        checkers=found.checkers,
        timing_s={**_phases(run), **watch.seconds},
        replicas=replicas.told,
        timeline=replicas.timeline,
        liveness=judge_liveness(run.meta, replicas.timeline, found.counts, lanes.widest_gap),
    )


def _phases(run: RunInput) -> dict[str, float]:
    return {
        str(phase["name"]): round((phase["to_ns"] - phase["from_ns"]) / 1e9, 3)
        for phase in run.meta.get("phases", [])
        if phase.get("to_ns") is not None
    }
