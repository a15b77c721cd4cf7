"""The format of recorded histories: the columns of every table, and the frames of a raw file.

A client process writes one raw file. The file is a row of *frames*; a frame is a header and one
batch of rows:

    "KCh1" · length of the batch · CRC-32 of the batch · CRC-32 of the header so far
    the batch: a complete Arrow IPC stream whose schema names the table, the client and the run

Frames are only ever appended, with one write each. So a file of a killed client ends in at most one
unfinished frame, which is known from its length; damage anywhere else is known from the checksums.

Tables of a raw file:

    mark     kind "reserve": the producer may use all sequence numbers below `bound`
             kind "close": it ended in order, having used all below `bound`
    invoke   sends that were under way when a frame was written
    send     completed sends
    begin    transactions that were begun
    txn      transactions that ended, well or not
    poll, final, event   as sealed, without the process
"""

import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Literal

import pyarrow as pa

from harness.core.errors import HistoryUnreadable
from harness.core.op import OpType

MAGIC = b"KCh1"
HEADER = Struct("<4sIII")

Table = Literal["mark", "invoke", "send", "begin", "txn", "poll", "final", "event"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_PROCESS = pa.field("process", pa.int32(), nullable=False)
_TEXT = pa.string()


def _field(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


_TXN = _field("txn", pa.int64(), nullable=True)
_TYPE = _field("type", pa.int8())


SEND_SCHEMA = pa.schema(
    [
        _PROCESS,
        _field("op", pa.int64()),
        _field("type", _TEXT),
        _field("topic", _TEXT),
        _field("partition", pa.int32(), nullable=True),
        _field("offset", pa.int64(), nullable=True),
        _field("value", pa.int64()),
        _field("invoke_ns", pa.int64(), nullable=True),
        _field("complete_ns", pa.int64()),
        _field("error", _TEXT, nullable=True),
        _TXN,
    ]
)
"""Sealed sends, one row each; columns as in docs/run-folder.md.

`complete_ns` of a send that never completed is the last moment its client is known to have lived.
"""

POLL_SCHEMA = pa.schema(
    [
        _PROCESS,
        _field("op", pa.int64()),
        _field("position", pa.int32()),
        _field("topic", _TEXT),
        _field("partition", pa.int32()),
        _field("offset", pa.int64()),
        _field("value", pa.int64(), nullable=True),
        _field("time_ns", pa.int64()),
        _field("problem", _TEXT, nullable=True),
        _TXN,
    ]
)
"""Sealed polls and final reads, one row a record."""

TXN_SCHEMA = pa.schema(
    [
        _PROCESS,
        _field("txn", pa.int64()),
        _field("type", _TEXT),
        _field("invoke_ns", pa.int64()),
        _field("complete_ns", pa.int64()),
        _field("committing", pa.bool_()),
        _field("error", _TEXT, nullable=True),
    ]
)
"""Sealed transactions, one row each.

`complete_ns` of one that never ended is the last moment its client is known to have lived.
"""

EVENT_SCHEMA = pa.schema(
    [
        _PROCESS,
        _field("op", pa.int64(), nullable=True),
        _field("f", _TEXT),
        _field("topic", _TEXT, nullable=True),
        _field("partition", pa.int32(), nullable=True),
        _field("offset", pa.int64(), nullable=True),
        _field("time_ns", pa.int64()),
        _field("detail", _TEXT, nullable=True),
    ]
)
"""Sealed events, one row each."""

SEND_TYPES = (OpType.OK, OpType.FAIL, OpType.INFO)
"""Raw sends and transactions hold a place in this tuple for their type."""


def _raw(schema: pa.Schema, *left_out: str) -> pa.Schema:
    """Return the columns of a raw table: those of its sealed rows that they do not get later."""
    fields = (field for field in schema if field.name not in ("process", *left_out))
    return pa.schema([_TYPE if field.name == "type" else field for field in fields])


RAW_SCHEMAS: dict[Table, pa.Schema] = {
    "mark": pa.schema(
        [_field("kind", _TEXT), _field("bound", pa.int64()), _field("time_ns", pa.int64())]
    ),
    "invoke": pa.schema([_field("value", pa.int64()), _field("invoke_ns", pa.int64()), _TXN]),
    "send": _raw(SEND_SCHEMA, "op", "topic"),
    "begin": pa.schema([_field("txn", pa.int64()), _field("invoke_ns", pa.int64())]),
    "txn": _raw(TXN_SCHEMA),
    "poll": _raw(POLL_SCHEMA),
    "final": _raw(POLL_SCHEMA),
    "event": _raw(EVENT_SCHEMA),
}


def pack_frame(batch: pa.RecordBatch) -> bytes:
    """Return one frame: the header and the batch under its schema, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    start = HEADER.pack(MAGIC, len(body), zlib.crc32(body), 0)[:-4]
    return start + zlib.crc32(start).to_bytes(4, "little") + body


def read_frames(path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batch of every whole frame, and where the frame ends, in bytes.

    Raises:
        HistoryUnreadable: something else than the last frame's missing end is wrong.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = len(data)
        place = 0
        while size - place >= HEADER.size:
            header = data[place : place + HEADER.size]
            magic, length, body_crc, header_crc = HEADER.unpack(header)
            if magic != MAGIC or zlib.crc32(header[:-4]) != header_crc:
                raise _damaged(path, place, "no frame begins there")
            start, end = place + HEADER.size, place + HEADER.size + length
            if end > size:
                return
            body = data[start:end]
            if zlib.crc32(body) != body_crc:
                raise _damaged(path, start, "the checksum does not fit")
            with pa.ipc.open_stream(body) as stream:
                for batch in stream:
                    yield end, batch
            place = end
        if not MAGIC.startswith(data[place : place + len(MAGIC)]):
            raise _damaged(path, place, "no frame begins there")


def _damaged(path: Path, place: int, what: str) -> HistoryUnreadable:
    return HistoryUnreadable(
        f"{path} is damaged at byte {place} ({what}): restore the file from where the run was "
        "made, or run it again."
    )
