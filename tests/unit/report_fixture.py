"""A small synthetic run folder, for the tests of the report."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.op import value_of

SECOND = 1_000_000_000
ORIGIN = 7_000 * SECOND


def ns(at_s: float) -> int:
    return ORIGIN + round(at_s * SECOND)


def write_json(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def write_lines(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")


def run_document(**changes: object) -> dict[str, Any]:
    phases = [
        ("start", -9, -1),
        ("steady", 0, 5),
        ("faults", 5, 48),
        ("heal", 48, 49),
        ("recover", 49, 53),
        ("final", 53, 56),
        ("stop", 56, 58),
    ]
    document = {
        "schema": 1,
        "run": "20261121T104300-mixed-7",
        "run_id": "00112233aabbccdd",
        "scenario": "mixed",
        "seed": 7,
        "kafka": "4.3.1",
        "command": "kafka-chaos run mixed --seed 7 --duration 50s",
        "started_utc": "2026-11-21T10:43:00Z",
        "origin_ns": ORIGIN,
        "ended_ns": ns(58),
        "contract": {
            "acks": "all",
            "min_isr": 2,
            "replication_factor": 3,
            "idempotence": True,
            "unclean_election": False,
        },
        "cluster": {"kafka": "4.3.1", "brokers": 3, "controllers": 0, "heap_mib": 256},
        "provokes": [],
        "duration_s": 50,
        "topics": [{"name": "orders", "partitions": 6, "replication_factor": 3}],
        "clients": [
            {"process": 1, "role": "producer", "mode": None},
            {"process": 100, "role": "consumer", "mode": "assign"},
        ],
        "phases": [{"name": n, "from_ns": ns(a), "to_ns": ns(b)} for n, a, b in phases],
        "versions": {"kafka-chaos": "0.1.0", "librdkafka": "2.16.0", "python": "3.11.2"},
        "state": "complete",
        "reasons": [],
    }
    return document | changes


def fault_events(
    fault_id: str,
    fault: str,
    victims: list[int],
    from_s: float,
    to_s: float,
    *,
    details: dict[str, Any],
    observed: bool = True,
    question: str = "",
) -> list[dict[str, Any]]:
    return [
        {
            "id": fault_id,
            "event": "decided",
            "time_ns": ns(from_s - 0.05),
            "fault": fault,
            "parameters": {},
            "target": "leader_of(orders,0)",
            "victims": victims,
            "at_s": from_s,
            "hold_s": to_s - from_s,
            "lease_s": 30.0,
        },
        {
            "id": fault_id,
            "event": "injected",
            "time_ns": ns(from_s),
            "evidence": {
                "phase": "inject",
                "observed": observed,
                "details": details,
                "question": question,
            },
        },
        {
            "id": fault_id,
            "event": "healed",
            "time_ns": ns(to_s),
            "evidence": {"phase": "heal", "observed": True, "details": details},
        },
    ]


PROCESS = {"process_before": {"2": {"pid": 4711, "state": "S"}}, "listener": {"2": "refused"}}
PACKETS = {"dropped_packets": 1834, "probes": {"1-3": "unreachable", "3-1": "unreachable"}}
COLLECTIONS = {"broker_1": {"pauses": 71, "paused_s": 4.61}, "wanted_s": 4.0}


def journal(*, partition_seen: bool = True) -> list[dict[str, Any]]:
    packets = PACKETS if partition_seen else {"dropped_packets": 0, "probes": {"1-3": "answered"}}
    return [
        *fault_events("1", "broker_kill", [2], 6.0, 12.4, details=PROCESS),
        *fault_events(
            "2",
            "partition",
            [3],
            17.2,
            23.9,
            details=packets,
            observed=partition_seen,
            question="was the topic idle?",
        ),
        *fault_events("3", "gc_pause", [1], 29.0, 34.6, details=COLLECTIONS),
        *fault_events("4", "broker_kill", [1], 40.0, 46.1, details=PROCESS),
    ]


def changes() -> list[dict[str, Any]]:
    story = [
        (-1.0, 0, 2, [2, 3, 1]),
        (6.1, 0, None, [2, 3, 1]),
        (7.4, 0, 3, [3, 1]),
        (14.0, 0, 3, [3, 1, 2]),
        (18.0, 0, None, [3, 1, 2]),
        (19.6, 0, 1, [1, 2]),
        (26.0, 0, 1, [1, 2, 3]),
        (40.2, 0, 2, [2, 3]),
        (47.5, 0, 2, [1, 2, 3]),
        (-1.0, 1, 3, [3, 1, 2]),
        (6.1, 1, 3, [3, 1]),
        (14.0, 1, 3, [1, 2, 3]),
        (18.4, 1, 1, [1]),
        (21.0, 1, 1, [1, 2]),
        (26.0, 1, 1, [1, 2, 3]),
        (40.2, 1, None, [1, 2, 3]),
        (41.9, 1, 2, [2, 3]),
        (47.5, 1, 2, [1, 2, 3]),
        *[(-1.0, p, 1 + p % 3, [1, 2, 3]) for p in (2, 3, 4, 5)],
        (40.1, 4, 3, [2, 3]),
        (47.0, 4, 3, [1, 2, 3]),
    ]
    return [
        {"time_ns": ns(t), "topic": "orders", "partition": p, "leader": leader, "isr": isr}
        for t, p, leader, isr in story
    ]


def lanes_document(seconds: float = 56, bins: int = 560) -> dict[str, Any]:
    width = seconds / bins
    rows: list[list[Any]] = []
    for n in range(bins):
        t = n * width
        working = t < 53
        stalled = 6.0 <= t < 7.4 or 18.0 <= t < 19.6 or 29.0 <= t < 31.2
        ok = 0 if not working or stalled else round((480 + 40 * math.sin(n / 9)) * width)
        info = round(60 * width) if 40.0 <= t < 41.9 else 0
        fail = round(90 * width) if 18.0 <= t < 18.6 else 0
        slow = 1 + 60 * math.exp(-((t - 8) ** 2)) + 25 * math.exp(-((t - 20) ** 2))
        latencies = [4.2 * slow, 11.0 * slow, 27.0 * slow] if ok else [None, None, None]
        rows.append([round(t, 3), ok, info, fail, *latencies, ok if working else 900])
    return {
        "bin_ns": round(width * SECOND),
        "origin_ns": ORIGIN,
        "rows": rows,
        "partitions": [
            {
                "topic": "orders",
                "partition": partition,
                "acked": 4000,
                "gap_from_ns": ns(from_s),
                "gap_to_ns": ns(to_s),
                "gap_s": round(to_s - from_s, 3),
            }
            for partition, from_s, to_s in ((0, 18.01, 22.13), (1, 40.2, 42.3), (4, 29.0, 31.2))
        ],
    }


CHECKERS = dict.fromkeys(
    ["lost-write", "unseen", "duplicate", "phantom", "G1a", "poll-skip", "dirty-read"], "ran"
)


def verdict_document(verdict: str = "VALID", **changes: object) -> dict[str, Any]:
    document = {
        "schema": 1,
        "run": "20261121T104300-mixed-7",
        "scenario": "mixed",
        "seed": 7,
        "kafka": "4.3.1",
        "verdict": verdict,
        "reasons": [],
        "anomalies": {},
        "counts": {
            "sends": 62553,
            "acked": 62500,
            "failed": 12,
            "indeterminate": 41,
            "read": 62519,
            "final": 62531,
        },
        "faults": [],
        "checkers": CHECKERS,
        "replicas": {},
        "timing_s": {"start": 8.1, "faults": 43.0, "recover": 4.2, "verify": 11.9},
    }
    return document | changes


def lost_write(count: int = 3, *, permitted: bool = False, why: str = "") -> dict[str, Any]:
    examples = [
        {
            "topic": "orders",
            "partition": 0,
            "offset": 62400 + n,
            "value": value_of(17, 8100 + n),
            "process": 17,
            "time_ns": ns(18.3 + n * 0.004),
            "kind": "tail",
            "detail": {"final_end": "62391", "complete_ns": str(ns(18.3)), "polled": "0"},
        }
        for n in range(min(count, 32))
    ]
    return {
        "count": count,
        "permitted": permitted,
        "why": why or "acks=all with min.insync.replicas=2 keeps what it acknowledged.",
        "severity": 1,
        "phrase": "acknowledged record was lost"
        if count == 1
        else "acknowledged records were lost",
        "means": "An acknowledged record is not in the final log.",
        "examples": examples,
    }


def build(folder: Path, *, verdict: dict[str, Any], **run_changes: object) -> Path:
    """Write a whole run folder with one verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "run.json", run_document(**run_changes))
    write_json(folder / "verdict.json", verdict)
    write_json(folder / "lanes.json", lanes_document())
    write_lines(folder / "faults.jsonl", journal())
    write_lines(folder / "timeline.jsonl", changes())
    steps = [{"id": "1", "at_s": 6.0, "hold_s": 5.0, "fault": "broker_kill", "target": "random"}]
    write_json(folder / "plan.json", {"schema": 1, "seed": 7, "steps": steps})
    for node in (1, 2, 3):
        settings = {"min.insync.replicas": "2", "node.id": str(node)}
        write_json(folder / "cluster" / f"broker-{node}" / "effective.json", settings)
    watch(folder)
    return folder


