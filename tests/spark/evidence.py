"""The evidence beside a history that a VALID rests on: clients, inventory, leaders, watermarks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

S = 1_000_000_000
_ROLES = {"send": "producer", "final": "reader", "poll": "consumer"}
_CLOCK = "one machine"
_STATES = ((0, 2, (1, 2, 3)), (1, 1, (1, 3)), (2, 1, (1, 3, 2)))
"""From when on, in seconds, who led and who was in the ISR: the fault at 1 s is felt."""


def write_end_of_run(path: Path) -> None:
    """Write down what the history has, as sealing does, who wrote it, and how the run ended."""
    entries: dict[int, dict[str, Any]] = {}
    roles: dict[int, str] = {}
    for dataset in ("event", "txn", "poll", "send", "final"):
        for file in sorted((path / "history" / dataset).glob("*.parquet")):
            process = int(file.stem)
            entry = entries.setdefault(
                process, {"bytes": 1, "process": process, "clock": _CLOCK, "rows": {}}
            )
            entry["rows"][dataset] = pq.read_metadata(file).num_rows
            if dataset in _ROLES:
                roles[process] = _ROLES[dataset]
    inventory = {f"process-{process}.arrows": entry for process, entry in entries.items()}
    (path / "history" / "sealed.json").write_text(json.dumps(inventory))
    meta = json.loads((path / "run.json").read_text())
    known = {client["process"]: client for client in meta["clients"]}
    meta["clients"] = [
        {"process": process, "role": role, **known.get(process, {"mode": "assign"})}
        for process, role in sorted(roles.items())
    ]
    meta["clock"] = _CLOCK
    meta["recovery"] = {
        "bound_s": 120.0, "from_ns": S, "to_ns": S + 1, "left_down": [], "whole": True,
        "answered": True, "unregistered": [], "partitions": [],
    }  # fmt: skip
    _write_processes(path)
    _write_refusals(path)
    _write_endings(path, meta["clients"])
    (path / "run.json").write_text(json.dumps(meta))
    _write_settings(path, meta["clients"])


def _write_processes(path: Path) -> None:
    """Write down that every broker runs at the end, and that none has ended."""
    nodes: list[dict[str, Any]] = [
        {"node": node, "service": f"broker-{node}", "kind": "broker", "running": True,
         "exits": [], "container": {"running": True}, "why": None}
        for node in (1, 2, 3)
    ]  # fmt: skip
    document = {"schema": 1, "asked_ns": 1, "answered_ns": 2, "nodes": nodes}
    (path / "cluster").mkdir(exist_ok=True)
    (path / "cluster" / "processes.json").write_text(json.dumps(document))


def _write_refusals(path: Path) -> None:
    """Write down that no broker has refused a batch, when the run began and when it ended."""
    told = [{"node": node, "started_ms": 1, "batches": 0, "why": None} for node in (1, 2, 3)]
    lines = [json.dumps({"asked_ns": at_ns, "brokers": told}) for at_ns in (1, S)]
    (path / "cluster" / "refusals.jsonl").write_text("\n".join(lines))


def _write_endings(path: Path, clients: Sequence[Mapping[str, Any]]) -> None:
    """Write down that every client ended when it was asked to."""
    lines = [
        {"event": "ended", "time_ns": S, "process": client["process"], "role": client.get("role"),
         "exit_code": 0, "asked_to_stop": True, "killed": False}
        for client in clients
    ]  # fmt: skip
    (path / "clients.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_settings(path: Path, clients: Sequence[Mapping[str, Any]]) -> None:
    (path / "clients").mkdir(exist_ok=True)
    for client in clients:
        if client["role"] != "consumer":
            continue
        polls = pq.read_table(path / "history" / "poll" / f"{client['process']}.parquet")
        settings = {
            "mode": client["mode"],
            "topic": polls["topic"][0].as_py(),
            "partitions": pc.unique(polls["partition"]).to_pylist(),
        }
        (path / "clients" / f"process-{client['process']}.json").write_text(json.dumps(settings))


def add_evidence(path: Path, last_s: int) -> None:
    """Add all that a VALID rests on to a run's folder.

    Broker 2 leads until the fault at 1 s, then broker 1, and broker 2 again after everything else.

    Args:
        path: the folder.
        last_s: when the last thing happened, in seconds.
    """
    write_end_of_run(path)
    ends = json.loads((path / "history" / "ends.json").read_text())
    states = [*_STATES, (last_s, 2, _last_isr(path))]
    lines, samples = [], []
    for end in ends:
        place = {"topic": end["topic"], "partition": end["partition"]}
        for version, (at_s, leader, isr) in enumerate([*states, (last_s + 10, *states[-1][1:])]):
            now = at_s * S
            lines.append(
                {
                    **place, "time_ns": now, "asked_ns": now, "held_ns": now, "leader": leader,
                    "isr": list(isr), "replicas": [1, 2, 3],
                    "version": min(version, len(states) - 1),
                    "leader_epoch": (0, 1, 1, 2, 2)[version],
                }
            )  # fmt: skip
        for at_ns, epoch, offset in ((S // 2, 0, 0), ((last_s + 5) * S, 2, end["high"])):
            samples.append(
                {
                    **place, "sample": "high-watermark", "asked_ns": at_ns, "answered_ns": at_ns,
                    "offset": offset, "leader_epoch": epoch,
                }
            )  # fmt: skip
    for name, rows in (("timeline", lines), ("samples", samples)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _last_isr(path: Path) -> tuple[int, ...]:
    """Return the ISR that the folder has at the end; all brokers if it has none."""
    timeline = path / "timeline.jsonl"
    if not timeline.is_file():
        return (1, 2, 3)
    return tuple(json.loads(timeline.read_text().splitlines()[-1])["isr"])
