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
from typing import Any

from verifiers.replicas.records import DAMAGE, Fields, Record, read_v2_batches

_TOPIC, _PARTITION, _CHANGE = 2, 3, 5
_FENCE, _UNFENCE, _REGISTRATION_CHANGE, _REGISTER = 7, 8, 17, 27
_NO_LEADER = -1
_LEADER_CHANGE = 2
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
    """

    topic: str
    partition: int
    at_ms: int
    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...]
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A node that became the active controller, or whose registration with that has changed.

    Attributes:
        at_ms: when, as of `Change`.
        node_id: which.
        state: "controller"; or of a registration "registered" (and fenced until it has caught up),
            "unfenced", "fenced", or "shutting down" in order.
        epoch: of the quorum.
    """

    at_ms: int
    node_id: int
    state: str
    epoch: int


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
    controllers: list[NodeChange] = field(default_factory=list)
    registrations: list[NodeChange] = field(default_factory=list)
    last_ms: int = 0
    end: tuple[int, int] = (-1, -1)


def read_metadata_logs(cluster: Path) -> dict[str, MetadataLog]:
    """Return the contents of every node's copy of the metadata log, by the node's service.

    There are none under ZooKeeper; those that cannot be read from their beginning are left out.
    `cluster` is the folder of this name in a run.
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
        for row, records in read_v2_batches(segments):
            epoch = row["leader_epoch"]
            for record in records:
                log.last_ms = max(log.last_ms, record.timestamp_ms)
                if row["is_control"]:
                    log.controllers += _elected(record, epoch)
                else:
                    _add(record, epoch, topics, states, log)
            log.end = (epoch, row["last_offset"])
    except (*DAMAGE, KeyError):
        return None
    return log


def _elected(record: Record, epoch: int) -> Iterator[NodeChange]:
    if record.key is None or record.value is None:
        return
    if _SHORTS.unpack_from(record.key)[1] == _LEADER_CHANGE:
        _, node_id = _LEADER_ID.unpack_from(record.value)
        yield NodeChange(
            at_ms=record.timestamp_ms, node_id=node_id, state="controller", epoch=epoch
        )


def _add(
    record: Record,
    epoch: int,
    topics: dict[bytes, str],
    states: dict[tuple[bytes, int], Change],
    log: MetadataLog,
) -> None:
    fields = Fields(record.value or b"")
    _, kind, version = fields.varint(), fields.varint(), fields.varint()
    if kind == _TOPIC:
        name = fields.text()
        topics[fields.take(_UUID_BYTES)] = name
    elif kind in (_PARTITION, _CHANGE):
        number, topic = fields.integer(), fields.take(_UUID_BYTES)
        state = (
            _partition(fields, version, topics[topic], number, record.timestamp_ms)
            if kind == _PARTITION
            else _changed(states[topic, number], fields.tagged(), record.timestamp_ms)
        )
        states[topic, number] = state
        log.changes.append(state)
    elif kind in (*_STATES, _REGISTRATION_CHANGE):
        node_id = fields.integer()
        log.registrations += [
            NodeChange(at_ms=record.timestamp_ms, node_id=node_id, state=state, epoch=epoch)
            for state in _states_of_broker(kind, fields)
        ]


_STATES = {_FENCE: "fenced", _UNFENCE: "unfenced", _REGISTER: "registered"}
_CHANGED_STATES = {b"\x01": "fenced", b"\xff": "unfenced"}


def _states_of_broker(kind: int, fields: Fields) -> list[str]:
    """Return what a record says of the broker whose id was read from it."""
    if kind in _STATES:
        return [_STATES[kind]]
    fields.take(_EPOCH_BYTES)
    tagged = fields.tagged()
    state = _CHANGED_STATES.get(tagged.get(_FENCED, b""))
    found = [] if state is None else [state]
    return found + (["shutting down"] if tagged.get(_SHUTTING_DOWN) == b"\x01" else [])


def _partition(fields: Fields, version: int, topic: str, number: int, at_ms: int) -> Change:
    replicas, isr, _, _ = (fields.integers() for _ in range(4))
    leader, leader_epoch, _ = (fields.integer() for _ in range(3))
    if version >= 1:
        fields.take(_UUID_BYTES * max(0, fields.varint() - 1))
    elr = fields.tagged().get(_PARTITION_ELR)
    return Change(
        topic=topic,
        partition=number,
        at_ms=at_ms,
        leader=None if leader == _NO_LEADER else leader,
        isr=isr,
        replicas=replicas,
        elr=Fields(elr).integers() if elr else (),
        leader_epoch=leader_epoch,
    )


_NODE_LISTS = {_ISR: "isr", _REPLICAS: "replicas", _CHANGE_ELR: "elr"}


def _changed(before: Change, tagged: Mapping[int, bytes], at_ms: int) -> Change:
    new: dict[str, Any] = {
        name: Fields(tagged[tag]).integers() for tag, name in _NODE_LISTS.items() if tag in tagged
    }
    if _LEADER in tagged:
        leader = Fields(tagged[_LEADER]).integer()
        new["leader"] = None if leader == _NO_LEADER else leader
        new["leader_epoch"] = before.leader_epoch + 1
    return replace(before, at_ms=at_ms, **new)
