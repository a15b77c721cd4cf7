"""Reading a run folder for its report: a missing part costs a sentence, a broken one an error."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from verifiers.judging.gravity import gravity
from verifiers.report.model import (
    Anomaly,
    Bin,
    ClaimRecord,
    Example,
    FaultRecord,
    Gap,
    Judgement,
    Lanes,
    Leadership,
    Partition,
    Phase,
    RunRecord,
    Witnessed,
)
from verifiers.report.units import instant, span, visible

Json = Mapping[str, Any]

_LONGEST_TEXT = 4000


def read_run(run_dir: Path) -> RunRecord:
    """Return what the run folder says.

    Raises:
        UsageError: the folder is none, or its run.json or verdict.json cannot be read. Everything
            else may be missing, and `missing` then says what the reader does without.
    """
    if not run_dir.is_dir():
        raise UsageError(f"{run_dir} is no run folder: give one of runs/, or runs/latest.")
    run = _document(run_dir / "run.json")
    if run is None:
        raise UsageError(f"{run_dir} has no run.json, so it is no run folder: give one of runs/.")
    missing: list[str] = []
    origin_ns = _integer(run, "origin_ns") or 0
    verdict = _document(run_dir / "verdict.json")
    if verdict is None:
        missing.append("verdict.json: this run was never verified.")
    return RunRecord(
        folder=run_dir,
        run=_text(run, "run") or run_dir.resolve().name,
        scenario=_text(run, "scenario") or "?",
        seed=_text(run, "seed") or "?",
        kafka=_text(run, "kafka") or "?",
        command=_text(run, "command") or "",
        started_utc=_text(run, "started_utc") or "",
        contract=_mapping(run, "contract"),
        cluster=_mapping(run, "cluster"),
        topics=tuple(_mappings(run, "topics")),
        provokes=_texts(run, "provokes"),
        phases=_phases(run, origin_ns),
        versions={visible(k): visible(str(v)) for k, v in _mapping(run, "versions").items()},
        state=_text(run, "state") or "?",
        run_reasons=_texts(run, "reasons"),
        judgement=_judgement(verdict or {}, origin_ns),
        faults=_faults(run_dir, verdict or {}, origin_ns, missing),
        timeline=_timeline(run_dir, origin_ns, missing),
        lanes=_lanes(run_dir, origin_ns, missing),
        effective=_effective(run_dir),
        given=_given(run_dir),
        plan=_plan(run_dir, missing),
        claim=_claim(run_dir),
        group=_mapping(verdict or {}, "group"),
        missing=tuple(missing),
    )


def _claim(run_dir: Path) -> ClaimRecord | None:
    document = _document(run_dir / "claim.json")
    if document is None:
        return None
    return ClaimRecord(
        number=_integer(document, "number") or 0,
        sentence=_text(document, "sentence") or "?",
        expected=_text(document, "expected") or "nothing",
        outcome=_text(document, "outcome") or "?",
        words=_text(document, "words") or "?",
    )


def _phases(run: Json, origin_ns: int) -> tuple[Phase, ...]:
    """Return the phases that ended; a phase that an abort cut short has no end and is left out."""
    phases = []
    for entry in _mappings(run, "phases"):
        start, end = _integer(entry, "from_ns"), _integer(entry, "to_ns")
        if start is not None and end is not None and end >= start:
            phases.append(
                Phase(
                    name=_text(entry, "name") or "?",
                    from_s=(start - origin_ns) / 1e9,
                    to_s=(end - origin_ns) / 1e9,
                )
            )
    return tuple(sorted(phases, key=lambda phase: phase.from_s))


def _judgement(verdict: Json, origin_ns: int) -> Judgement:
    named = _text(verdict, "verdict")
    if verdict and named not in Verdict.__members__:
        raise UsageError(
            f"verdict.json says {named!r}, which is none of {', '.join(Verdict.__members__)}: "
            "verify the run again with `kafka-chaos verify`."
        )
    found = [
        Anomaly(
            name=visible(name),
            count=_integer(entry, "count") or 0,
            permitted=entry.get("permitted") is True,
            why=_text(entry, "why") or "",
            permits=_text(entry, "permits") or "",
            examples=tuple(_example(e, origin_ns) for e in _mappings(entry, "examples")),
            from_s=_at_s(entry, "first_ns", origin_ns),
            to_s=_at_s(entry, "last_ns", origin_ns),
        )
        for name, entry in _mapping(verdict, "anomalies").items()
        if isinstance(entry, Mapping)
    ]
    never = "This run was never verified: `kafka-chaos verify RUN` gives it a verdict."
    return Judgement(
        verdict=Verdict[named] if named else Verdict.UNKNOWN,
        reasons=_texts(verdict, "reasons") if verdict else (never,),
        anomalies=tuple(sorted(found, key=lambda a: (a.permitted, gravity(a.name)))),
        counts={k: v for k, v in _mapping(verdict, "counts").items() if isinstance(v, int)},
        checkers={
            visible(k): visible(str(v)) for k, v in sorted(_mapping(verdict, "checkers").items())
        },
        replicas=_mapping(verdict, "replicas"),
        timing_s={k: v for k, v in _mapping(verdict, "timing_s").items() if _is_number(v)},
        timeline=_mapping(verdict, "timeline"),
        liveness=_mapping(verdict, "liveness"),
    )


def _example(entry: Json, origin_ns: int) -> Example:
    return Example(
        topic=_text(entry, "topic"),
        partition=_integer(entry, "partition"),
        offset=_integer(entry, "offset"),
        value=_integer(entry, "value"),
        process=_integer(entry, "process"),
        at_s=_at_s(entry, "time_ns", origin_ns),
        kind=_text(entry, "kind"),
        detail={
            key.removesuffix("_ns"): _since(origin_ns, value) if key.endswith("_ns") else value
            for key, value in _mapping(entry, "detail").items()
        },
    )


def _at_s(entry: Json, key: str, origin_ns: int) -> float | None:
    time_ns = _integer(entry, key)
    return None if time_ns is None else (time_ns - origin_ns) / 1e9


def _since(origin_ns: int, value: object) -> object:
    """Return a reading of the clock as a time on the axis, and a length of time as one."""
    if not isinstance(value, int):
        return value
    return instant((value - origin_ns) / 1e9) if value >= origin_ns else span(value / 1e9)


def _faults(
    run_dir: Path, verdict: Json, origin_ns: int, missing: list[str]
) -> tuple[FaultRecord, ...]:
    """Return the faults of the journal, and those that only the verdict knows.

    The verifier has the last word on what is proven; without it the rule of the journal holds.
    """
    events: dict[str, dict[str, Json]] = {}
    for line in _lines(run_dir / "faults.jsonl", missing):
        fault_id, event = _text(line, "id"), _text(line, "event")
        if fault_id is not None and event is not None:
            events.setdefault(fault_id, {})[event] = line
    judged = {_text(f, "id") or f"?{n}": f for n, f in enumerate(_mappings(verdict, "faults"))}
    found = [
        _fault(fault_id, events.get(fault_id, {}), judged.get(fault_id, {}), origin_ns)
        for fault_id in dict.fromkeys([*events, *judged])
    ]
    return tuple(sorted(found, key=lambda f: (f.from_s is None, f.from_s or 0.0)))


def _fault(fault_id: str, events: Mapping[str, Json], judged: Json, origin_ns: int) -> FaultRecord:
    decided = events.get("decided", {})

    def at(event: str, otherwise: str) -> float | None:
        time_ns = _integer(events.get(event, {}), "time_ns")
        return _number(judged, otherwise) if time_ns is None else (time_ns - origin_ns) / 1e9

    evidence = _mapping(judged, "evidence")
    inject = _witnessed(events.get("injected", {}).get("evidence", evidence.get("inject")))
    heal = _witnessed(events.get("healed", {}).get("evidence", evidence.get("heal")))
    proven = judged.get("proven")
    victims = _list(decided, "victims") or _list(judged, "victims")
    return FaultRecord(
        id=fault_id,
        name=_text(decided, "fault") or _text(judged, "name") or "?",
        parameters=_mapping(decided, "parameters"),
        target=_text(decided, "target") or _text(judged, "target"),
        victims=tuple(v for v in victims if isinstance(v, int)),
        decided_s=at("decided", ""),
        injected_s=at("injected", "injected_at_s"),
        healed_s=at("healed", "healed_at_s"),
        hold_s=_number(decided, "hold_s"),
        proven=(
            proven
            if isinstance(proven, bool)
            else inject.observed is True and heal.observed is True
        ),
        inject=inject,
        heal=heal,
        error=_text(events.get("failed", {}), "error"),
    )


def _witnessed(evidence: object) -> Witnessed:
    if not isinstance(evidence, Mapping):
        return Witnessed(observed=None, details={})
    observed = evidence.get("observed")
    return Witnessed(
        observed=observed if isinstance(observed, bool) else None,
        details=_mapping(evidence, "details"),
    )


def _timeline(
    run_dir: Path, origin_ns: int, missing: list[str]
) -> dict[Partition, tuple[Leadership, ...]]:
    changes: dict[Partition, list[tuple[float, int | None, tuple[int, ...]]]] = {}
    for line in _lines(run_dir / "timeline.jsonl", missing):
        topic, partition = _text(line, "topic"), _integer(line, "partition")
        time_ns = _integer(line, "time_ns")
        if topic is not None and partition is not None and time_ns is not None:
            isr = tuple(sorted(i for i in _list(line, "isr") if isinstance(i, int)))
            change = ((time_ns - origin_ns) / 1e9, _integer(line, "leader"), isr)
            told = changes.setdefault((topic, partition), [])
            # A line may tell what else changed, or that nothing did until the end.
            if not told or told[-1][1:] != change[1:]:
                told.append(change)
    timeline = {}
    for key in sorted(changes):
        ordered = sorted(changes[key], key=lambda change: change[0])
        ends = [change[0] for change in ordered[1:]]
        timeline[key] = tuple(
            Leadership(from_s=from_s, to_s=to_s, leader=leader, isr=isr)
            for (from_s, leader, isr), to_s in zip(ordered, [*ends, None], strict=True)
        )
    return timeline


def _lanes(run_dir: Path, origin_ns: int, missing: list[str]) -> Lanes | None:
    try:
        document = _document(run_dir / "lanes.json")
    except UsageError as error:
        missing.append(str(error))
        return None
    if document is None:
        missing.append("lanes.json: there are no lanes of throughput, latency and unavailability.")
        return None
    # Both zeros are readings of one monotonic clock, so the lanes can be moved onto the run's axis.
    lane_origin = _integer(document, "origin_ns")
    shift = 0.0 if lane_origin is None else (lane_origin - origin_ns) / 1e9
    bins = [
        Bin(
            t_s=row[0] + shift,
            ok=row[1],
            info=row[2],
            fail=row[3],
            p50_ms=row[4],
            p95_ms=row[5],
            p99_ms=row[6],
            polled=row[7],
        )
        for row in _list(document, "rows")
        if isinstance(row, Sequence) and len(row) >= 8 and all(map(_is_number, row[:4]))
    ]
    gaps = [
        Gap(
            topic=_text(entry, "topic") or "?",
            partition=_integer(entry, "partition") or 0,
            from_s=(start - origin_ns) / 1e9,
            to_s=(end - origin_ns) / 1e9,
        )
        for entry in _mappings(document, "partitions")
        if (start := _integer(entry, "gap_from_ns")) is not None
        and (end := _integer(entry, "gap_to_ns")) is not None
    ]
    bin_ns = _number(document, "bin_ns")
    return Lanes(
        bin_s=(bin_ns or 1e9) / 1e9,
        bins=tuple(sorted(bins, key=lambda b: b.t_s)),
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
            document = _document(path)
        except UsageError:
            continue
        found[path.parent.name] = {
            key: str(value.get("value") if isinstance(value, Mapping) else value)
            for key, value in sorted((document or {}).items())
        }
    return found


def _plan(run_dir: Path, missing: list[str]) -> object:
    path = run_dir / "plan.json"
    if not path.is_file():
        missing.append("plan.json: the schedule is not shown.")
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        missing.append(f"plan.json cannot be read ({error}): the schedule is not shown.")
        return None


def _document(path: Path) -> Json | None:
    """Return the JSON object in a file, or None if there is no such file."""
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}): restore it, or run the experiment again."
        ) from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path} holds no JSON object: it was not written by kafka-chaos.")
    return document


def _lines(path: Path, missing: list[str]) -> Iterator[Json]:
    """Yield the objects of a file of JSON lines; what a dying writer left half is counted."""
    if not path.is_file():
        missing.append(f"{path.name}: there is none, so its lane is missing.")
        return
    unreadable = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            document = json.loads(line) if line.strip() else None
        except ValueError:
            unreadable += 1
            continue
        if isinstance(document, Mapping):
            yield document
    if unreadable:
        were = "line was" if unreadable == 1 else "lines were"
        missing.append(f"{path.name}: {unreadable} unreadable {were} passed over.")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def _number(entry: Json, key: str) -> float | None:
    value = entry.get(key)
    return value if _is_number(value) else None


def _integer(entry: Json, key: str) -> int | None:
    value = entry.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(entry: Json, key: str) -> str | None:
    """Return a text, or a number as text: a seed and an id may be either."""
    value = entry.get(key)
    if isinstance(value, str):
        return visible(value, _LONGEST_TEXT)
    return str(value) if _is_number(value) else None


def _texts(entry: Json, key: str) -> tuple[str, ...]:
    return tuple(visible(str(value), _LONGEST_TEXT) for value in _list(entry, key))


def _mapping(entry: Json, key: str) -> dict[str, Any]:
    value = entry.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def _list(entry: Json, key: str) -> list[Any]:
    value = entry.get(key)
    return list(value) if isinstance(value, list | tuple) else []


def _mappings(entry: Json, key: str) -> list[Json]:
    return [value for value in _list(entry, key) if isinstance(value, Mapping)]
