"""The records in the bodies of batches: only for those batches that there is a question about."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any

import pyarrow as pa

from verifiers.replicas.segments import (
    COMPRESSION,
    LEADING,
    LEADING_BYTES,
    OLD_HEADER,
    TIMESTAMP,
    V2_HEADER,
    read_headers,
)
from verifiers.spark import storage

# As workloads/record.py writes it: checksum, mark, then the value. Layers do not meet, so a test
# holds the two together.
_MARK = b"kch\x01"
_VALUE = Struct("<4x4sq")
_LENGTH = Struct(">i")
_SNAPPY_STREAM = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES = 16
_MOST_BYTES = 256 * 1024**2
DAMAGE = (StructError, IndexError, ValueError, OSError, zlib.error, pa.ArrowException)
"""What reading a damaged batch may raise; ValueError where a text is no UTF-8, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a batch; its time is by the clock of who made the batch, or appended it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_batch(segment: str, position: int, size: int) -> bytes:
    """Return the bytes of one batch of a segment, by its name; position and size in bytes."""
    with storage.open_input(segment) as file:
        file.seek(position)
        return file.read(size)


class Fields:
    """The fields of a key, a value or a batch, read one after the other from the place `at` on.

    All numbers are big-endian. Reading beyond the end raises one of the errors in DAMAGE.
    """

    def __init__(self, content: bytes, at: int = 0) -> None:
        self._content = content
        self.at = at

    def unpack(self, form: Struct) -> tuple[Any, ...]:
        """Return the next fields, which have this form."""
        values = form.unpack_from(self._content, self.at)
        self.at += form.size
        return values

    def integer(self) -> int:
        """Return the next four bytes as a number."""
        return int(self.unpack(_LENGTH)[0])

    def varint(self) -> int:
        """Return an unsigned varint: seven bits a byte, the lowest first."""
        content, at, number, shift = self._content, self.at, 0, 0
        while shift <= 63:
            byte = content[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return number
            shift += 7
        raise ValueError("a number that does not end")

    def signed_varint(self) -> int:
        """Return a varint in zigzag."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def integers(self) -> tuple[int, ...]:
        """Return the numbers of a compact array; none if it is null."""
        return tuple(self.integer() for _ in range(self.varint() - 1))

    def text(self) -> str:
        """Return a compact string."""
        return self.take(self.varint() - 1).decode()

    def tagged(self) -> dict[int, bytes]:
        """Return the tagged fields by their numbers."""
        return {self.varint(): self.take(self.varint()) for _ in range(self.varint())}

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        part = self._content[self.at : self.at + size]
        if size < 0 or len(part) < size:
            raise ValueError("a record that ends too early")
        self.at += size
        return part

    def nullable(self, size: int) -> bytes | None:
        """Return the next bytes, as many of them as there are; None if the size is negative."""
        begin = self.at
        self.at += max(size, 0)
        return None if size < 0 else self._content[begin : self.at]


def read_v2_batches(
    segments: Iterable[Path],
) -> Iterator[tuple[dict[str, Any], Iterator[Record]]]:
    """Yield each batch of format v2: its row of HEADERS, and its records, read when iterated over.

    A log that was copied while it was written may end in half a batch, which is left out.
    """
    for segment in segments:
        for rows in read_headers(segment):
            for row in rows.to_pylist():
                if row["problem"] is None and row["magic"] == 2:
                    yield row, _read_records(segment, row)


def _read_records(segment: Path, row: dict[str, Any]) -> Iterator[Record]:
    yield from records_in(read_batch(str(segment), row["position"], row["size"]))


def values_in(batch: bytes) -> list[tuple[int, int | None]]:
    """Return offset and value of every record in a batch of any format.

    A value is None if the record is none of ours, or a marker of a transaction. What cannot be
    read, because it is damaged or its compression is unknown, is left out. The batch is one entry
    of a segment, its header included.
    """
    found: list[tuple[int, int | None]] = []
    # Where it is damaged, what was read until there counts.
    with suppress(*DAMAGE):
        is_old = batch[16] != 2
        offset_and_value = attrgetter("offset", "value")
        records = _messages(batch) if is_old else map(offset_and_value, records_in(batch))
        for offset, content in records:
            found.append((offset, _value(content)))
    return found


def _value(content: bytes | None) -> int | None:
    if content is None or len(content) < _VALUE.size:
        return None
    mark, value = _VALUE.unpack_from(content)
    return int(value) if mark == _MARK else None


def records_in(batch: bytes) -> Iterator[Record]:
    """Yield the records of a batch of format v2.

    Raises:
        ValueError: it is damaged; or another of the errors that reading beyond its end gives.
    """
    header = V2_HEADER.unpack_from(batch)
    base, size, attributes, begin_ms, count = (header[i] for i in (0, 1, 5, 7, 12))
    body = _expand(batch[V2_HEADER.size : LEADING_BYTES + size], attributes & COMPRESSION)
    fields = Fields(body)
    for _ in range(count):
        length = fields.signed_varint()
        end = fields.at + length
        # Its attributes are not used.
        fields.at += 1
        since_ms, delta = fields.signed_varint(), fields.signed_varint()
        key = fields.nullable(fields.signed_varint())
        value = fields.nullable(fields.signed_varint())
        yield Record(offset=base + delta, timestamp_ms=begin_ms + since_ms, key=key, value=value)
        if length <= 0:
            raise ValueError("a record of no length")
        fields.at = end


def _messages(entries: bytes) -> Iterator[tuple[int, bytes | None]]:
    fields = Fields(entries)
    while (begin := fields.at) < len(entries):
        offset, size, _, magic, attributes = fields.unpack(OLD_HEADER)
        if magic == 1:
            fields.unpack(TIMESTAMP)
        fields.nullable(fields.integer())
        value = fields.nullable(fields.integer())
        if attributes & COMPRESSION:
            inner = list(_messages(_expand(value or b"", attributes & COMPRESSION)))
            # Inner offsets count from 0 in v1 (KIP-31), and are whole in v0.
            shift = offset - inner[-1][0] if magic == 1 and inner else 0
            yield from ((shift + inside, content) for inside, content in inner)
        else:
            yield offset, value
        if size <= 0:
            raise ValueError("an entry of no length")
        fields.at = begin + LEADING.size + size


def _expand(content: bytes, codec: int) -> bytes:
    if codec == 0:
        return content
    if codec == 1:
        return zlib.decompress(content, wbits=47)
    if codec == 2:
        return _unsnap(content)
    name = {3: "lz4", 4: "zstd"}.get(codec)
    if name is None:
        raise ValueError(f"compression {codec} is not known")
    stream = pa.CompressedInputStream(pa.BufferReader(content), name)
    return bytes(stream.read(_MOST_BYTES))


def _unsnap(content: bytes) -> bytes:
    """Return what is in a snappy block, or in a stream of them as Java clients write it."""
    if not content.startswith(_SNAPPY_STREAM):
        return _unsnap_block(content)
    parts, fields = [], Fields(content, _SNAPPY_HEADER_BYTES)
    while fields.at < len(content):
        length = fields.integer()
        if length <= 0:
            raise ValueError("a block of no length")
        parts.append(_unsnap_block(fields.take(length)))
    return b"".join(parts)


def _unsnap_block(block: bytes) -> bytes:
    size = Fields(block).varint()
    if size > _MOST_BYTES:
        raise ValueError("a block too large to be one")
    return bytes(pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))
