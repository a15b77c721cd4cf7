"""Until when each transaction may be open, by what its coordinator knows."""

from typing import Any

from harness.core.run_dir import REPLICAS_MANIFEST, RunDir
from verifiers.replicas.coordinators import TransactionalId, read_transactional_ids
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.journal import fault_spans
from verifiers.timeline.clock import Clock

_Row = dict[str, Any]
MARKERS_S = 30.0
"""How long a coordinator may take to write markers into partitions that can be written, seconds."""
_CLEANUP_MS = 60_000
"""`transaction.abort.timed.out.transaction.cleanup.interval.ms`, where it is not known: the longest
that it has been by default.
"""


def read_transactions(run: RunInput, clock: Clock) -> tuple[list[_Row], list[_Row]]:
    """Return the rows of the frames `coordinators` and `transactional_ids`.

    A transaction that its coordinator calls ongoing may be open for its transaction.timeout.ms,
    until the coordinator looks for such ones again, and 30 s longer for the markers; one that is
    being ended, for those 30 s. Both count from the last healing where that is later. There are no
    rows where the coordinators' logs were not copied. The clock is that of the brokers' machine.
    """
    folder = RunDir.open(run.path)
    cluster = run.path / "cluster"
    if not (cluster / REPLICAS_MANIFEST).is_file():
        return [], []
    read = read_transactional_ids(cluster, folder.read_json(f"cluster/{REPLICAS_MANIFEST}"))
    if read is None:
        return [], []
    asked_ns, known = read
    topics = [str(topic["name"]) for topic in run.meta.get("topics", [])]
    faults = fault_spans(folder.lines("faults.jsonl"))
    healed_ns = max((fault.end_ns for fault in faults if fault.is_healed), default=0)
    wait_ms = _cleanup_ms(folder)
    coordinators = [{"topic": topic, "asked_ns": asked_ns} for topic in topics]
    rows = [
        {
            "topic": topic,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "transactional_id": one.name,
            "state": one.state,
            "partitions": sorted(number for name, number in one.partitions if name == topic),
            "due_ns": _due_ns(one, clock, healed_ns, wait_ms),
        }
        for one in known
        for topic in topics
    ]
    return coordinators, rows


def _due_ns(one: TransactionalId, clock: Clock, healed_ns: int, wait_ms: int) -> int | None:
    """Return until when a transaction must be over, on our clock; None if there is none."""
    if one.state == "Ongoing":
        over_ns = clock.latest_ns(one.begun_ms + one.timeout_ms)
        more_ns = round(wait_ms * 1e6 + MARKERS_S * 1e9)
    elif one.state.startswith("Prepare"):
        over_ns = clock.latest_ns(one.updated_ms)
        more_ns = round(MARKERS_S * 1e9)
    else:
        return None
    return None if over_ns is None else max(over_ns, healed_ns) + more_ns


def _cleanup_ms(folder: RunDir) -> int:
    """Return how often coordinators look for transactions that last too long, at the least."""
    name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    files = sorted((folder.path / "cluster").glob("*/effective.json"))
    known = [folder.read_json(str(file.relative_to(folder.path))).get(name) for file in files]
    return max((int(value) for value in known if value is not None), default=_CLEANUP_MS)
