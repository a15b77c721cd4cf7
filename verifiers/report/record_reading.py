"""Reading a run folder for its report: a missing file is noted, a damaged one is an error."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter, itemgetter
from pathlib import Path

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.fault import recorded_traits
from harness.core.verdict import Verdict
from verifiers.report import fields, lane_reading, log_lines
from verifiers.report.fields import Json
from verifiers.report.lag_reading import lags
from verifiers.report.model import (
    Bin,
    ClaimRecord,
    FaultRecord,
    Gap,
    Lanes,
    Leadership,
    Partition,
    Phase,
    RunRecord,
)
from verifiers.report.units import visible
from verifiers.run_folder.folder import recorded_fault
from verifiers.run_folder.journal import events_by_fault
from verifiers.run_folder.result import VERDICT, AnomalyFinding, JudgedFault, Report

_NEVER = "This run was never verified: `kafka-chaos verify RUN` gives it a verdict."


def read_record(run_dir: Path, *, report: Report | None = None) -> RunRecord:
    """Return the contents of a run folder, for its report; `report` as for `write_report`.

    Raises:
        UsageError: the folder is none, or its verdict.json cannot be read. Everything else may be
            missing, and `missing` then says what the reader does without.
        HistoryUnreadable: run.json cannot be read.
    """
    if not run_dir.is_dir():
        raise UsageError(f"{run_dir} is no run folder: give one of runs/, or runs/latest.")
    run = fields.document(run_dir / "run.json")
    if run is None:
        raise UsageError(f"{run_dir} has no run.json, so it is no run folder: give one of runs/.")
    missing: list[str] = []
    origin_ns = fields.integer(run, "origin_ns") or 0
    report = report or _read_report(run_dir)
    verified = report is not None
    if report is None:
        missing.append("verdict.json: this run was never verified.")
        report = Report(verdict=Verdict.UNKNOWN, reasons=(_NEVER,))
    phases = _phases(run, origin_ns)
    final_s = min((phase.from_s for phase in phases if phase.name == "final"), default=math.inf)
    faults = _faults(run_dir, report, origin_ns, missing)
    timeline = _timeline(run_dir, origin_ns, missing)
    samples = list(fields.lines(run_dir / "samples.jsonl", []))
    return RunRecord(
        folder=run_dir,
        run=fields.text(run, "run") or run_dir.resolve().name,
        scenario=fields.text(run, "scenario") or "?",
        seed=fields.text(run, "seed") or "?",
        kafka=fields.text(run, "kafka") or "?",
        command=fields.text(run, "command") or "",
        started_utc=fields.text(run, "started_utc") or "",
        origin_ns=origin_ns,
        contract=fields.mapping(run, "contract"),
        cluster=fields.mapping(run, "cluster"),
        provokes=fields.texts(run, "provokes"),
        phases=phases,
        versions=_versions(run),
        state=fields.text(run, "state") or "?",
        run_reasons=fields.texts(run, "reasons"),
        report=replace(
            report,
            anomalies=dict(sorted(report.anomalies.items(), key=_rank)),
            checkers=dict(sorted(report.checkers.items())),
        ),
        verified=verified,
        faults=faults,
        timeline=timeline,
        lanes=_lanes(run_dir, origin_ns, missing),
        logs=lane_reading.logs(samples, origin_ns),
        pauses=lane_reading.pauses(run_dir, origin_ns),
        group=lane_reading.group(run_dir, origin_ns),
        lags=lags(run_dir, run, samples, origin_ns, until_s=final_s),
        logged=log_lines.around(run_dir, samples, origin_ns, faults, timeline),
        script=lane_reading.script(run_dir, origin_ns),
        effective=_effective(run_dir),
        given=_given(run_dir),
        plan=_plan(run_dir, missing),
        claim=_claim(run_dir),
        missing=tuple(missing),
        client=fields.text(run, "client") or "",
    )


def _rank(named: tuple[str, AnomalyFinding]) -> tuple[bool, bool, int, str]:
    name, anomaly = named
    return anomaly.permitted, anomaly.undecided, anomaly.severity, name


def _versions(run: Json) -> dict[str, str]:
    """Return the versions of the harness's packages, and of those that its clients have loaded."""
    named = dict(fields.mapping(run, "versions"))
    loaded = fields.mapping(run, "client_versions")
    named |= {f"{name} of the clients": version for name, version in loaded.items()}
    return {visible(name): visible(str(version)) for name, version in named.items()}


