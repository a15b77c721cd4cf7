"""What the transaction coordinators know of every transactional id, from their copied logs.

A record of `__transaction_state` is the whole state of one transactional id, named by its key: the
last record of an id counts. Which replica's log is read does not matter where all brokers' logs
were copied, so the one that reaches furthest is.

Source: TransactionLogKey.json and TransactionLogValue.json of the transaction coordinator; KIP-98,
and KIP-915 for version 1, whose lengths are compact and which has tagged fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Any

from harness.core.grouping import by_key
from verifiers.replicas.records import DAMAGE, Fields, Record, read_v2_batches
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
    copies_by_name = by_key(sorted(cluster.glob("*/transactions*/*")), attrgetter("name"))
    known: dict[str, TransactionalId] = {}
    try:
        for copies in copies_by_name.values():
            for row, records in read_v2_batches(sorted(max(copies, key=_end).glob("*.log"))):
                if not row["is_control"]:
                    for record in records:
                        _apply(record, known)
    except DAMAGE:
        return None
    return int(copied["asked_ns"]), list(known.values())


def _end(log: Path) -> tuple[int, int]:
    batches = read_v2_batches(log.glob("*.log"))
    return max(((row["leader_epoch"], row["last_offset"]) for row, _ in batches), default=(-1, -1))


def _apply(record: Record, known: dict[str, TransactionalId]) -> None:
    key = record.key or b""
    # Version 0 is the only one; other kinds of records may come (KIP-915).
    if len(key) < 2 * _SHORT.size or _SHORT.unpack_from(key)[0] != 0:
        return
    name = key[2 * _SHORT.size :].decode()
    if record.value is None:
        known.pop(name, None)
        return
    fields = Fields(record.value)
    version, producer_id, epoch, timeout_ms, state = fields.unpack(_HEAD)
    is_flexible = version >= _FLEXIBLE

    def count(plain: Struct) -> int:
        """Return a length: compact ones are one more, and 0 if there is nothing; null is -1."""
        return max(0, fields.varint() - 1 if is_flexible else fields.unpack(plain)[0])

    partitions: set[TopicPartition] = set()
    for _ in range(count(_INT)):
        topic = fields.take(count(_SHORT)).decode()
        partitions |= {(topic, fields.integer()) for _ in range(count(_INT))}
        if is_flexible:
            fields.tagged()
    updated_ms, begun_ms = fields.unpack(_TIMES)
    known[name] = TransactionalId(
        name=name,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=STATES[state],
        partitions=frozenset(partitions),
        updated_ms=updated_ms,
        begun_ms=begun_ms,
    )
