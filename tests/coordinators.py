"""Batches of the transaction coordinators' log, with real bytes."""

import json
import struct
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # The package reads its resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder

EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4


def key(name: str, *, version: int = 0) -> bytes:
    return struct.pack(">hh", version, len(name)) + name.encode()


def state(
    *,
    producer: int = 7,
    epoch: int = 0,
    timeout_ms: int = 60_000,
    status: int = COMPLETE_COMMIT,
    partitions: Mapping[str, Sequence[int]] | None = None,
    updated_ms: int = 2000,
    begun_ms: int = 1000,
    version: int = 0,
) -> bytes:
    """Return a TransactionLogValue; version 1 is compact, and has tagged fields."""
    content = struct.pack(">hqhib", version, producer, epoch, timeout_ms, status)
    topics = partitions or {}
    if version == 0:
        content += struct.pack(">i", len(topics) if partitions is not None else -1)
        for topic, numbers in topics.items():
            content += struct.pack(">h", len(topic)) + topic.encode()
            content += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        return content + struct.pack(">qq", updated_ms, begun_ms)
    content += bytes([len(topics) + 1 if partitions is not None else 0])
    for topic, numbers in topics.items():
        content += bytes([len(topic) + 1]) + topic.encode()
        content += bytes([len(numbers) + 1]) + struct.pack(f">{len(numbers)}i", *numbers)
        content += bytes([1, 0, 2]) + b"??"
    return content + struct.pack(">qq", updated_ms, begun_ms) + bytes([0])


def batch(base: int, records: Sequence[tuple[bytes, bytes | None]], *, epoch: int = 0) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 22)
    for delta, (name, value) in enumerate(records):
        builder.append(delta, timestamp=1, key=name, value=value, headers=[])
    content = bytearray(builder.build())
    struct.pack_into(">q", content, 0, base)
    struct.pack_into(">i", content, 12, epoch)
    return bytes(content)


def write_coordinators(
    path: Path, content: bytes, *, asked_ns: int = 1, why: str | None = None, service: str = ""
) -> None:
    """Write a copy of the log into a run folder, and say in the manifest that it is one."""
    home = path / "cluster" / (service or "broker-1") / "transactions" / "__transaction_state-0"
    home.mkdir(parents=True)
    (home / f"{0:020}.log").write_bytes(content)
    manifest = path / "cluster" / "replicas.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    copied = {"asked_ns": asked_ns, "why": why}
    manifest.write_text(json.dumps({**known, "transactions": copied}))
