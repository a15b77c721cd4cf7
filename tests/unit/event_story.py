"""A made-up run, told event by event, in which situations and effects are recognised."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.contract import Contract
from harness.core.fault import FaultTraits
from harness.core.run_dir import RunDir
from harness.history.format import EVENT_SCHEMA, SEND_SCHEMA, TXN_SCHEMA
from verifiers.replicas.cuts import cuts_of
from verifiers.run_folder.folder import RunInput
from verifiers.situations.events import RunEvents
from verifiers.timeline.clock import Clock
from verifiers.timeline.metadata_log import MetadataLog, NodeChange
from verifiers.timeline.partition_states import PartitionState, Timeline

S = 1_000_000_000
END_S = 100
REPLICAS = (1, 2, 3)


_Entry = tuple[float, int | None, tuple[int, ...], tuple[int, ...]]
"""When a state begins, in seconds, its leader, its ISR and its eligible leader replicas."""


@dataclass(kw_only=True)
class Story:
    """A run of three brokers and the topic orders, whose clock begins at 0 s.

    The brokers' clock shows the same as ours.
    """

    path: Path
    acks: Any = "all"
    min_isr: int = 2
    clients: Sequence[Mapping[str, Any]] = ()
    _states: dict[tuple[str, int], list["_Entry"]] = field(default_factory=dict)
    _faults: list[dict[str, Any]] = field(default_factory=list)
    _samples: list[dict[str, Any]] = field(default_factory=list)
    _members: list[dict[str, Any]] = field(default_factory=list)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _log: MetadataLog = field(default_factory=MetadataLog)
    _lines: dict[int, list[str]] = field(default_factory=dict)

    def state(
        self,
        at_s: float,
        leader: int | None,
        isr: Sequence[int],
        *,
        topic: str = "orders",
        partition: int = 0,
        elr: Sequence[int] = (),
    ) -> "Story":
        """Let a partition have this leader and ISR from now on."""
        states = self._states.setdefault((topic, partition), [])
        states.append((at_s, leader, tuple(isr), tuple(elr)))
        return self

    def fault(
        self,
        at_s: float,
        until_s: float,
        *victims: int,
        by: Any = "session end",
        cut: Mapping[str, Any] | None = None,
        started_s: float | None = None,
    ) -> "Story":
        """Let a proven fault hit brokers, and cut logs, from its decision until it is healed.

        Their processes are started again at a time that may be told.
        """
        fault_id = str(len({line["id"] for line in self._faults}) + 1)
        traits = FaultTraits(ends_lead_by=by)
        evidence = {"observed": True, "details": {"cut": cut} if cut else {}}
        back: dict[str, Any] = {"observed": True, "details": {}}
        if started_s is not None:
            started = {"start_ticks": round(100 * started_s)}
            back["details"]["process"] = {str(victim): started for victim in victims}
        self._faults += [
            {
                "id": fault_id,
                "event": "decided",
                "time_ns": round(at_s * S),
                "fault": "made_up",
                "victims": list(victims),
                "traits": {"ends_lead_by": traits.ends_lead_by},
            },
            *(
                {"id": fault_id, "event": event, "time_ns": round(time_s * S), "evidence": seen}
                for event, time_s, seen in (
                    ("injected", at_s, evidence),
                    ("healed", until_s, back),
                )
            ),
        ]
        return self

    def send(
        self,
        from_s: float,
        to_s: float,
        *,
        partition: int | None = 0,
        kind: str = "ok",
        error: str | None = None,
        offset: int | None = None,
    ) -> "Story":
        """Let a producer send a record."""
        rows = self._rows.setdefault("send", [])
        rows.append(
            {
                "process": 0, "op": len(rows), "type": kind, "topic": "orders",
                "partition": partition, "offset": offset, "value": len(rows),
                "invoke_ns": round(from_s * S), "complete_ns": round(to_s * S), "error": error,
                "txn": None,
            }
        )  # fmt: skip
        return self

    def watermark(self, at_s: float, offset: int, *, partition: int = 0) -> "Story":
        """Let a leader tell a high watermark."""
        at_ns = round(at_s * S)
        self._samples.append(
            {
                "sample": "high-watermark", "asked_ns": at_ns, "answered_ns": at_ns,
                "topic": "orders", "partition": partition, "offset": offset, "leader_epoch": 0,
            }
        )  # fmt: skip
        return self

    def event(self, at_s: float, f: str, detail: str | None = None) -> "Story":
        """Let a client note an event."""
        self._rows.setdefault("event", []).append(
            {
                "process": 200, "op": None, "f": f, "topic": "orders", "partition": 0,
                "offset": None, "time_ns": round(at_s * S), "detail": detail,
            }
        )  # fmt: skip
        return self

    def transaction(self, from_s: float, to_s: float, *, committing: bool = True) -> "Story":
        """Let a client begin a transaction and end it."""
        self._rows.setdefault("txn", []).append(
            {
                "process": 0, "txn": 0, "type": "ok", "invoke_ns": round(from_s * S),
                "complete_ns": round(to_s * S), "committing": committing, "error": None,
            }
        )  # fmt: skip
        return self

    def member(self, at_s: float, **hand: int) -> "Story":
        """Let a member of a group be killed with records in hand."""
        self._members.append(
            {"event": "made", "id": "m1", "time_ns": round(at_s * S), "hand": hand}
        )
        return self

    def controller(self, at_s: float, node_id: int) -> "Story":
        """Let a node become the active controller."""
        at_ms, epoch = round(at_s * 1000), len(self._log.controllers)
        self._log.controllers.append(
            NodeChange(at_ms=at_ms, node_id=node_id, state="controller", epoch=epoch)
        )
        return self

    def registration(self, at_s: float, node_id: int, state: str) -> "Story":
        """Let the registration of a broker change."""
        self._log.registrations.append(
            NodeChange(at_ms=round(at_s * 1000), node_id=node_id, state=state, epoch=0)
        )
        return self

    def log(self, at_s: float, broker: int, text: str) -> "Story":
        """Let a broker write a line into its log."""
        when = f"1970-01-01 00:{int(at_s) // 60:02}:{at_s % 60:06.3f}".replace(".", ",")
        self._lines.setdefault(broker, []).append(f"[{when}] INFO {text}")
        return self

    def events(self) -> RunEvents:
        """Return the run as situations are recognised in it."""
        schemas = {"event": EVENT_SCHEMA, "txn": TXN_SCHEMA}
        for dataset in self._rows.keys() & schemas.keys():
            rows = self._rows[dataset]
            folder = self.path / "history" / dataset
            folder.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_pylist(rows, schema=schemas[dataset])
            pq.write_table(table, folder / "0.parquet")
        for broker, lines in self._lines.items():
            folder = self.path / "cluster" / f"broker-{broker}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "server.log").write_text("\n".join(lines) + "\n")
        for name, entries in (("faults", self._faults), ("members", self._members)):
            text = "".join(json.dumps(entry) + "\n" for entry in entries)
            (self.path / f"{name}.jsonl").write_text(text)
        contract = Contract(acks=self.acks, min_isr=self.min_isr)
        meta = {
            "topics": [{"name": "orders", "partitions": 2}],
            "cluster": {"brokers": 3, "controllers": 0, "metadata": "kraft"},
            "clients": list(self.clients),
            "ended_ns": END_S * S,
        }
        run = RunInput(
            path=self.path, meta=meta, contract=contract, faults=(), ends=(), origin_ns=0
        )
        readings = tuple((at_s * S, 0, 0) for at_s in range(0, END_S + 1, 10))
        timeline = Timeline(
            states={key: _states(entries) for key, entries in self._states.items()},
            samples=self._samples,
            lines=(),
            log=self._log,
            clock=Clock(readings=readings),
        )
        truncations = cuts_of(RunDir(self.path))
        events = RunEvents(run=run, timeline=timeline, truncations=truncations)
        sends = pa.Table.from_pylist(self._rows.get("send", []), schema=SEND_SCHEMA)
        events.sends.look_at(sends, events.sends_wanted)
        return events


def _states(entries: Sequence[_Entry]) -> list[PartitionState]:
    ends = [entry[0] for entry in entries[1:]] + [END_S]
    return [
        PartitionState(
            leader=leader,
            isr=isr,
            replicas=REPLICAS,
            elr=elr,
            leader_epoch=number,
            after_ns=round(at_s * S),
            from_ns=round(at_s * S),
            to_ns=round(end_s * S),
            joins_next=number + 1 < len(entries),
        )
        for number, ((at_s, leader, isr, elr), end_s) in enumerate(zip(entries, ends, strict=True))
    ]