AHEAD_NS = 1_795_000_000 * SECOND
"""How far the brokers' clock is ahead of ours."""


def logged(at_s: float, text: str) -> str:
    """Return a line of a broker's log."""
    when = datetime.fromtimestamp((ns(at_s) + AHEAD_NS) / SECOND, tz=UTC)
    return f"[{when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03}] {text}\n"


def watch(folder: Path) -> None:
    """Write what the brokers and the coordinator of a group said while the run went on."""
    clock = [
        {"sample": "clock", "asked_ns": ns(t), "answered_ns": ns(t), "host_ns": ns(t) + AHEAD_NS}
        for t in (0.0, 30.0)
    ]
    # Broker 3 is cut off, and back with less than it had.
    ends = {1: [0, 200, 400, 600], 2: [0, 200, 400, 600], 3: [0, 200, 120, 600]}
    copies = [
        {
            "sample": "replica", "topic": "orders", "partition": 0, "broker": broker,
            "log_end": end, "high_watermark": min(end, 580), "asked_ns": ns(10 * n),
            "answered_ns": ns(10 * n + 0.01),
        }
        for broker, of_broker in ends.items()
        for n, end in enumerate(of_broker)
    ]  # fmt: skip
    marks = [
        {
            "sample": "high-watermark", "topic": "orders", "partition": partition,
            "asked_ns": ns(at_s - 0.1), "answered_ns": ns(at_s), "offset": offset,
        }
        for at_s, *offsets in ((10, 100, 50), (20, 150, 50), (30, 150, 80))
        for partition, offset in enumerate(offsets)
    ]  # fmt: skip
    write_lines(folder / "samples.jsonl", [*clock, *copies, *marks])
    # Consumer 100 reads all of partition 0, and nothing of partition 1 after 25 s.
    polled = [(0, n, 5 + n / 10) for n in range(150)] + [(1, n, 8.0) for n in range(50)]
    (folder / "history" / "poll").mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table(
            {
                "topic": ["orders"] * len(polled),
                "partition": [partition for partition, _, _ in polled],
                "offset": [offset for _, offset, _ in polled],
                "time_ns": [ns(at_s) for _, _, at_s in polled],
            }
        ),
        folder / "history" / "poll" / "100.parquet",
    )
    states = [
        (1.0, "STABLE", [[0, 1]]),
        (20.0, "PREPARING_REBALANCING", []),
        (25.0, "STABLE", [[0], [1]]),
    ]
    write_lines(
        folder / "members.jsonl",
        [
            {
                "event": "group", "answered_ns": ns(at_s), "state": state,
                "members": {f"member-{n}": has for n, has in enumerate(members)},
            }
            for at_s, state, members in states
        ],
    )  # fmt: skip
    for node in (1, 2, 3):
        of_node = folder / "cluster" / f"broker-{node}"
        pause = f"[900ms][{ns(12.5 + node)}ns][gc          ] GC(0) Pause Young (Normal) 9M->3M(64M)"
        (of_node / "gc.log").write_text(f"{pause} {40 * node}.500ms\n")
    (folder / "cluster" / "broker-3" / "server.log").write_text(
        logged(5.0, "ERROR Long before the fault (kafka.server.KafkaServer)")
        + logged(17.5, "INFO [Partition orders-0 broker=3] Shrinking ISR from 1,2,3 to 3 (k.P)")
        + logged(17.6, "WARN Attempting to send via channel with no open connection (k.n.P)")
        + logged(18.0, "INFO Truncating __consumer_offsets-7 to 0 (kafka.log.Log)")
        + logged(24.2, "INFO [Log partition=orders-0] Truncating to offset 120 (kafka.log.Log)")
        + logged(24.3, "INFO [Log partition=orders-0] Truncating to offset 118 (kafka.log.Log)")
        + "java.lang.IllegalStateException: of nobody\n"
    )


