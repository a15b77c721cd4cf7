"""What the transaction coordinators know of every transactional id, from their copied logs.

A record of `__transaction_state` is the whole state of one transactional id, named by its key: the
last record of an id counts. Which replica's log is read does not matter where all brokers' logs
were copied, so the one that reaches furthest is.

Source: TransactionLogKey.json and TransactionLogValue.json of the transaction coordinator; KIP-98,
and KIP-915 for version 1, whose lengths are compact and which has tagged fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from verifiers.replicas.records import (
    DAMAGE,
    Record,
    read_batch,
    records_in,
    unsigned_varint,
)
from verifiers.replicas.segments import read_headers
from verifiers.run_folder.folder import TopicPartition

_HEAD = Struct(">hqhib")
_SHORT, _INT, _TIMES = Struct(">h"), Struct(">i"), Struct(">qq")
_FLEXIBLE = 1
STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
    "PrepareEpochFence",
)  # fmt: skip
"""The states of a transactional id, by their numbers in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """What its coordinator has written last of one transactional id.

    Attributes:
        name: the transactional id.
        producer_id: its producer's.
        producer_epoch: its producer's.
        timeout_ms: transaction.timeout.ms of the client.
        state: one of STATES.
        partitions: that are part of the transaction.
        updated_ms: when this was written, by the coordinator's clock, milliseconds since 1970.
        begun_ms: when the transaction was begun, by the same clock; -1 if there is none.
    """

    name: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: frozenset[TopicPartition]
    updated_ms: int
    begun_ms: int


def read_transactional_ids(
    cluster: Path, manifest: Mapping[str, Any]
) -> tuple[int, list[TransactionalId]] | None:
    """Return when the coordinators' logs were copied, and what they say.

    Args:
        cluster: the folder `cluster/` of a run.
        manifest: its replicas.json.

    Returns:
        When the copy was begun, on our clock, ns; and every transactional id. None if the logs of
        some broker were not copied, or cannot be read.
    """
    copied = manifest.get("transactions")
    if copied is None or copied["why"]:
        return None
    furthest: dict[str, tuple[tuple[int, int], Path]] = {}
    try:
        for log in sorted(cluster.glob("*/transactions*/*")):
            end = _end(log)
            if log.name not in furthest or end > furthest[log.name][0]:
                furthest[log.name] = (end, log)
        known: dict[str, TransactionalId] = {}
        for _, log in furthest.values():
            _read(log, known)
    except (*DAMAGE, UnicodeDecodeError):
        return None
    return int(copied["asked_ns"]), list(known.values())


def _batches(log: Path) -> list[tuple[Path, dict[str, Any]]]:
    return [
        (segment, row)
        for segment in sorted(log.glob("*.log"))
        for rows in read_headers(segment)
        for row in rows.to_pylist()
        # A log that was copied while it was written may end in half a batch.
        if row["problem"] is None and row["magic"] == _FORMAT
    ]


_FORMAT = 2


def _end(log: Path) -> tuple[int, int]:
    ends = [(row["leader_epoch"], row["last_offset"]) for _, row in _batches(log)]
    return max(ends, default=(-1, -1))


def _read(log: Path, known: dict[str, TransactionalId]) -> None:
    for segment, row in _batches(log):
        if row["is_control"]:
            continue
        batch = read_batch(str(segment), row["position"], row["size"])
        for record in records_in(batch):
            _apply(record, known)


def _apply(record: Record, known: dict[str, TransactionalId]) -> None:
    key = record.key or b""
    # Version 0 is the only one; other kinds of records may come (KIP-915).
    if len(key) < 2 * _SHORT.size or _SHORT.unpack_from(key)[0] != 0:
        return
    name = key[2 * _SHORT.size :].decode()
    if record.value is None:
        known.pop(name, None)
        return
    version, producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(record.value)
    fields = _Fields(record.value[_HEAD.size :], flexible=version >= _FLEXIBLE)
    partitions = fields.partitions()
    updated_ms, begun_ms = fields.times()
    known[name] = TransactionalId(
        name=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=STATES[state],
        partitions=partitions,
        updated_ms=updated_ms,
        begun_ms=begun_ms,
    )


class _Fields:
    """The fields behind the head of a value, read one after the other."""

    def __init__(self, content: bytes, *, flexible: bool) -> None:
        self._content = content
        self._flexible = flexible
        self._at = 0

    def partitions(self) -> frozenset[TopicPartition]:
        found = set()
        for _ in range(self._count(_INT)):
            topic = self._take(self._count(_SHORT)).decode()
            numbers = [self._number(_INT) for _ in range(self._count(_INT))]
            found |= {(topic, number) for number in numbers}
            self._skip_tags()
        return frozenset(found)

    def times(self) -> tuple[int, int]:
        updated_ms, begun_ms = _TIMES.unpack_from(self._content, self._at)
        return int(updated_ms), int(begun_ms)

    def _count(self, plain: Struct) -> int:
        """Return a length: compact ones are one more, and 0 if there is nothing; null is -1."""
        return max(0, self._varint() - 1 if self._flexible else self._number(plain))

    def _number(self, form: Struct) -> int:
        (number,) = form.unpack_from(self._content, self._at)
        self._at += form.size
        return int(number)

    def _varint(self) -> int:
        value, self._at = unsigned_varint(self._content, self._at)
        return value

    def _take(self, size: int) -> bytes:
        part = self._content[self._at : self._at + size]
        if len(part) < size:
            raise ValueError("a record that ends too early")
        self._at += size
        return part

    def _skip_tags(self) -> None:
        if self._flexible:
            for _ in range(self._varint()):
                self._varint()
                self._take(self._varint())
