"""What a run folder holds besides the history: settings, faults, the end of the final read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from harness.core.client_library import ClientLibrary
from harness.core.contract import Contract
from harness.core.fault import recorded_traits
from harness.core.run_dir import RunDir
from verifiers.run_folder.group import GroupRecord, read_group
from verifiers.run_folder.journal import Line, at_s, damage_named, events_by_fault
from verifiers.run_folder.result import JudgedFault

TopicPartition = tuple[str, int]
"""A topic, and the number of one of its partitions."""


def partition_name(tp: TopicPartition) -> str:
    """Return a partition as Kafka writes it: orders-0."""
    topic, partition = tp
    return f"{topic}-{partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How far the final read of one partition got.

    Attributes:
        topic: its topic.
        partition: its number.
        low: the log's first offset when the read began.
        high: the log's end offset then.
        reached: the offset after the last record read.
        complete: whether that was the end.
    """

    topic: str
    partition: int
    low: int
    high: int
    reached: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """What a run folder holds besides the history.

    Attributes:
        path: the folder.
        meta: run.json as it stands.
        contract: what the producers were promised.
        faults: the journal, one record a fault.
        ends: how far the final read of each partition got.
        origin_ns: the zero of the run's time axis.
        group: the group whose members came and went; None if there was none.
    """

    path: Path
    meta: Mapping[str, Any]
    contract: Contract
    faults: tuple[JudgedFault, ...]
    ends: tuple[End, ...]
    origin_ns: int
    group: GroupRecord | None = None

    @property
    def kafka(self) -> str:
        """Version of the brokers."""
        return str(self.meta.get("kafka", ""))

    @property
    def clients_renew_epochs(self) -> bool:
        """Whether clients take a new epoch for each transaction, as `ClientLibrary` has it."""
        client = self.meta.get("client")
        return client is not None and ClientLibrary.parse(client).renews_epochs

    @property
    def subscribed(self) -> frozenset[int]:
        """Processes of the consumers whose partitions a group assigns."""
        clients = self.meta.get("clients", [])
        return frozenset(c["process"] for c in clients if c.get("mode") == "subscribe")

    @property
    def uncommitted(self) -> frozenset[int]:
        """Processes that read with isolation.level=read_uncommitted."""
        clients = self.meta.get("clients", [])
        return frozenset(c["process"] for c in clients if c.get("isolation") == "read_uncommitted")


def read_run(path: Path) -> RunInput:
    """Return what a run folder holds besides its history.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: a file in it is damaged; the message names the file and the line.
    """
    folder = RunDir.open(path)
    meta = folder.meta()
    with damage_named(f"{folder.path / 'run.json'} does not say what was run"):
        contract = Contract(**meta["contract"])
        origin_ns = int(meta["origin_ns"])
    faults = events_by_fault(_journal(folder))
    return RunInput(
        path=folder.path,
        meta=meta,
        contract=contract,
        faults=tuple(recorded_fault(name, events, origin_ns) for name, events in faults.items()),
        ends=_ends(folder.path / "history" / "ends.json"),
        origin_ns=origin_ns,
        group=read_group(meta, folder.lines("members.jsonl"), origin_ns),
    )


def _ends(path: Path) -> tuple[End, ...]:
    if not path.exists():
        return ()
    kinds = get_type_hints(End)
    with damage_named(f"{path} does not say how far the final read got"):
        rows = json.loads(path.read_text(encoding="utf-8"))
        return tuple(End(**{name: kind(row[name]) for name, kind in kinds.items()}) for row in rows)


def _journal(folder: RunDir) -> Iterator[Line]:
    """Yield the lines of faults.jsonl, each of which is an event of a fault."""
    for number, line in enumerate(folder.lines("faults.jsonl"), start=1):
        with damage_named(f"{folder.path / 'faults.jsonl'}, line {number} is no event of a fault"):
            event, _ = line["event"], line["id"]
            if event != "failed":
                int(line["time_ns"])
        yield line


def recorded_fault(fault_id: str, events: Mapping[str, Any], origin_ns: int) -> JudgedFault:
    """Return a fault as the last line of each of its events records it."""
    decided = events.get("decided", {})
    evidence = {
        phase: events[event].get("evidence", {})
        for phase, event in (("inject", "injected"), ("heal", "healed"))
        if event in events
    }
    failed = events.get("failed")
    return JudgedFault(
        id=fault_id,
        name=str(decided.get("fault", "?")),
        target=str(decided.get("target", "?")),
        victims=tuple(decided.get("victims", ())),
        injected_at_s=at_s(events.get("injected"), origin_ns),
        healed_at_s=at_s(events.get("healed"), origin_ns),
        proven=len(evidence) == 2 and all(_observed(evidence.values())),
        evidence=evidence,
        error=None if failed is None else str(failed.get("error", "no word why")),
        destroys_data=recorded_traits(decided).destroys_data,
    )


def _observed(evidence: Iterable[Any]) -> list[bool]:
    return [isinstance(phase, dict) and bool(phase.get("observed")) for phase in evidence]
