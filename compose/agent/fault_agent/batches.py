"""Stepping through a segment, batch by batch, in every format that Kafka has had.

Source: Kafka's documentation, "Message format". All formats begin with an offset and a size, and
have their version, the magic, at the same place.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from fault_agent import AgentError

_FRONT = 12
"""Offset, 8 bytes; size of what follows, 4 bytes."""
_HEADER = 27
"""As much of a batch as has to be known: up to and with a v2 batch's lastOffsetDelta."""
_SMALLEST = 14
"""What follows the size, in format v0: checksum, magic, attributes, two lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One batch (v2), or one message or wrapper of compressed messages (v0, v1).

    Attributes:
        last_offset: of its last record.
        begin: where it begins in the file, bytes.
        end: where the next one begins.
    """

    last_offset: int
    begin: int
    end: int


def batches(file: BinaryIO, size: int, name: str, *, begin: int = 0) -> Iterator[Batch]:
    """Yield the batches of a segment; what a dying broker left half written at its end is none.

    Args:
        file: the segment.
        size: its length, bytes.
        name: what to call it in an error.
        begin: where the first of them begins, bytes.

    Raises:
        AgentError: what lies there is no format of Kafka's.
    """
    position = begin
    while position + _FRONT + _SMALLEST <= size:
        file.seek(position)
        header = file.read(_HEADER)
        offset, length = struct.unpack_from(">qi", header)
        if length == 0:
            return  # the unwritten rest of a preallocated file
        end = position + _FRONT + length
        if length < _SMALLEST:
            raise AgentError(f"{name} holds no batch at {position}: it would have {length} bytes.")
        if end > size:
            return
        magic = header[16]
        if magic > 2:
            raise AgentError(f"{name} holds no batch at {position}: its format would be {magic}.")
        # Of v0 and v1 a wrapper of compressed messages carries the offset of the last of them.
        last = offset + struct.unpack_from(">i", header, 23)[0] if magic == 2 else offset
        yield Batch(last_offset=last, begin=position, end=end)
        position = end
