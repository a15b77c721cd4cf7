"""When faults explain the answers that nobody should be given (`verifiers.frames.answers`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verifiers.frames.answers import ANY_FAULT, FAMILIES, Family
from verifiers.run_folder.journal import FOR_EVER_NS, FaultSpan, Line, fault_spans
from verifiers.run_folder.large_files import LargeFiles

AFTER_S = 30.0
"""A fault explains answers for so long after it was healed, seconds: a request that was sent while
it was in force may wait that long (Kafka documentation, `request.timeout.ms`)."""


def explanations(lines: Iterable[Line], processes: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield, for each process and family of answers, when faults explain such answers.

    A fault is in force from its decision until it has been healed: a thing that was half done may
    have done harm. One that was never healed is in force to the end. The lines are those of
    faults.jsonl.
    """
    faults = fault_spans(lines)
    for family in FAMILIES:
        explaining = [fault for fault in faults if _explains(fault, family)]
        for process in processes:
            yield {
                "process": process,
                "family": family.name,
                "begins_ns": [fault.decided_ns for fault in explaining],
                "ends_ns": [_until_ns(family, fault) for fault in explaining],
            }


def _explains(fault: FaultSpan, family: Family) -> bool:
    traits = asdict(fault.traits)
    return any(name == ANY_FAULT or traits[name] is True for name in family.explained_by)


def _until_ns(family: Family, fault: FaultSpan) -> int:
    if family.lasting or not fault.is_healed:
        return FOR_EVER_NS
    return fault.end_ns + round(AFTER_S * 1e9)


def clients_of(run_dir: Path) -> list[int]:
    """Return the processes that have a sealed history."""
    large, history = LargeFiles.of(run_dir), run_dir / "history"
    folders = large.folders_within(history)
    stems = {file.stem for folder in folders for file in large.within(folder, ".parquet")}
    return sorted(int(stem) for stem in stems if stem.isdigit())