def _claim(run_dir: Path) -> ClaimRecord | None:
    document = fields.document(run_dir / "claim.json")
    if document is None:
        return None
    return ClaimRecord(
        number=fields.integer(document, "number") or 0,
        sentence=fields.text(document, "sentence") or "?",
        expected=fields.text(document, "expected") or "nothing",
        outcome=fields.text(document, "outcome") or "?",
        words=fields.text(document, "words") or "?",
    )


def _phases(run: Json, origin_ns: int) -> tuple[Phase, ...]:
    """Return the phases that ended; a phase that an abort cut short has no end and is left out."""
    phases = [
        Phase(name=fields.text(entry, "name") or "?", from_s=from_s, to_s=to_s)
        for entry in fields.mappings(run, "phases")
        if (from_s := _at_s(entry, "from_ns", origin_ns)) is not None
        and (to_s := _at_s(entry, "to_ns", origin_ns)) is not None
        and to_s >= from_s
    ]
    return tuple(sorted(phases, key=attrgetter("from_s")))


def _read_report(run_dir: Path) -> Report | None:
    try:
        document = fields.document(run_dir / VERDICT)
        return None if document is None else Report.read(document)
    except HistoryUnreadable as error:
        raise UsageError(
            f"{VERDICT} cannot be read ({error}): verify the run again with `kafka-chaos verify`."
        ) from error


def _at_s(entry: Json, key: str, origin_ns: int) -> float | None:
    time_ns = fields.integer(entry, key)
    return None if time_ns is None else (time_ns - origin_ns) / 1e9


def _faults(
    run_dir: Path, report: Report, origin_ns: int, missing: list[str]
) -> tuple[FaultRecord, ...]:
    """Return the faults of the journal, and those that only the verdict knows.

    The verdict decides what is proven; without a verdict the journal does.
    """
    lines = fields.lines(run_dir / "faults.jsonl", missing)
    events = events_by_fault(line for line in lines if _is_event(line))
    recorded = {
        fault_id: recorded_fault(fault_id, told, origin_ns) for fault_id, told in events.items()
    }
    # A fault of both keeps the evidence of the journal, which has it in the order written.
    judged = {
        fault.id: replace(fault, evidence=recorded.get(fault.id, fault).evidence)
        for fault in report.faults
    }
    found = [
        _fault(fault, events.get(fault_id, {}), origin_ns)
        for fault_id, fault in (recorded | judged).items()
    ]
    return tuple(sorted(found, key=lambda f: (f.from_s is None, f.from_s or 0.0)))


def _is_event(line: Json) -> bool:
    is_timed = fields.integer(line, "time_ns") is not None
    return {"id", "event"} <= line.keys() and (is_timed or line["event"] == "failed")


def _fault(fault: JudgedFault, events: Mapping[str, Json], origin_ns: int) -> FaultRecord:
    decided = events.get("decided", {})

    def at(event: str, otherwise: float | None = None) -> float | None:
        at_s = _at_s(events.get(event, {}), "time_ns", origin_ns)
        return otherwise if at_s is None else at_s

    return FaultRecord(
        judged=replace(fault, id=visible(fault.id), name=visible(fault.name)),
        parameters={
            name: value
            for name, value in fields.mapping(decided, "parameters").items()
            if value not in (None, False, "", [])
        },
        decided_s=at("decided"),
        injected_s=at("injected", fault.injected_at_s),
        healed_s=at("healed", fault.healed_at_s),
        proof=recorded_traits(decided or {"fault": fault.name}).proof,
    )


