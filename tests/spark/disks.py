"""What lies on three brokers' disks, written by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.batches import v2, value_of
from tests.spark.ops import TOPIC

BROKERS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Disk:
    """One replica: the bytes of its first segment, its epochs, and what its broker said.

    `more` are further segments, each with the offset that it is called after.
    """

    content: bytes
    epochs: Sequence[tuple[int, int]] | None = ((0, 0),)
    server_log: str = ""
    first: int = 0
    more: Sequence[tuple[int, bytes]] = ()


Disks = Mapping[tuple[int, int], Disk]
"""Replicas by broker and partition."""


def whole(high: int, *, partition: int = 0) -> Disk:
    """Return a replica that holds so many records."""
    values = [value_of(90 + partition, n) for n in range(high)]
    return Disk(content=v2(0, values) if high else b"")


def alike(disk: Disk, *, partition: int = 0) -> dict[tuple[int, int], Disk]:
    """Return the same replica on every broker."""
    return {(broker, partition): disk for broker in BROKERS}


def write_disks(path: Path, disks: Disks, *, isr: Sequence[int] = BROKERS) -> None:
    """Write replicas into a run folder, as the harness copies them; broker 1 leads."""
    brokers = {}
    for broker in sorted({broker for broker, _ in disks}):
        home = path / "cluster" / f"broker-{broker}"
        mine = {partition: disk for (b, partition), disk in disks.items() if b == broker}
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "server.log").write_text("".join(disk.server_log for disk in mine.values()))
        for partition, disk in mine.items():
            log = home / "data" / f"{TOPIC}-{partition}"
            log.mkdir(exist_ok=True)
            for first, content in ((disk.first, disk.content), *disk.more):
                (log / f"{first:020}.log").write_bytes(content)
            if disk.epochs is not None:
                lines = "".join(f"{epoch} {first}\n" for epoch, first in disk.epochs)
                (log / "leader-epoch-checkpoint").write_text(f"0\n{len(disk.epochs)}\n{lines}")
        brokers[str(broker)] = {
            "service": f"broker-{broker}",
            "copied": True,
            "why": None,
            "partitions": [f"{TOPIC}-{partition}" for partition in mine],
        }
    manifest = {"schema": 1, "reasons": [], "brokers": brokers, "bytes": 0}
    (path / "cluster" / "replicas.json").write_text(json.dumps(manifest))
    partitions = sorted({partition for _, partition in disks})
    states = [
        {"time_ns": 1, "topic": TOPIC, "partition": p, "leader": isr[0], "isr": list(isr)}
        for p in partitions
    ]
    (path / "timeline.jsonl").write_text("".join(json.dumps(s) + "\n" for s in states))
