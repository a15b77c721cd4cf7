"""A run in good order that has a bit of everything: whatever there is a checker for has its data.

Two plain producers, one with transactions; consumers that are assigned, in a group, and
read_uncommitted; three brokers' disks; an ISR that shrank for a while; samples; what the end of a
cluster leaves: processes that run, coordinators' logs, one controller.
"""

import json
from pathlib import Path
from typing import Any

from tests.batches import marker, transactional, v2, value_of
from tests.coordinators import COMPLETE_COMMIT, key, state, write_coordinators
from tests.coordinators import batch as coordinators_batch
from tests.metadata import batch, change, leader_change, no_op, partition, topic, write_metadata
from tests.spark.disks import Disk, alike, write_disks
from tests.spark.evidence import write_end_of_run
from tests.spark.ops import (
    STEP_NS,
    TOPIC,
    Folder,
    Op,
    Rec,
    end,
    event,
    final,
    ok,
    poll,
    txn,
    witnessed,
)

SENT = 30
GROUP = "the group"
_ERA_MS = 1_700_000_000_000
_EACH = 5
_PRODUCER_ID = 7


def write_everything(path: Path) -> Path:
    """Write the run's folder."""
    ops = _ops()
    last_s = len(ops)
    clients = [
        {"process": 9, "mode": "assign"},
        {"process": 12, "mode": "assign", "isolation": "read_uncommitted"},
        {"process": 200, "mode": "subscribe"},
    ]
    phases = [
        {"name": "start", "from_ns": 0, "to_ns": STEP_NS},
        {"name": "steady", "from_ns": STEP_NS, "to_ns": 2 * STEP_NS},
        {"name": "faults", "from_ns": 2 * STEP_NS, "to_ns": 2 * SENT * STEP_NS},
    ]
    cluster = {"brokers": 3, "controllers": 0, "metadata": "kraft"}
    ends = [end(partition=0, high=SENT + 3), end(partition=1, high=SENT)]
    group = {"name": GROUP, "topic": TOPIC, "assignor": "range", "commits": "after-processing"}
    meta = {
        "clients": clients, "phases": phases, "cluster": cluster, "fewest_acked": 1, "group": group,
    }  # fmt: skip
    # The fault is felt: its victim leaves an ISR.
    Folder(ops, meta=meta, ends=ends, faults=witnessed(20, victims=(3,))).write(path)
    _write_disks(path)
    ended = state(status=COMPLETE_COMMIT, producer=_PRODUCER_ID)
    write_coordinators(path, coordinators_batch(0, [(key("txn"), ended)]))
    _write_metadata(path, last_s)
    (path / "members.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in _members(last_s))
    )
    (path / "samples.jsonl").write_text(
        "".join(json.dumps(sample) + "\n" for sample in _samples(last_s))
    )
    write_end_of_run(path)
    (path / "clients" / "process-1.json").write_text(json.dumps({"config": {"acks": "all"}}))
    return path


def _ops() -> list[Op]:
    sends = [op for n in range(SENT) for op in (ok(1, n, n), ok(2, n, n, partition=1))]
    committed = [
        ok(3, 0, SENT, txn=0),
        ok(3, 1, SENT + 1, txn=0),
        txn("ok", 3, 0),
    ]
    everything = [Rec(1, n, n) for n in range(SENT)]
    everything += [Rec(3, n, SENT + n) for n in range(2)]
    other = [Rec(2, n, n, 1) for n in range(SENT)]
    consumed: list[Op] = []
    for number, begin in enumerate(range(0, SENT, _EACH)):
        mine = everything[begin : begin + _EACH]
        consumed += [poll(9, number, *mine), poll(12, number, *mine)]
        consumed.append(poll(200, number, *mine))
        place = {"topic": TOPIC, "partition": 0}
        consumed += [event(200, "processed", op=number, offset=one.offset, **place) for one in mine]
        consumed.append(event(200, "committed", offset=begin + _EACH, **place))
    consumed += [poll(process, 100, *everything[SENT:]) for process in (9, 12)]
    consumed.append(poll(200, 99, *other))
    joins = event(200, "subscribe", op=0, topic=TOPIC, detail=f"after-processing {GROUP}")
    return [*sends, *committed, joins, *consumed, final(*everything, *other)]


def _write_disks(path: Path) -> None:
    def values(producer: int, begin: int) -> list[int]:
        return [value_of(producer, n) for n in range(begin, begin + 10)]

    logs = [b"".join(v2(n, values(p, n)) for n in range(0, SENT, 10)) for p in (1, 2)]
    logs[0] += transactional(SENT, [value_of(3, 0), value_of(3, 1)], producer=_PRODUCER_ID)
    logs[0] += marker(SENT + 2, producer=_PRODUCER_ID)
    write_disks(
        path,
        {**alike(Disk(content=logs[0])), **alike(Disk(content=logs[1]), partition=1)},
    )


def _write_metadata(path: Path, last_s: int) -> None:
    def at(second: float) -> int:
        return _ERA_MS + round(second * 1000)

    states = [topic(TOPIC), *(partition(p, [1, 2, 3], leader=1) for p in (0, 1))]
    log = batch(0, at(0.5), states)
    log += batch(3, at(20), [change(0, isr=[1, 2])]) + batch(4, at(40), [change(0, isr=[1, 2, 3])])
    log += leader_change(5, at(40), 1, epoch=1)
    write_metadata(path, log + batch(6, at(last_s), [no_op()]))


def _members(last_s: int) -> list[dict[str, Any]]:
    return [
        {"event": "caught-up", "time_ns": last_s * STEP_NS, "committed": {"0": SENT},
         "ends": {"0": SENT}, "still_s": 0.5, "bound_s": 76.0, "working": [200], "silent": [],
         "strangers": [], "state": "STABLE", "brokers_well": True},
        {"event": "counts", "time_ns": last_s * STEP_NS, "processed": SENT, "rebalances": 1},
    ]  # fmt: skip


def _samples(last_s: int) -> list[dict[str, Any]]:
    clocks = [
        {"sample": "clock", "asked_ns": at * STEP_NS, "answered_ns": at * STEP_NS + 1_000_000,
         "host_ns": (_ERA_MS + at * 1000) * 1_000_000 + 500_000}
        for at in (1, last_s)
    ]  # fmt: skip
    watermarks = [
        {"sample": "high-watermark", "topic": TOPIC, "partition": p, "leader_epoch": 0,
         "asked_ns": at * STEP_NS, "answered_ns": at * STEP_NS + 1_000_000, "offset": offset}
        for p, high in ((0, SENT + 3), (1, SENT))
        for at, offset in ((10, 5), (last_s - 5, high))
    ]  # fmt: skip
    return [*clocks, *watermarks]
