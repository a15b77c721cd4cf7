"""What a cluster shows of itself at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition as the metadata shows it; node ids, and no leader is None.

    Attributes:
        leader: who leads.
        isr: the in-sync replicas.
        replicas: the assigned replicas, the preferred leader first.
        leader_epoch: how often the leadership was given anew; None where the source does not
            tell: brokers know it, librdkafka does not hand it on.
        version: counts the changes of this state; None where the source does not. Two answers with
            one version prove that nothing changed between them.
    """

    leader: int | None
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    leader_epoch: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedEnd:
    """How far a partition is committed, as its leader tells it.

    Attributes:
        offset: the high watermark.
        rested_s: for how long it had not moved when it was seen last, seconds.
    """

    offset: int
    rested_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A cluster at one moment, as far as anybody asked.

    Attributes:
        partitions: leader and ISR of each partition that is known.
        answering: node ids of the brokers that answer clients.
        controller: node id of the active controller; None if nobody asked, or none is known.
        committed: how far partitions are committed.
        group_states: of consumer groups, as Kafka names them, by group.
        prepared: how many transactions have been prepared so far.
        healed: how many faults of the run have been taken back so far.
    """

    partitions: Mapping[Partition, PartitionState] = field(default_factory=dict)
    answering: frozenset[int] = frozenset()
    controller: int | None = None
    committed: Mapping[Partition, CommittedEnd] = field(default_factory=dict)
    group_states: Mapping[str, str] = field(default_factory=dict)
    prepared: int = 0
    healed: int = 0
