"""What a cluster's metadata says, whoever is asked: a broker, or ZooKeeper."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from harness.core.view import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A high watermark, as the leader has told it.

    Attributes:
        asked_ns: when it was asked, on our monotonic clock.
        answered_ns: when the answer was there: it held at some moment between the two.
        offset: the high watermark.
        leader_epoch: under which the leader led that told it; None before Kafka 2.1.
    """

    asked_ns: int
    answered_ns: int
    offset: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnd:
    """Where one replica ends, by its broker's files.

    Attributes:
        node_id: of the broker.
        topic: topic name.
        partition: its number.
        log_end: its log end offset.
        high_watermark: as the broker has checkpointed it, every five seconds; None if it has not.
    """

    node_id: int
    topic: str
    partition: int
    log_end: int
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What keeps a cluster from being whole: brokers that are missing, and ISRs that are not full.

    Attributes:
        answered: whether anybody could be asked; if not, the rest is empty.
        unregistered: brokers that should be registered and are not, by node id.
        partitions: the state of each partition that has no leader, or whose ISR lacks a replica.
    """

    answered: bool
    unregistered: tuple[int, ...]
    partitions: Mapping[tuple[str, int], PartitionState]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.answered and not self.unregistered and not self.partitions


class MetadataSource(Protocol):
    """Who can be asked about brokers and partitions."""

    def broker_ids(self, *, timeout_s: float = 3.0) -> set[int]:
        """Return the ids of the registered brokers; empty if nobody answers."""

    def partitions(
        self, topic: str | None = None, *, timeout_s: float = 3.0
    ) -> dict[tuple[str, int], PartitionState]:
        """Return the state of every partition, of one topic or of all; empty if nobody answers."""
