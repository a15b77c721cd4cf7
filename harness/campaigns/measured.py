"""What a run measured: time under fault, recovery, faults by their kind, versions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.campaigns.conduct import RunResult
from verifiers.run_folder.result import JudgedFault, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCounts:
    """How many faults of one kind were planned, proven and felt."""

    planned: int = 0
    proven: int = 0
    felt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run measured; of a run that was not made, nothing.

    Attributes:
        started_utc: when it began; empty if unknown.
        made_s: how long it took without its verification, seconds.
        load_s: for how long clients worked, seconds.
        under_fault_s: for how long of that some proven fault was in force, seconds.
        faults: by kind.
        recoveries_s: of each fault after which it was seen, the time from its healing until all
            ISRs were full, seconds.
        elections_s: of each fault that hit leaders, the time until others led, seconds.
        shrinks_s: of each fault whose victims left the ISRs that they were in, the time until the
            last had, seconds.
        timing_s: seconds by phase, the verification's own included.
        versions: of what made and judged it, by name.
    """

    started_utc: str = ""
    made_s: float = 0.0
    load_s: float = 0.0
    under_fault_s: float = 0.0
    faults: Mapping[str, FaultCounts] = field(default_factory=dict)
    recoveries_s: tuple[float, ...] = ()
    elections_s: tuple[float, ...] = ()
    shrinks_s: tuple[float, ...] = ()
    timing_s: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


def measure(result: RunResult) -> Measured:
    """Return what a judged run measured."""
    report, meta = result.report, result.run_dir.meta()
    reactions = report.timeline.get("faults", {}).values()
    return Measured(
        started_utc=str(meta.get("started_utc") or ""),
        made_s=_made_s(meta.get("phases", [])),
        load_s=round(sum(report.timing_s.get(phase, 0.0) for phase in ("steady", "faults")), 1),
        under_fault_s=round(_union_s(report.faults), 1),
        faults=_by_kind(report),
        recoveries_s=tuple(_seconds(reactions, "recover_s")),
        elections_s=tuple(_seconds(reactions, "elect_s")),
        shrinks_s=tuple(_seconds(reactions, "shrink_s")),
        timing_s=dict(report.timing_s),
        versions={str(name): str(version) for name, version in meta.get("versions", {}).items()},
    )


def _made_s(phases: Sequence[Mapping[str, Any]]) -> float:
    ended = [phase for phase in phases if phase.get("to_ns") is not None]
    if not ended:
        return 0.0
    begin_ns = min(int(phase["from_ns"]) for phase in ended)
    end_ns = max(int(phase["to_ns"]) for phase in ended)
    return round((end_ns - begin_ns) / 1e9, 1)


def _union_s(faults: Iterable[JudgedFault]) -> float:
    """Return for how long some proven fault was in force; two at a time do not count twice."""
    spans = sorted(
        (fault.injected_at_s, fault.healed_at_s)
        for fault in faults
        if fault.proven and fault.injected_at_s is not None and fault.healed_at_s is not None
    )
    total, end_s = 0.0, float("-inf")
    for from_s, to_s in spans:
        total += max(0.0, to_s - max(from_s, end_s))
        end_s = max(end_s, to_s)
    return total


def _by_kind(report: Report) -> dict[str, FaultCounts]:
    planned, proven, felt = Counter[str](), Counter[str](), Counter[str]()
    for fault in report.faults:
        planned[fault.name] += 1
        proven[fault.name] += fault.proven
        felt[fault.name] += fault.felt == "felt"
    return {
        name: FaultCounts(planned=planned[name], proven=proven[name], felt=felt[name])
        for name in sorted(planned)
    }


def _seconds(reactions: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [float(each[name]) for each in reactions if each.get(name) is not None]
