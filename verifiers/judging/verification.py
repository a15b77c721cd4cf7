"""The verification of one or several runs in one Spark session, and the verdict on each."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from harness.core.errors import HistoryUnreadable
from verifiers.adequacy.counted import Counted, count
from verifiers.adequacy.evidence import Evidence
from verifiers.adequacy.rule import apply_rules
from verifiers.adequacy.rules.checkers_ran import checker_states
from verifiers.checking.execution import (
    FOUND,
    FOUND_SCHEMA,
    Found,
    build,
    found_in,
    run_checkers,
)
from verifiers.frames.history import ANY_PARTITION, History
from verifiers.frames.transactions import aborted_reads, committed_reads
from verifiers.judging.judgement import judge_findings, judge_liveness, verdict_of, why_not_valid
from verifiers.judging.loaded import LoadedRun
from verifiers.replicas.batches import BATCH_SCHEMA
from verifiers.replicas.comparison import Comparison, compare, located_in
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.gathering import hand_out
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.member import MEMBER, Member, assigned_to_members
from verifiers.run_folder.result import Report
from verifiers.run_folder.schema import ABORTED_READS_SCHEMA, ENDS_SCHEMA, HISTORY_SCHEMAS
from verifiers.run_folder.sealed import Files
from verifiers.scanning.causes import METRIC, Unknown, causes, unknown_txns
from verifiers.scanning.sends import Sends
from verifiers.scanning.throughput import Throughput, throughputs
from verifiers.situations.effects import Latency, effects
from verifiers.situations.loss_causes import copies_destroyed
from verifiers.situations.situation import reached
from verifiers.spark import storage
from verifiers.spark.arrow import frame_of
from verifiers.spark.errors import SPARK_ERRORS, first_line, is_unreadable
from verifiers.spark.session import FEW_ROWS, in_service, is_local, tuned
from verifiers.timeline.frames import SCHEMAS, frames_of, together


class Stopwatch(dict[str, float]):
    """The durations of steps of a verification that have ended, in any thread: seconds by name."""

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Measure the duration of a step, to the millisecond."""
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self[what] = round((time.monotonic_ns() - begin_ns) / 1e9, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every verification needs, whichever runs it verifies.

    Attributes:
        spark: the session.
        scratch: the name of an empty folder that all workers see, on the storage of the runs or on
            this machine.
        tell: receives progress, in sentences.
        stopwatch: measures each step.
        exact: whether to compare every record, however long the history is.
    """

    spark: SparkSession
    scratch: str
    tell: Callable[[str], None]
    stopwatch: Stopwatch
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """One or several runs that are verified together.

    Attributes:
        members: the runs; not none.
        files: the Parquet files of all their histories, by dataset.
        batches: the name of the folder in which the headers of their replicas are kept.
        context: the session, and what else every verification needs.
    """

    members: Mapping[Member, LoadedRun]
    files: Files
    batches: str
    context: Context

    def reports(self) -> list[Report]:
        """Verify all members, write the results into their folders, and return their verdicts.

        Raises:
            HistoryUnreadable: what was recorded is damaged.
            EnvironmentBroken: the Spark master went away.
        """
        rows = sum(loaded.history.rows for loaded in self.members.values())
        if rows >= FEW_ROWS:
            self.context.tell(f"Verifying {rows:,} rows of history.")
        with (
            in_service(self.context.spark),
            _unreadable_named([LargeFiles.of(member.run.path).home for member in self.members]),
            tuned(self.context.spark, rows=rows),
        ):
            history = self._history(divided=rows >= FEW_ROWS or not is_local(self.context.spark))
            # Checking every record of a short history takes less time than comparing digests.
            digest_first = not self.context.exact and rows >= FEW_ROWS
            # The throughput takes small jobs that mostly wait for their plans: they run beside the
            # large jobs.
            with ThreadPoolExecutor(1, "lanes") as aside:
                comparing = aside.submit(self._compare)
                drawing = aside.submit(self._draw, history)
                explaining = aside.submit(self._explain, history)
                results = self._find(history, comparing, aside, digest_first=digest_first)
                drawn = drawing.result()
                txns = explaining.result()
        return [
            self._concluded(member, results, *drawn[member.number], txns.get(member.number, {}))
            for member in self.members
        ]

    def _history(self, *, divided: bool) -> History:
        recorded: dict[str, DataFrame] = {}
        for dataset, schema in HISTORY_SCHEMAS.items():
            paths = [storage.spark_name(file) for file in self.files[dataset]]
            # All columns of Parquet files are nullable: only names and types of the schema count.
            reader = self.context.spark.read.schema(schema)
            if not paths:
                recorded[dataset] = frame_of(self.context.spark, [], schema)
            elif divided:
                recorded[dataset] = reader.parquet(*paths)
            else:
                # What lies in one part is grouped, joined and sorted without a shuffle.
                recorded[dataset] = reader.parquet(*paths).coalesce(1)
        reached = [row for member in self.members for row in _ends(member)]
        uncommitted = self._processes(lambda run: run.uncommitted)
        return History(
            sends=recorded["send"],
            txns=recorded["txn"],
            polls=committed_reads(
                recorded["poll"], recorded["send"], recorded["final"], uncommitted
            ),
            final=recorded["final"],
            events=recorded["event"],
            ends=frame_of(self.context.spark, reached, ENDS_SCHEMA),
            aborted_reads=aborted_reads(recorded["poll"], recorded["send"], uncommitted)
            if uncommitted
            else frame_of(self.context.spark, [], ABORTED_READS_SCHEMA),
            subscribed=self._processes(lambda run: run.subscribed),
            span=next(iter(self.members)).span,
            transactional=any(loaded.history.files["txn"] for loaded in self.members.values()),
            files={
                dataset: tuple(self.files[dataset])
                for dataset in ("send", "poll", "final")
                # Reads of uncommitted records are left out of the polls.
                if (dataset != "poll" or not uncommitted)
                and all(map(storage.opens_in_tasks, self.files[dataset][:1]))
            },
        )

    def _processes(self, chosen: Callable[[RunInput], frozenset[int]]) -> frozenset[int]:
        return frozenset(
            member.numbered(process) for member in self.members for process in chosen(member.run)
        )

    def _draw(self, history: History) -> dict[int, tuple[Throughput, Sends]]:
        with self.context.stopwatch("verify: draw lanes"):
            wanted = [loaded.events.sends_wanted for loaded in self.members.values()]
            return throughputs(history, list(self.members), wanted)

    def _explain(self, history: History) -> Mapping[int, Unknown]:
        """Return how many transactions have an unknown outcome, by the number of the member."""
        if not history.transactional:
            return {}
        with self.context.stopwatch("verify: explain outcomes"):
            return unknown_txns(history, list(self.members))

    def _compare(self) -> Comparison:
        with self.context.stopwatch("verify: compare replicas"):
            copied = {member: loaded.copied for member, loaded in self.members.items()}
            return compare(self.context.spark, copied, target=self.batches)

    def _count(
        self, history: History, values: DataFrame, log: DataFrame, comparing: Future[Comparison]
    ) -> dict[int, Counted]:
        with self.context.stopwatch("verify: count evidence"):
            return count(history, values, log, comparing.result().batches, list(self.members))

    def _find(
        self,
        history: History,
        comparing: Future[Comparison],
        aside: Executor,
        *,
        digest_first: bool,
    ) -> "_Results":
        members = list(self.members)
        with self.context.stopwatch("verify: build frames"):
            built = build(history, digest_first=digest_first, tell=self.context.tell)
        kept = built.kept
        try:
            compared = comparing.result()
            kept += compared.kept
            values = built.by_name["values"]
            counting = aside.submit(self._count, history, values, built.by_name["log"], comparing)
            suspects = None if "values" in built.empty else values
            built = built.with_more(compared.frames(self.context.spark, suspects), compared.empty)
            rows = together((member, loaded.timeline) for member, loaded in self.members.items())
            unseen = frozenset(name for name in SCHEMAS if not rows[name])
            built = built.with_more(frames_of(self.context.spark, rows), unseen)
            with self.context.stopwatch("verify: run checkers"):
                found = run_checkers(self.context.spark, built, members, self.context.scratch)
            anomalies = {anomaly for run in found.values() for anomaly, _ in run.counts}
            located: Mapping[int, Mapping[str, Any]] = (
                located_in(found_in(self.context.spark, self.context.scratch))
                if "lost-write" in anomalies
                else {}
            )
            found_rows = storage.join(self.context.scratch, FOUND)
            hand_out(found_rows, members, "anomalies", FOUND_SCHEMA)
            if compared.summaries and len(members) > 1:
                self._hand_out_batches(compared.batches)
            counted = counting.result()
        finally:
            for frame in kept:
                frame.unpersist()
        return _Results(found=found, counted=counted, compared=compared, located=located)

    def _hand_out_batches(self, batches: DataFrame) -> None:
        members, parts = list(self.members), storage.join(self.context.scratch, "parts")
        rows = assigned_to_members(batches, members)
        rows.write.partitionBy(MEMBER).parquet(storage.spark_name(parts))
        hand_out(parts, members, "replicas/batches", BATCH_SCHEMA)

    def _concluded(
        self, member: Member, results: "_Results", lanes: Throughput, sends: Sends, txns: Unknown
    ) -> Report:
        run, loaded = member.run, self.members[member]
        found = results.found[member.number]
        counted = results.counted[member.number]
        counts = replace(lanes.counts, final=sum(read.rows for read in counted.final.values()))
        lanes.write(run.path)
        self.context.tell(
            f"Checked {counts.sends:,} sends, {counts.read:,} reads and "
            f"{counts.final:,} final reads with {len(found.checkers)} checkers."
        )
        replicas = results.compared.verdict_on(member)
        located = results.located.get(member.number, {})
        findings = judge_findings(
            run,
            found,
            located.get("causes", {}),
            copies_destroyed=copies_destroyed(loaded.events),
            last_known_led=bool(loaded.events.last_known_leaders),
        )
        events = loaded.events
        events.sends = sends
        felt = effects(events, _latencies(lanes), {fault.id: fault.proven for fault in run.faults})
        # Where the timeline is not known, nothing can be said of what was not felt.
        known = felt if events.timeline.states else {}
        evidence = Evidence(
            run=run,
            history=loaded.history,
            counted=counted,
            counts=counts,
            events=events,
            timeline=loaded.timeline,
            found=found,
            replicas=replicas,
        )
        answers = apply_rules(evidence)
        reasons = why_not_valid(run, findings, known, answers, replicas.reasons)
        return Report(
            run=str(run.meta.get("run", run.path.name)),
            scenario=str(run.meta.get("scenario", "")),
            seed=run.meta.get("seed"),
            kafka=run.kafka,
            verdict=verdict_of(findings, reasons),
            reasons=reasons,
            anomalies=findings,
            counts=counts,
            faults=tuple(
                replace(fault, felt=felt[fault.id].felt, signs=felt[fault.id].signs)
                for fault in run.faults
            ),
            situations=reached(events),
            adequacy={name: answer.to_json() for name, answer in answers.items()},
            checkers=checker_states(evidence)[0],
            timing_s=_phases(run),
            replicas={**replicas.document, **({"located": located} if located else {})},
            timeline=loaded.timeline.document,
            metrics={METRIC: causes(sends.unknown, txns)},
            group=run.group.to_json() if run.group else {},
            liveness=judge_liveness(
                run.meta, loaded.timeline.document, found.counts, lanes.widest_gap
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Results:
    """What was found in all members, by their numbers: offences, counts, where lost records lie."""

    found: Mapping[int, Found]
    counted: Mapping[int, Counted]
    compared: Comparison
    located: Mapping[int, Mapping[str, Any]]


def _latencies(lanes: Throughput) -> list[Latency]:
    return [
        Latency(at_ns=lanes.origin_ns + round(float(row[0]) * 1e9), p99_s=float(row[6]) / 1000)
        for row in lanes.rows
        if row[0] is not None and row[6] is not None
    ]


def _ends(member: Member) -> Iterator[tuple[str, int, int, int, bool]]:
    run = member.run
    for end in run.ends:
        yield member.named(end.topic), end.partition, end.low, end.reached, end.complete
    for topic in run.meta.get("topics", []):
        name, partitions = topic["name"], topic["partitions"]
        complete = sum(end.topic == name and end.complete for end in run.ends) >= partitions
        yield member.named(name), ANY_PARTITION, 0, 0, complete


@contextmanager
def _unreadable_named(names: Sequence[str]) -> Iterator[None]:
    """Turn Spark's error about a damaged file into HistoryUnreadable."""
    try:
        yield
    except SPARK_ERRORS as error:
        if not is_unreadable(error):
            raise
        whose = names[0] if len(names) == 1 else f"{names[0]} or a run verified with it"
        raise HistoryUnreadable(
            f"The history of {whose} is damaged ({first_line(error)}): restore it, or seal the "
            "raw history again."
        ) from error


def _phases(run: RunInput) -> dict[str, float]:
    return {
        str(phase["name"]): round((phase["to_ns"] - phase["from_ns"]) / 1e9, 3)
        for phase in run.meta.get("phases", [])
        if phase.get("to_ns") is not None
    }