def valid(folder: Path) -> Path:
    return build(folder, verdict=verdict_document())


def invalid(folder: Path) -> Path:
    reasons = ["3 acknowledged records are missing from the final read of orders/0."]
    anomalies = {
        "lost-write": lost_write(),
        "duplicate": lost_write(2, permitted=True, why="idempotence is off.") | {"examples": []},
    }
    verdict = verdict_document(
        "INVALID", reasons=reasons, anomalies=anomalies, replicas=lost_on_disk()
    )
    return build(folder, verdict=verdict)


def lost_on_disk() -> dict[str, Any]:
    """Return the logs on the disks of which broker 3 lost the tail, and broker 1 kept it."""
    log = {
        "leo": 62391, "high_watermark": 62391, "log_start": 0, "recovery_point": 60000,
        "batches": 900, "size_bytes": 1 << 20, "epochs": [[0, 0], [2, 31000]], "problem": None,
    }  # fmt: skip
    logs = {
        "1": {**log, "leo": 62403, "in_sync": False, "leader": False},
        "2": {**log, "in_sync": True, "leader": True},
        "3": {**log, "in_sync": True, "leader": False},
    }
    stretch = {
        "topic": "orders", "partition": 0, "first": 62400, "last": 62402, "count": 3,
        "held_by": "1", "lacking": "2,3", "cut_by": "3", "cut_to": "62391",
    }  # fmt: skip
    return {
        "compared": True,
        "brokers": {broker: {"orders-0": each} for broker, each in logs.items()},
        "located": {"lost": 3, "held": 3, "gone": 0, "stretches": [stretch]},
    }


def unknown(folder: Path) -> Path:
    reasons = ["Fault 2, partition of broker 3, has no proven effect."]
    build(folder, verdict=verdict_document("UNKNOWN", reasons=reasons))
    write_lines(folder / "faults.jsonl", journal(partition_seen=False))
    return folder


def empty(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    document = run_document(state="aborted", phases=[], reasons=["The cluster did not start."])
    write_json(folder / "run.json", document)
    return folder
