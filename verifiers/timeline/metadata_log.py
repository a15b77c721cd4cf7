"""The metadata log of a KRaft cluster: every change of a partition's leader and ISR, in order.

A record is a frame: its version, the kind of record and the kind's version, all unsigned varints,
then the fields. Of interest are topics (2), partitions (3) and their changes (5), and whether a
broker is fenced (7, 8, 17, 27); a change of the metadata's own leader, the active controller, is a
control record of type 2.

Source: metadata/src/main/resources/common/metadata/*.json of Kafka 2.8 to 4.3; KIP-500, KIP-595,
KIP-966 for the eligible leader replicas. PartitionRegistration.merge has the rule that a change
which names a leader, be it the same, begins a leader epoch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from struct import Struct

from verifiers.replicas.records import (
    DAMAGE,
    Record,
    read_batch,
    records_in,
    unsigned_varint,
)
from verifiers.replicas.segments import read_headers

_TOPIC, _PARTITION, _CHANGE = 2, 3, 5
_FENCE, _UNFENCE, _REGISTRATION_CHANGE, _REGISTER = 7, 8, 17, 27
_NO_LEADER = -1
_LEADER_CHANGE = 2
_INT = Struct(">i")
_SHORTS = Struct(">hh")
_LEADER_ID = Struct(">hi")
_UUID_BYTES = 16
_EPOCH_BYTES = 8
# Numbers of tagged fields: of the record of a partition, and of that of its change.
_PARTITION_ELR = 1
_ISR, _LEADER, _REPLICAS, _CHANGE_ELR = 0, 1, 2, 6
# Tagged fields of a change of a broker's registration: -1 ends what 1 began, 0 says nothing.
_FENCED, _SHUTTING_DOWN = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The state of a partition from one record on.

    Attributes:
        topic: its topic.
        partition: its number.
        at_ms: when the active controller appended the record, by its machine's clock, milliseconds
            since 1970; it was committed later.
        leader: node id; None if there is none.
        isr: node ids.
        replicas: node ids of all replicas, the preferred leader first.
        elr: the eligible leader replicas (KIP-966); empty where there are none.
        leader_epoch: how often the leadership was given.
        partition_epoch: how often anything changed.
    """

    topic: str
    partition: int
    at_ms: int
    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """The node that became the active controller, when, and in which epoch of the quorum."""

    at_ms: int
    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A change of a broker's registration with the active controller.

    Attributes:
        at_ms: when, as of `Change`.
        node_id: the broker.
        state: "registered" (and fenced until it has caught up), "unfenced", "fenced", or "shutting
            down" in order.
    """

    at_ms: int
    node_id: int
    state: str


@dataclass(slots=True, kw_only=True)
class MetadataLog:
    """The contents of a metadata log.

    Attributes:
        changes: of all partitions, in the order of the log.
        controllers: in that order too.
        registrations: in that order too.
        last_ms: when its last record was appended; 0 if it has none.
        end: leader epoch and offset of its last batch: of two logs the later one has all that is
            committed.
    """

    changes: list[Change] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    registrations: list[Registration] = field(default_factory=list)
    last_ms: int = 0
    end: tuple[int, int] = (-1, -1)


def read_metadata_logs(cluster: Path) -> dict[str, MetadataLog]:
    """Return the contents of every node's copy of the metadata log, by the node's service.

    Args:
        cluster: the folder `cluster/` of a run.

    Returns:
        None at all under ZooKeeper; those that cannot be read from their beginning are left out.
    """
    homes = sorted(cluster.glob("*/metadata"))
    return {home.parent.name: found for home in homes if (found := _read(home))}


def furthest(logs: Mapping[str, MetadataLog]) -> MetadataLog | None:
    """Return the log that reaches furthest, None if there is none."""
    return max(logs.values(), key=lambda log: log.end, default=None)


def _read(home: Path) -> MetadataLog | None:
    log = MetadataLog()
    topics: dict[bytes, str] = {}
    states: dict[tuple[bytes, int], Change] = {}
    segments = sorted(home.glob("**/*.log"))
    if not segments or int(segments[0].stem) != 0:
        # The beginning of the log was deleted, so changes cannot be applied to a state.
        return None
    try:
        for segment in segments:
            for position, size, is_control, epoch, last in _batches(segment):
                batch = read_batch(str(segment), position, size)
                for record in records_in(batch):
                    log.last_ms = max(log.last_ms, record.timestamp_ms)
                    if is_control:
                        _add_controller(record, epoch, log)
                    else:
                        _add(record, topics, states, log)
                log.end = (epoch, last)
    except (*DAMAGE, KeyError, UnicodeDecodeError):
        return None
    return log


def _batches(segment: Path) -> Iterator[tuple[int, int, bool, int, int]]:
    for rows in read_headers(segment):
        for row in rows.to_pylist():
            # A log that was copied while it was written may end in half a batch.
            if row["problem"] is None and row["magic"] == 2:
                yield (
                    row["position"], row["size"], row["is_control"], row["leader_epoch"],
                    row["last_offset"],
                )  # fmt: skip


def _add_controller(record: Record, epoch: int, log: MetadataLog) -> None:
    if record.key is None or record.value is None:
        return
    if _SHORTS.unpack_from(record.key)[1] == _LEADER_CHANGE:
        _, node_id = _LEADER_ID.unpack_from(record.value)
        log.controllers.append(Controller(at_ms=record.timestamp_ms, node_id=node_id, epoch=epoch))


def _add(
    record: Record,
    topics: dict[bytes, str],
    states: dict[tuple[bytes, int], Change],
    log: MetadataLog,
) -> None:
    fields = _Fields(record.value or b"")
    _, kind, version = fields.varint(), fields.varint(), fields.varint()
    if kind == _TOPIC:
        name = fields.text()
        topics[fields.uuid()] = name
    elif kind == _PARTITION:
        number, topic = fields.integer(), fields.uuid()
        state = _partition(fields, version, topics[topic], number, record.timestamp_ms)
        states[topic, number] = state
        log.changes.append(state)
    elif kind == _CHANGE:
        number, topic = fields.integer(), fields.uuid()
        state = _changed(states[topic, number], fields.tagged(), record.timestamp_ms)
        states[topic, number] = state
        log.changes.append(state)
    else:
        node_id = fields.integer() if kind in _REGISTRATIONS else 0
        log.registrations += [
            Registration(at_ms=record.timestamp_ms, node_id=node_id, state=state_of_broker)
            for state_of_broker in _states_of_broker(kind, fields)
        ]


_REGISTRATIONS = (_FENCE, _UNFENCE, _REGISTRATION_CHANGE, _REGISTER)


def _states_of_broker(kind: int, fields: "_Fields") -> list[str]:
    """Return what a record says of the broker whose id was read from it."""
    if kind != _REGISTRATION_CHANGE:
        return {_FENCE: ["fenced"], _UNFENCE: ["unfenced"], _REGISTER: ["registered"]}.get(kind, [])
    fields.skip(_EPOCH_BYTES)
    tagged = fields.tagged()
    states = {b"\x01": "fenced", b"\xff": "unfenced"}
    found = [states[tagged[_FENCED]]] if tagged.get(_FENCED) in states else []
    return found + (["shutting down"] if tagged.get(_SHUTTING_DOWN) == b"\x01" else [])


def _partition(fields: "_Fields", version: int, topic: str, number: int, at_ms: int) -> Change:
    replicas, isr, _, _ = (fields.integers() for _ in range(4))
    leader, leader_epoch, partition_epoch = (fields.integer() for _ in range(3))
    if version >= 1:
        fields.skip(_UUID_BYTES * max(0, fields.varint() - 1))
    elr = fields.tagged().get(_PARTITION_ELR)
    return Change(
        topic=topic,
        partition=number,
        at_ms=at_ms,
        leader=None if leader == _NO_LEADER else leader,
        isr=isr,
        replicas=replicas,
        elr=_Fields(elr).integers() if elr else (),
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


def _changed(before: Change, tagged: Mapping[int, bytes], at_ms: int) -> Change:
    state = replace(before, at_ms=at_ms, partition_epoch=before.partition_epoch + 1)
    if _ISR in tagged:
        state = replace(state, isr=_Fields(tagged[_ISR]).integers())
    if _REPLICAS in tagged:
        state = replace(state, replicas=_Fields(tagged[_REPLICAS]).integers())
    if _CHANGE_ELR in tagged:
        state = replace(state, elr=_Fields(tagged[_CHANGE_ELR]).integers())
    if _LEADER in tagged:
        leader = _Fields(tagged[_LEADER]).integer()
        state = replace(
            state,
            leader=None if leader == _NO_LEADER else leader,
            leader_epoch=before.leader_epoch + 1,
        )
    return state


class _Fields:
    """The fields of a record, read one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def varint(self) -> int:
        value, self._at = unsigned_varint(self._content, self._at)
        return value

    def integer(self) -> int:
        (value,) = _INT.unpack_from(self._content, self._at)
        self._at += _INT.size
        return int(value)

    def integers(self) -> tuple[int, ...]:
        """Return the numbers of a compact array; none if it is null."""
        return tuple(self.integer() for _ in range(self.varint() - 1))

    def uuid(self) -> bytes:
        return self._take(_UUID_BYTES)

    def text(self) -> str:
        return self._take(self.varint() - 1).decode()

    def skip(self, size: int) -> None:
        self._at += size

    def tagged(self) -> dict[int, bytes]:
        """Return the tagged fields by their numbers."""
        found = {}
        for _ in range(self.varint()):
            number = self.varint()
            found[number] = self._take(self.varint())
        return found

    def _take(self, size: int) -> bytes:
        part = self._content[self._at : self._at + size]
        if size < 0 or len(part) < size:
            raise ValueError("a record that ends too early")
        self._at += size
        return part
