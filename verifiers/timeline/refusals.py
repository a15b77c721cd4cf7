"""How many batches with a wrong checksum each broker refused in a run, by its own count."""

from collections.abc import Mapping
from typing import Any

from harness.core.run_dir import RunDir
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.journal import fault_spans

_REFUSALS = "cluster/refusals.jsonl"
_Counts = dict[int, tuple[int, int]]
"""By node: when its process began, and how many batches that has refused."""


def read_refusals(run: RunInput) -> list[dict[str, Any]]:
    """Return the rows of the frame `refusals`: one per broker whose count is known.

    A count goes with its process: what a broker refused before a fault ended it is not known.
    """
    folder = RunDir.open(run.path)
    if not (run.path / _REFUSALS).is_file():
        return []
    faults = fault_spans(folder.lines("faults.jsonl"))
    kind = "damaged" if any(fault.traits.damages_data for fault in faults) else None
    begin, *others = folder.lines(_REFUSALS)
    if not others:
        return []
    before, at_ns = _counts(begin), int(others[-1]["asked_ns"])
    return [
        {
            "topic": "", "node": node, "kind": kind, "at_ns": at_ns,
            "batches": batches - (before[node][1] if before[node][0] == process else 0),
        }
        for node, (process, batches) in _counts(others[-1]).items()
        if node in before
    ]  # fmt: skip


def _counts(line: Mapping[str, Any]) -> _Counts:
    return {
        int(broker["node"]): (int(broker["started_ms"]), int(broker["batches"]))
        for broker in line["brokers"]
        if broker["batches"] is not None and broker["started_ms"] is not None
    }
