"""The batches of a log segment, by their headers, each held against its own checksum.

Formats v0 and v1 (message sets, up to Kafka 0.10) and v2 (record batches, since 0.11). All three
begin with an offset and a size, and have their magic at the same place:

    v0, v1    offset i64 · size i32 · crc u32 · magic i8 · attributes i8 · [v1: timestamp i64] · …
    v2        base offset i64 · size i32 · leader epoch i32 · magic i8 · crc u32 · attributes i16 ·
              last offset delta i32 · base and max timestamp i64 · producer id i64 · producer epoch
              i16 · base sequence i32 · records i32 · …                              all big-endian

A compressed message set is one entry with the offset of its last message; it begins where the
entry before it ended. The checksum is of all that follows it: CRC-32 in v0 and v1, CRC-32C in v2.

Only the walk from batch to batch, and the checksum, are done one by one: headers are decoded by the
thousand.

Source: Kafka documentation, message format; KIP-32, KIP-98.
"""

import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

V2_HEADER = Struct(">qiibIhiqqqhii")
OLD_HEADER = Struct(">qiIbb")
LEADING = Struct(">qi")
TIMESTAMP = Struct(">q")

LEADING_BYTES = LEADING.size
COMPRESSION = 0x07
_SIZE_AND_MAGIC = Struct(">i4xB")
_SIZE_AT, _MAGIC_AT = 8, 16
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
# Behind the header: length, attributes, two deltas and the key's length, a byte each; then the
# key, which is a version and this type. Control batches hold one record and are never compressed.
_MARKER_AT = V2_HEADER.size + 7
_MARKERS = ("abort", "commit")
# What is left of a size that counts from behind it: v0 with neither key nor value; v2 empty.
_LEAST_SIZE = {0: 14, 1: 22, 2: V2_HEADER.size - LEADING_BYTES}
_MOST_OFFSETS = 10_000_000
"""A batch that says it has more is taken for garbage: no broker takes one so large."""
_MOST_AT_ONCE = 1 << 15

