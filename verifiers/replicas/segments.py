"""The batches of a log segment, by their headers; bodies are left alone.

Formats v0 and v1 (message sets, up to Kafka 0.10) and v2 (record batches, since 0.11). All three
begin with an offset and a size, and have their magic at the same place:

    v0, v1    offset i64 · size i32 · crc u32 · magic i8 · attributes i8 · [v1: timestamp i64] · …
    v2        base offset i64 · size i32 · leader epoch i32 · magic i8 · crc u32 · attributes i16 ·
              last offset delta i32 · base and max timestamp i64 · producer id i64 · producer epoch
              i16 · base sequence i32 · records i32 · …                              all big-endian

A compressed message set is one entry with the offset of its last message; it begins where the
entry before it ended.

Source: Kafka documentation, message format; KIP-32, KIP-98.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

V2_HEADER = Struct(">qiibIhiqqqhii")
OLD_HEADER = Struct(">qiIbb")
LEADING = Struct(">qi")
TIMESTAMP = Struct(">q")

LEADING_BYTES = LEADING.size
COMPRESSION = 0x07
_MAGIC_AT = 16
_V1_TIMESTAMP_AT = OLD_HEADER.size
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
# What is left of a size that counts from behind it: v0 with neither key nor value; v2 empty.
_LEAST_SIZE = {0: 14, 1: 22, 2: V2_HEADER.size - LEADING_BYTES}
_MOST_OFFSETS = 10_000_000
"""A batch that says it has more is taken for garbage: no broker takes one so large."""
_PROBED = 32

COLUMNS = (
    "position",
    "size",
    "base_offset",
    "last_offset",
    "magic",
    "leader_epoch",
    "crc",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "is_transactional",
    "is_control",
    "problem",
)
"""What is known of a batch. In a row with a `problem` only position and size mean anything."""


@dataclass(slots=True)
class Headers:
    """The batches of one segment, column by column, in the order of COLUMNS."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def add(self, *row: Any) -> None:  # noqa: ANN401  (one value a column)
        """Add one row, in the order of COLUMNS."""
        for column, value in zip(self.columns.values(), row, strict=True):
            column.append(value)

    def add_problem(self, position: int, size: int, problem: str) -> None:
        """Add a stretch of bytes that are no batch."""
        unknown = [None] * (len(COLUMNS) - 3)
        self.add(position, size, *unknown, problem)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch; None before the first."""
        last = self.columns["last_offset"]
        return None if not last or last[-1] is None else last[-1] + 1

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows one by one."""
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))


def read_headers(path: Path) -> Headers:
    """Return the batches of a segment file; whatever its bytes are, this does not fail on them.

    Bytes that are no batch end the reading and are a row of their own, whose `problem` is one of:
    truncated (a batch goes on beyond the end of the file), size, magic, offsets (they do not
    grow, or are too many). Zeros up to the end are what was preallocated, and no problem.

    Args:
        path: the file; its name is the offset of its first record.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return Headers()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            first = int(path.stem) if path.stem.isdigit() else 0
            return parse(content, first_offset=first)


def parse(content: bytes | mmap.mmap, *, first_offset: int = 0) -> Headers:
    """Return the batches in a segment's bytes; see `read_headers`."""
    found = Headers()
    position, end = 0, len(content)
    while position < end:
        length = _entry_bytes(content, position, found, first_offset)
        if length == 0:
            break
        position += length
    return found


def _entry_bytes(
    content: bytes | mmap.mmap, position: int, found: Headers, first_offset: int
) -> int:
    """Add the entry at a position, and return its length; 0 if nothing readable follows."""
    left = len(content) - position
    if left < LEADING_BYTES + _LEAST_SIZE[0]:
        if any(content[position:]):
            found.add_problem(position, left, "truncated")
        return 0
    offset, size = LEADING.unpack_from(content, position)
    if offset == 0 and size == 0 and not _any_left(content, position):
        return 0
    magic = content[position + _MAGIC_AT]
    if magic not in _LEAST_SIZE:
        found.add_problem(position, left, "magic")
    elif size < _LEAST_SIZE[magic]:
        found.add_problem(position, left, "size")
    elif size + LEADING_BYTES > left:
        found.add_problem(position, left, "truncated")
    elif magic == 2:
        return _add_batch(content, position, found)
    else:
        return _add_messages(content, position, found, first_offset)
    return 0


