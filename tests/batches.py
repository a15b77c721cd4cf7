"""Batches of all three formats with real bytes, as brokers have them on disk."""

import struct
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from crc32c import crc32c

from harness.core.op import SEQUENCE_BITS
from workloads.record import encoder

with warnings.catch_warnings():
    # The package reads its resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

RUN_ID = "00112233445566aa"
GZIP = 1
_ENCODE = encoder(run_id=RUN_ID, topic="orders", size_bytes=40)


def value_of(producer: int, sequence: int) -> int:
    """Return the value of a record."""
    return producer << SEQUENCE_BITS | sequence


def v2(base: int, values: Iterable[int], *, epoch: int = 0, codec: int = 0) -> bytes:
    """Return a record batch, as since 0.11."""
    builder: Any = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 22)
    for delta, value in enumerate(values):
        builder.append(delta, timestamp=1, key=None, value=_ENCODE(value), headers=[])
    content = bytearray(builder.build())
    struct.pack_into(">q", content, 0, base)
    struct.pack_into(">i", content, 12, epoch)  # neither is in the checksum
    return bytes(content)


def transactional(
    base: int, values: Iterable[int], *, producer: int, producer_epoch: int = 0
) -> bytes:
    """Return a record batch of a transaction."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, True, producer, producer_epoch, 0, 1 << 22)
    for delta, value in enumerate(values):
        builder.append(delta, timestamp=1, key=None, value=_ENCODE(value), headers=[])
    content = bytearray(builder.build())
    struct.pack_into(">q", content, 0, base)
    struct.pack_into(">i", content, 12, 0)
    return bytes(content)


def marker(base: int, *, producer: int, producer_epoch: int = 0, commit: bool = True) -> bytes:
    """Return the control batch that ends a transaction (KIP-98)."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, True, producer, producer_epoch, -1, 1 << 22)
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    builder.append(0, timestamp=1, key=key, value=value, headers=[])
    content = bytearray(builder.build())
    struct.pack_into(">q", content, 0, base)
    struct.pack_into(">i", content, 12, 0)
    struct.pack_into(">h", content, 21, 0x30)
    struct.pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    return bytes(content)


def old(base: int, values: Sequence[int], *, magic: int = 1, codec: int = 0) -> bytes:
    """Return a message set of v0 or v1, as up to 0.10; compressed it is one entry."""
    builder: Any = LegacyRecordBatchBuilder(magic, codec, 1 << 22)
    for delta, value in enumerate(values):
        inner = delta if magic == 1 and codec else base + delta
        builder.append(inner, timestamp=1 if magic == 1 else None, key=None, value=_ENCODE(value))
    content = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", content, 0, base + len(values) - 1)
    return bytes(content)