_V2 = np.dtype(
    [
        ("base", ">i8"), ("size", ">i4"), ("epoch", ">i4"), ("magic", "u1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("delta", ">i4"), ("begin", ">i8"), ("timestamp", ">i8"),
        ("producer", ">i8"), ("producer_epoch", ">i2"), ("sequence", ">i4"), ("records", ">i4"),
    ]
)  # fmt: skip
_OLD = np.dtype(
    {
        "names": ["offset", "crc", "magic", "attributes", "timestamp"],
        "formats": [">i8", ">u4", "u1", "u1", ">i8"],
        "offsets": [0, 12, 16, 17, 18],
        "itemsize": _V2.itemsize,
    }
)

HEADERS = pa.schema(
    {
        "position": pa.int64(),
        "size": pa.int64(),
        "base_offset": pa.int64(),
        "last_offset": pa.int64(),
        "magic": pa.int32(),
        "leader_epoch": pa.int32(),
        "crc": pa.int64(),
        "max_timestamp_ms": pa.int64(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "base_sequence": pa.int32(),
        "is_transactional": pa.bool_(),
        "is_control": pa.bool_(),
        "marker": pa.string(),
        "intact": pa.bool_(),
        "jump": pa.int64(),
        "problem": pa.string(),
    }
)
"""What is known of a batch. In a row with a `problem` only position and size mean anything.

`marker` is what a control batch says of its producer's transaction, "abort" or "commit"; null of
all others. `intact` says whether its checksum fits; `jump` is how many offsets lie between the
batch before it in the file and itself: 0 in a log without holes, negative where they overlap, null
for the first.
"""

Bytes = bytes | mmap.mmap


def read_headers(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a segment file (HEADERS); no bytes whatever make this fail.

    Bytes that are no batch end the reading and are a row of their own, whose `problem` is one of:
    truncated (a batch goes on beyond the end of the file), size, magic, offsets (they are too
    many, or fall though the checksum does not fit). Zeros up to the end are what was
    preallocated, and no problem. The file's name is the offset of its first record.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            first = int(path.stem) if path.stem.isdigit() else 0
            yield from parse(content, first_offset=first)


def parse(content: Bytes, *, first_offset: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the batches in a segment's bytes; see `read_headers`."""
    position, following, is_more = 0, None, True
    while is_more:
        places, position, is_more = _walk(content, position)
        if not places:
            break
        rows = _decode(content, places, position, following, first_offset)
        yield rows
        if rows.num_rows < len(places):
            yield _problem(places[rows.num_rows], len(content), "offsets")
            return
        following = rows.column("last_offset")[-1].as_py() + 1
    problem = _problem_at(content, position)
    if problem:
        yield _problem(position, len(content), problem)


def _walk(content: Bytes, position: int) -> tuple[list[int], int, bool]:
    """Return where batches begin, where the last of them ends, and whether more may follow."""
    places: list[int] = []
    end, unpack, least = len(content), _SIZE_AND_MAGIC.unpack_from, _LEAST_SIZE
    while len(places) < _MOST_AT_ONCE:
        if position + LEADING_BYTES + _LEAST_SIZE[0] > end:
            return places, position, False
        size, magic = unpack(content, position + _SIZE_AT)
        following = position + LEADING_BYTES + size
        if size < least.get(magic, end) or following > end:
            return places, position, False
        places.append(position)
        position = following
    return places, position, True


def _problem_at(content: Bytes, position: int) -> str | None:
    """Return why no batch begins here; None at the end, and in zeros up to the end."""
    left = len(content) - position
    if left < LEADING_BYTES + _LEAST_SIZE[0]:
        return "truncated" if any(content[position:]) else None
    size, magic = _SIZE_AND_MAGIC.unpack_from(content, position + _SIZE_AT)
    # A view that outlived this line would keep a map from being closed.
    if size == 0 and not np.frombuffer(content, dtype=np.uint8, offset=position).any():
        return None
    if magic not in _LEAST_SIZE:
        return "magic"
    return "size" if size < _LEAST_SIZE[magic] else "truncated"


def _problem(position: int, end: int, problem: str) -> pa.RecordBatch:
    known = {"position": position, "size": end - position, "problem": problem}
    return pa.RecordBatch.from_pylist([known], schema=HEADERS)


def _decode(
    content: Bytes, places: list[int], end: int, following: int | None, first_offset: int
) -> pa.RecordBatch:
    """Return the rows of the batches that begin at `places`, up to the first that is garbage."""
    position = np.array(places, dtype=np.int64)
    size = np.diff(position, append=end)
    heads = _heads(content, position)
    new, old = heads.view(_V2).reshape(-1), heads.view(_OLD).reshape(-1)
    magic = new["magic"]
    is_old = magic < 2
    crc = np.where(is_old, old["crc"], new["crc"]).astype(np.int64)
    intact = crc == _checksums(content, places, end, magic.tolist())
    base = new["base"].astype(np.int64)
    last = np.where(is_old, base, base + new["delta"])
    previous = np.concatenate(([first_offset if following is None else following], last[:-1] + 1))
    # A set of old messages says only where it ends. A follower's first segment may be called after
    # an offset that it was asked to begin at, in the middle of a set.
    is_set = is_old & ((old["attributes"] & COMPRESSION) != 0)
    base = np.where(is_set, np.maximum(np.minimum(previous, last), 0), base)
    falls = base < previous
    if following is None:
        falls[0] = False
    count = last - base
    garbage = (base < 0) | (count < 0) | (count >= _MOST_OFFSETS) | (falls & ~intact)
    good = int(garbage.argmax()) if garbage.any() else len(places)
    jump = base - previous
    is_first = np.zeros(len(places), dtype=bool)
    is_first[0] = following is None
    timestamp = np.where(is_old, np.where(magic == 1, old["timestamp"], -1), new["timestamp"])
    flags = np.where(is_old, 0, new["attributes"])
    columns: dict[str, tuple[Any, Any]] = {
        "position": (position, None),
        "size": (size, None),
        "base_offset": (base, None),
        "last_offset": (last, None),
        "magic": (magic, None),
        "leader_epoch": (new["epoch"], is_old),
        "crc": (crc, None),
        "max_timestamp_ms": (timestamp, None),
        "producer_id": (new["producer"], is_old),
        "producer_epoch": (new["producer_epoch"], is_old),
        "base_sequence": (new["sequence"], is_old),
        "is_transactional": ((flags & _TRANSACTIONAL) != 0, None),
        "is_control": ((flags & _CONTROL) != 0, None),
        "intact": (intact, None),
        "jump": (jump, is_first),
    }
    known = {f.name: _array(*columns[f.name], f.type, good) for f in HEADERS if f.name in columns}
    known["marker"] = _markers(content, places[:good], columns["is_control"][0])
    known["problem"] = pa.nulls(good, pa.string())
    return pa.RecordBatch.from_arrays([known[name] for name in HEADERS.names], schema=HEADERS)


def _markers(content: Bytes, places: list[int], is_control: Any) -> pa.Array:  # noqa: ANN401
    """Return what each control batch says of a transaction; null for all other batches."""
    markers: list[str | None] = [None] * len(places)
    for number in np.flatnonzero(is_control[: len(places)]).tolist():
        at = places[number] + _MARKER_AT
        kind = int.from_bytes(content[at : at + 2], "big")
        if at + 2 <= len(content) and kind < len(_MARKERS):
            markers[number] = _MARKERS[kind]
    return pa.array(markers, pa.string())


def _array(values: Any, mask: Any, kind: pa.DataType, count: int) -> pa.Array:  # noqa: ANN401
    native = values[:count].astype(kind.to_pandas_dtype())
    return pa.array(native, kind, mask=None if mask is None else mask[:count])


def _heads(content: Bytes, position: Any) -> Any:  # noqa: ANN401  (arrays of numbers)
    """Return the first bytes of each batch, a row each; zeros stand beyond the end of the file."""
    width = _V2.itemsize
    data = np.frombuffer(content, dtype=np.uint8)
    inside = int(np.searchsorted(position, len(data) - width, side="right"))
    parts = []
    if inside:
        parts.append(np.lib.stride_tricks.sliding_window_view(data, width)[position[:inside]])
    if inside < len(position):
        begin = position[inside]
        rest = np.concatenate((data[begin:], np.zeros(width, dtype=np.uint8)))
        windows = np.lib.stride_tricks.sliding_window_view(rest, width)
        parts.append(windows[position[inside:] - begin])
    return np.concatenate(parts)


def _checksums(content: Bytes, places: list[int], end: int, magics: list[int]) -> Any:  # noqa: ANN401
    """Return the checksum of each batch, as it should be."""
    with memoryview(content) as view:
        found = [
            crc32c(view[place + 21 : until]) if magic == 2 else zlib.crc32(view[place + 16 : until])
            for place, until, magic in zip(places, [*places[1:], end], magics, strict=True)
        ]
    return np.array(found, dtype=np.int64)
