"""Batches of a KRaft cluster's metadata log, with real bytes."""

import struct
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crc32c import crc32c

with warnings.catch_warnings():
    # The package reads its resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder

TOPIC_ID = bytes(range(16))
SAME_LEADER = -2


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def integers(values: Sequence[int]) -> bytes:
    return varint(len(values) + 1) + b"".join(struct.pack(">i", value) for value in values)


def tagged(fields: dict[int, bytes]) -> bytes:
    parts = (varint(tag) + varint(len(part)) + part for tag, part in sorted(fields.items()))
    return varint(len(fields)) + b"".join(parts)


def frame(kind: int, content: bytes, *, version: int = 0) -> bytes:
    return varint(1) + varint(kind) + varint(version) + content


def topic(name: str) -> bytes:
    return frame(2, varint(len(name) + 1) + name.encode() + TOPIC_ID + tagged({}))


def partition(number: int, isr: Sequence[int], *, leader: int, elr: Sequence[int] = ()) -> bytes:
    """Return a PartitionRecord, of version 2 if it has eligible leader replicas."""
    content = struct.pack(">i", number) + TOPIC_ID + integers([1, 2, 3]) + integers(isr)
    content += integers([]) + integers([]) + struct.pack(">iii", leader, 0, 0)
    if elr:
        content += varint(4) + bytes(3 * 16) + tagged({1: integers(elr)})
        return frame(3, content, version=2)
    return frame(3, content + tagged({}))


def change(
    number: int,
    *,
    isr: Sequence[int] | None = None,
    leader: int = SAME_LEADER,
    elr: Sequence[int] | None = None,
) -> bytes:
    """Return a PartitionChangeRecord; what is not given did not change."""
    fields = {}
    if isr is not None:
        fields[0] = integers(isr)
    if leader != SAME_LEADER:
        fields[1] = struct.pack(">i", leader)
    if elr is not None:
        fields[6] = integers(elr)
    return frame(5, struct.pack(">i", number) + TOPIC_ID + tagged(fields))


def no_op() -> bytes:
    return frame(20, tagged({}))


def batch(base: int, at_ms: int, values: Sequence[bytes], *, epoch: int = 1) -> bytes:
    """Return a batch of records, as the active controller appends it."""
    return _build(base, at_ms, [(None, value) for value in values], epoch)


def leader_change(base: int, at_ms: int, node_id: int, *, epoch: int = 1) -> bytes:
    """Return the control batch with which a controller begins its epoch."""
    content = bytearray(
        _build(base, at_ms, [(struct.pack(">hh", 0, 2), struct.pack(">hi", 0, node_id))], epoch)
    )
    (attributes,) = struct.unpack_from(">h", content, 21)
    struct.pack_into(">h", content, 21, attributes | 0x20)
    struct.pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    return bytes(content)


def _build(base: int, at_ms: int, records: Sequence[tuple[Any, bytes]], epoch: int) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 22)
    for delta, (key, value) in enumerate(records):
        builder.append(delta, timestamp=at_ms, key=key, value=value, headers=[])
    content = bytearray(builder.build())
    struct.pack_into(">q", content, 0, base)
    struct.pack_into(">i", content, 12, epoch)
    return bytes(content)


def write_metadata(
    path: Path, content: bytes, *, service: str = "broker-1", first: int = 0
) -> None:
    """Write a copy of the metadata log into a run's folder."""
    log = path / "cluster" / service / "metadata" / "__cluster_metadata-0"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{first:020}.log").write_bytes(content)
