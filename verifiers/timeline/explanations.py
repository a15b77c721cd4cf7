"""When faults explain the answers that nobody should be given (`verifiers.frames.answers`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.fault import recorded_traits
from verifiers.frames.answers import ANY_FAULT, FAMILIES, Family
from verifiers.run_folder.journal import events_by_fault, healed_ns
from verifiers.run_folder.large_files import LargeFiles

AFTER_S = 30.0
"""A fault explains answers for so long after it was healed, seconds: a request that was sent while
it was in force may wait that long (Kafka documentation, `request.timeout.ms`)."""

_FOR_EVER_NS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Force:
    """One fault, while it was in force."""

    traits: frozenset[str]
    from_ns: int
    to_ns: int


def explanations(
    lines: Iterable[Mapping[str, Any]], processes: Sequence[int]
) -> Iterator[Mapping[str, Any]]:
    """Yield, for each process and family of answers, when faults explain such answers.

    A fault is in force from its decision until it has been healed: a thing that was half done may
    have done harm. One that was never healed is in force to the end.

    Args:
        lines: of faults.jsonl.
        processes: all clients of the run.
    """
    forces = _forces(lines)
    stretches = {family.name: _stretches(family, forces) for family in FAMILIES}
    for process in processes:
        for family, spans in stretches.items():
            yield {
                "process": process,
                "family": family,
                "begins_ns": [begin for begin, _ in spans],
                "ends_ns": [end for _, end in spans],
            }


def clients_of(run_dir: Path) -> list[int]:
    """Return the processes that have a sealed history."""
    large, history = LargeFiles.of(run_dir), run_dir / "history"
    folders = large.folders_within(history)
    stems = {file.stem for folder in folders for file in large.within(folder, ".parquet")}
    return sorted(int(stem) for stem in stems if stem.isdigit())


def _forces(lines: Iterable[Mapping[str, Any]]) -> list[_Force]:
    return [
        _Force(
            traits=_traits(decided),
            from_ns=int(decided["time_ns"]),
            to_ns=healed_ns(events, _FOR_EVER_NS),
        )
        for events in events_by_fault(lines).values()
        if (decided := events.get("decided"))
    ]


def _traits(decided: Mapping[str, Any]) -> frozenset[str]:
    traits = recorded_traits(decided)
    known = {name for name in traits.__dataclass_fields__ if getattr(traits, name) is True}
    return frozenset({ANY_FAULT, *known})


def _stretches(family: Family, forces: Iterable[_Force]) -> list[tuple[int, int]]:
    explaining = [force for force in forces if force.traits.intersection(family.explained_by)]
    return [(force.from_ns, _until_ns(family, force)) for force in explaining]


def _until_ns(family: Family, force: _Force) -> int:
    if family.lasting or force.to_ns == _FOR_EVER_NS:
        return _FOR_EVER_NS
    return force.to_ns + round(AFTER_S * 1e9)