def _any_left(content: bytes | mmap.mmap, position: int) -> bool:
    rest = np.frombuffer(content, dtype=np.uint8)[position:]
    found = bool(rest.any())
    del rest  # a map with a view on it cannot be closed
    return found


def _add_batch(content: bytes | mmap.mmap, position: int, found: Headers) -> int:
    (
        base, size, epoch, magic, crc, attributes, delta, _, max_timestamp,
        producer_id, producer_epoch, sequence, _,
    ) = V2_HEADER.unpack_from(content, position)  # fmt: skip
    length = LEADING_BYTES + int(size)
    if not 0 <= delta < _MOST_OFFSETS or base < (found.next_offset or 0):
        found.add_problem(position, len(content) - position, "offsets")
        return 0
    found.add(
        position, length, base, base + delta, magic, epoch, crc, max_timestamp, producer_id,
        producer_epoch, sequence, bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL),
        None,
    )  # fmt: skip
    return length


def _add_messages(
    content: bytes | mmap.mmap, position: int, found: Headers, first_offset: int
) -> int:
    """Add a message, and with it all of the same size that follow it, at once.

    Before 0.11 each message is an entry of its own, and there are as many as records.
    """
    size = LEADING.unpack_from(content, position)[1]
    length = LEADING_BYTES + int(size)
    count = _count_alike(content, position, length)
    view = np.frombuffer(content, dtype=np.uint8, count=count * length, offset=position)
    entries = view.reshape(count, length)
    offset = entries[:, 0:8].copy().view(">i8").reshape(-1).astype(np.int64)
    crc = entries[:, 12:16].copy().view(">u4").reshape(-1).astype(np.int64)
    magic, attributes = entries[:, 16].astype(np.int64), entries[:, 17].copy()
    timestamp = np.full(count, -1, dtype=np.int64)
    if length >= _V1_TIMESTAMP_AT + TIMESTAMP.size:
        at = slice(_V1_TIMESTAMP_AT, _V1_TIMESTAMP_AT + TIMESTAMP.size)
        told = entries[:, at].copy().view(">i8").reshape(-1)
        timestamp = np.where(magic == 1, told, timestamp)
    del entries, view
    before = found.next_offset
    previous = np.concatenate(([first_offset if before is None else before], offset[:-1] + 1))
    compressed = (attributes & COMPRESSION) != 0
    base = np.where(compressed, np.minimum(previous, offset), offset)
    wrong = (offset < previous) | (base < 0) | (offset - base >= _MOST_OFFSETS)
    if before is None:
        # A follower's first segment may be called after an offset it was asked to begin at.
        wrong[0] = offset[0] < 0
        base[0] = max(int(base[0]), 0)
    good = int(wrong.argmax()) if wrong.any() else count
    _extend(found, position, length, base[:good], offset[:good], magic, crc, timestamp)
    if good < count:
        bad = position + good * length
        found.add_problem(bad, len(content) - bad, "offsets")
        return 0
    return count * length


def _extend(
    found: Headers,
    position: int,
    length: int,
    base: Any,  # noqa: ANN401  (arrays of numbers)
    *columns: Any,  # noqa: ANN401
) -> None:
    count = len(base)
    last, magic, crc, timestamp = (column[:count].tolist() for column in columns)
    made: dict[str, list[Any]] = {
        "position": list(range(position, position + count * length, length)),
        "size": [length] * count,
        "base_offset": base.tolist(),
        "last_offset": last,
        "magic": magic,
        "crc": crc,
        "max_timestamp_ms": timestamp,
        "is_transactional": [False] * count,
        "is_control": [False] * count,
    }
    for name, column in found.columns.items():
        column.extend(made.get(name, [None] * count))


def _count_alike(content: bytes | mmap.mmap, position: int, length: int) -> int:
    """Return how many entries of this length and of an old format follow each other here."""
    most = (len(content) - position) // length
    count, step = 1, _PROBED
    while count < most:
        step = min(step, most - count)
        view = np.frombuffer(
            content, dtype=np.uint8, count=step * length, offset=position + count * length
        )
        entries = view.reshape(step, length)
        size = entries[:, 8:12].copy().view(">i4").reshape(-1)
        alike = (size == length - LEADING_BYTES) & (entries[:, _MAGIC_AT] < 2)
        # The size that fits v0 is too small for v1.
        alike &= (entries[:, _MAGIC_AT] == 0) | (size >= _LEAST_SIZE[1])
        del view, entries
        if not alike.all():
            return count + int(alike.argmin())
        count += step
        step *= 4
    return count