def _timeline(
    run_dir: Path, origin_ns: int, missing: list[str]
) -> dict[Partition, tuple[Leadership, ...]]:
    changes: dict[Partition, list[tuple[float, int | None, tuple[int, ...]]]] = {}
    for line in fields.lines(run_dir / "timeline.jsonl", missing):
        topic, partition = line.get("topic"), fields.integer(line, "partition")
        at_s = _at_s(line, "time_ns", origin_ns)
        if isinstance(topic, str) and partition is not None and at_s is not None:
            isr = tuple(sorted(i for i in fields.items(line, "isr") if isinstance(i, int)))
            change = (at_s, fields.integer(line, "leader"), isr)
            earlier = changes.setdefault((topic, partition), [])
            # A line may record another change, or that nothing changed until the end.
            if not earlier or earlier[-1][1:] != change[1:]:
                earlier.append(change)
    timeline = {}
    for key in sorted(changes):
        ordered = sorted(changes[key], key=itemgetter(0))
        timeline[key] = tuple(
            Leadership(from_s=from_s, to_s=to_s, leader=leader, isr=isr)
            for (from_s, leader, isr), (to_s, *_) in pairwise([*ordered, (math.inf, None, ())])
        )
    return timeline


def _lanes(run_dir: Path, origin_ns: int, missing: list[str]) -> Lanes | None:
    try:
        document = fields.document(run_dir / "lanes.json")
    except HistoryUnreadable as error:
        missing.append(str(error))
        return None
    if document is None:
        missing.append("lanes.json: there are no lanes of throughput, latency and unavailability.")
        return None
    # Both origins are times of one monotonic clock, so the lanes can be moved onto the run's axis.
    shift = _at_s(document, "origin_ns", origin_ns) or 0.0
    columns = ("ok", "info", "fail", "p50_ms", "p95_ms", "p99_ms", "polled")
    bins = [
        Bin(t_s=row[0] + shift, **dict(zip(columns, row[1:8], strict=True)))
        for row in fields.items(document, "rows")
        if isinstance(row, Sequence) and len(row) >= 8 and all(map(fields.is_number, row[:4]))
    ]
    gaps = [
        Gap(
            topic=fields.text(entry, "topic") or "?",
            partition=fields.integer(entry, "partition") or 0,
            from_s=from_s,
            to_s=to_s,
        )
        for entry in fields.mappings(document, "partitions")
        if (from_s := _at_s(entry, "gap_from_ns", origin_ns)) is not None
        and (to_s := _at_s(entry, "gap_to_ns", origin_ns)) is not None
    ]
    return Lanes(
        bin_s=(fields.number(document, "bin_ns") or 1e9) / 1e9,
        bins=tuple(sorted(bins, key=attrgetter("t_s"))),
        gaps=tuple(sorted(gaps, key=lambda gap: -gap.width_s)),
    )


def _given(run_dir: Path) -> dict[str, dict[str, str]]:
    """Return the properties that each node was started with."""
    found = {}
    for path in sorted(run_dir.glob("cluster/*/server.properties")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        pairs = [line.partition("=") for line in lines if "=" in line and line[0] not in "#!"]
        found[path.parent.name] = {visible(key.strip()): visible(v) for key, _, v in sorted(pairs)}
    return found


def _effective(run_dir: Path) -> dict[str, dict[str, str]]:
    """Return the configuration of each node; a value may be bare, or an object with `value`."""
    found = {}
    for path in sorted(run_dir.glob("cluster/*/effective.json")):
        try:
            document = fields.document(path)
        except HistoryUnreadable:
            continue
        found[path.parent.name] = {
            key: str(value.get("value") if isinstance(value, Mapping) else value)
            for key, value in sorted((document or {}).items())
        }
    return found


def _plan(run_dir: Path, missing: list[str]) -> object:
    path, problem = run_dir / "plan.json", ""
    if path.is_file():
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problem = f" cannot be read ({error})"
    missing.append(f"plan.json{problem}: the schedule is not shown.")
    return None
