"""How many batches with a wrong checksum each broker refused in a run, by its own count."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.core.run_dir import RunDir
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.journal import fault_spans

_REFUSALS = "cluster/refusals.jsonl"


def read_refusals(run: RunInput) -> list[dict[str, Any]]:
    """Return the rows of the frame `refusals`: one per broker whose count is known.

    A count goes with its process: what a broker refused between the last time that it was asked and
    its end is not known.
    """
    folder = RunDir.open(run.path)
    faults = fault_spans(folder.lines("faults.jsonl"))
    kind = "damaged" if any(fault.traits.damages_data for fault in faults) else None
    lines = folder.lines(_REFUSALS)
    begin: Mapping[str, Any] = next(lines, {"brokers": []})
    seen = {(node, process): batches for node, process, batches in _counts(begin)}
    known = {node for node, _ in seen}
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        for node, process, batches in _counts(line):
            if node not in known:
                continue
            new = batches - seen.get((node, process), 0)
            seen[node, process] = batches
            row = rows.setdefault(node, {"topic": "", "node": node, "kind": kind, "batches": 0})
            if new or not row["batches"]:
                row["at_ns"] = int(line["asked_ns"])
            row["batches"] += new
    return [rows[node] for node in sorted(rows)]


def _counts(line: Mapping[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Yield node, when its process began, and how many batches that has refused."""
    for broker in line["brokers"]:
        if broker["batches"] is not None and broker["started_ms"] is not None:
            yield int(broker["node"]), int(broker["started_ms"]), int(broker["batches"])
