"""What a record of a run looks like, byte by byte, and what can be wrong with one.

A record's value, little-endian:

    bytes   0–3    CRC-32 of everything after it
            4–7    mark and version of this layout
            8–15   the value: producer << 40 | sequence
           16–23   the run's id
           24–27   CRC-32 of the topic's name
           28–     padding up to the wanted size, always the same bytes

The checksum covers the padding too, so a flipped bit anywhere is found. Run and topic are inside
because a record can be whole and still be in the wrong place.
"""

import zlib
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Literal

from harness.core.errors import UsageError

# A workload's description reads this module for a constant, and has no need of numpy.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from harness.history.recorder import Delivered

Problem = Literal["checksum", "run", "topic", "format"]

HEADER_BYTES = 28
"""The smallest record there is."""

MARK = b"kch\x01"

_CRC = Struct("<I")
_VALUE = Struct("<q")
_HEADER = Struct("<I4sq8sI")
_PATTERN = bytes((i * 37 + 11) & 0xFF for i in range(256))


def encoder(*, run_id: str, topic: str, size_bytes: int) -> Callable[[int], bytes]:
    """Return the function that turns a value into a record of one run and topic.

    Args:
        run_id: 16 hexadecimal digits.
        topic: the topic that the records are for.
        size_bytes: length of every record, at least `HEADER_BYTES`.

    Raises:
        UsageError: the size is too small, or the id is not one.
    """
    if size_bytes < HEADER_BYTES:
        raise UsageError(
            f"A record of {size_bytes} bytes cannot say what it is: at least {HEADER_BYTES}."
        )
    padding_bytes = size_bytes - HEADER_BYTES
    padding = (_PATTERN * (padding_bytes // len(_PATTERN) + 1))[:padding_bytes]
    tail = _run_bytes(run_id) + _CRC.pack(zlib.crc32(topic.encode())) + padding
    # The checksum of the mark never changes, so each record's own begins from there.
    seed = zlib.crc32(MARK)

    def encode(
        value: int,
        # Defaults are locals to the interpreter: this runs once for every record of a run.
        pack_crc: Callable[[int], bytes] = _CRC.pack,
        pack_value: Callable[[int], bytes] = _VALUE.pack,
        crc32: Callable[[bytes, int], int] = zlib.crc32,
    ) -> bytes:
        body = pack_value(value) + tail
        return pack_crc(crc32(body, seed)) + MARK + body

    return encode


def block_encoder(*, run_id: str, topic: str, size_bytes: int) -> Callable[[range], list[bytes]]:
    """Return the function that makes the records of many values of one producer at once.

    The same bytes as `encoder` gives, a few times faster. A CRC is linear: the checksum of a record
    is that of the first one, changed by a known amount for each byte of the sequence number, so
    five table look-ups replace reading the record. Arguments and errors as of `encoder`.
    """
    import numpy as np

    encode = encoder(run_id=run_id, topic=topic, size_bytes=size_bytes)
    zero = _crc_of(encode(0))
    # Linear too in the high bytes, so one set of tables serves every producer.
    tables = np.array(
        [[_crc_of(encode(byte << 8 * place)) ^ zero for byte in range(256)] for place in range(7)],
        dtype="<u4",
    )

    def encode_block(values: range) -> list[bytes]:
        if not values:
            return []
        count = len(values)
        digits = np.arange(values.start, values.stop, dtype="<i8").view(np.uint8).reshape(count, 8)
        crc = np.full(count, zero, dtype="<u4")
        for place, table in enumerate(tables):
            crc ^= table[digits[:, place]]
        records = np.empty((count, size_bytes), dtype=np.uint8)
        records[:] = np.frombuffer(encode(0), dtype=np.uint8)
        records[:, 0:4] = crc.view(np.uint8).reshape(count, 4)
        records[:, 8:16] = digits
        block = records.tobytes()
        return [block[place : place + size_bytes] for place in range(0, len(block), size_bytes)]

    return encode_block


def decoder(*, run_id: str) -> Callable[[bytes | None, str], tuple[int | None, Problem | None]]:
    """Return the function that reads a record of one run.

    It takes a record's bytes and the topic they were read from, and returns the value and what is
    wrong: the value is None if it could not be made out or is none of this run's.

    Args:
        run_id: 16 hexadecimal digits.
    """
    run = _run_bytes(run_id)
    topics: dict[str, int] = {}

    def decode(payload: bytes | None, topic: str) -> tuple[int | None, Problem | None]:
        if payload is None or len(payload) < HEADER_BYTES:
            return None, "format"
        crc, mark, value, run_of_record, topic_crc = _HEADER.unpack_from(payload)
        if mark != MARK:
            return None, "format"
        if zlib.crc32(memoryview(payload)[4:]) != crc:
            return None, "checksum"
        if run_of_record != run:
            return None, "run"
        expected = topics.get(topic)
        if expected is None:
            expected = topics[topic] = zlib.crc32(topic.encode())
        return value, None if topic_crc == expected else "topic"

    return decode


def values_of(messages: Sequence["Delivered"]) -> "npt.NDArray[np.int64]":
    """Return the values in records that we made ourselves, all of one size, unchecked.

    For delivery reports: librdkafka hands back the very bytes that it was given.
    """
    import numpy as np

    kind = type(messages[0])
    block = b"".join(map(kind.value, messages))  # type: ignore[arg-type]  # all are of one kind
    records = np.frombuffer(block, dtype=np.uint8).reshape(len(messages), -1)
    return records[:, 8:16].copy().view("<i8").reshape(-1)


def _crc_of(record: bytes) -> int:
    return int(_CRC.unpack_from(record)[0])


def _run_bytes(run_id: str) -> bytes:
    try:
        run = bytes.fromhex(run_id)
    except ValueError:
        run = b""
    if len(run) != 8:
        raise UsageError(f"The run id {run_id!r} is not made of 16 hexadecimal digits.")
    return run
