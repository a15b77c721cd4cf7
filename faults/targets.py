"""Who is hit. Every target is asked at inject time: leaders move."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from faults.events import (
    ControllerElected,
    CoordinatorElected,
    LeaderElected,
    TransactionCoordinatorElected,
)
from harness.core.cluster import Broker, ClusterMetadata, Nodes, Processes
from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, coordinating_partition
from harness.core.errors import UsageError
from harness.core.event import Event
from harness.core.fault import TargetTraits, target


@target("leader_of")
@dataclass(frozen=True, slots=True)
class LeaderOf:
    """The leader of one partition at inject time."""

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the leader; nobody while there is none."""
        leader = cluster.leader_of(self.topic, self.partition)
        return (leader,) if leader else ()

    def election(self) -> Event:
        """Return the election of the next leader."""
        return LeaderElected(self.topic, self.partition)


@target("follower_of")
@dataclass(frozen=True, slots=True)
class FollowerOf:
    """One in-sync follower of one partition, drawn at inject time."""

    traits: ClassVar[TargetTraits] = TargetTraits(needs_followers=1)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return one in-sync replica that is not the leader; nobody if there is none."""
        _, followers = _leader_and_followers(cluster, self.topic, self.partition)
        return (_draw(followers, random),) if followers else ()


@target("out_of_sync")
@dataclass(frozen=True, slots=True)
class OutOfSync:
    """One replica of a partition that is not in sync, drawn; an in-sync follower if all are."""

    traits: ClassVar[TargetTraits] = TargetTraits(needs_followers=1)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return one replica that does not lead; nobody if there is none."""
        leader = cluster.leader_of(self.topic, self.partition)
        isr = cluster.isr_of(self.topic, self.partition)
        others = [b for b in cluster.replicas_of(self.topic, self.partition) if b != leader]
        chosen = [b for b in others if b not in isr] or others
        return (_draw(chosen, random),) if chosen else ()


@target("leader_and_follower")
@dataclass(frozen=True, slots=True)
class LeaderAndFollower:
    """The leader of one partition and one in-sync follower of it: the two ends of a link."""

    traits: ClassVar[TargetTraits] = TargetTraits(hits_pairs=True, needs_followers=1)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return the leader, then the follower, drawn; nobody unless there are both."""
        leader = LeaderOf(self.topic, self.partition).choose(cluster, random)
        follower = FollowerOf(self.topic, self.partition).choose(cluster, random)
        return (*leader, *follower) if leader and follower else ()


@target("two_followers")
@dataclass(frozen=True, slots=True)
class TwoFollowers:
    """Two in-sync followers of one partition, drawn: one of them may follow the other next."""

    traits: ClassVar[TargetTraits] = TargetTraits(hits_pairs=True, needs_followers=2)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return both; nobody while there are not so many."""
        leader, followers = _leader_and_followers(cluster, self.topic, self.partition)
        return _draw_many(followers, 2, random) if leader and len(followers) >= 2 else ()


@target("controller")
@dataclass(frozen=True, slots=True)
class Controller:
    """The active controller: of a combined cluster it is one of the brokers."""

    traits: ClassVar[TargetTraits] = TargetTraits(hits_controllers=True, needs_container=True)

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the active controller; nobody while none is elected."""
        active = cluster.controller()
        return (active,) if active else ()

    def election(self) -> Event:
        """Return the election of the next controller."""
        return ControllerElected()


@target("coordinator_of")
@dataclass(frozen=True, slots=True)
class CoordinatorOf:
    """The broker that coordinates a consumer group: the run's own, if no group is named."""

    group: str | None = None

    @property
    def traits(self) -> TargetTraits:
        """What a target of the run's own group needs."""
        return TargetTraits(needs_group=self.group is None)

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the leader of the group's partition of __consumer_offsets; nobody while none is.

        Raises:
            UsageError: no group is named, and no run gave its own.
        """
        if self.group is None:
            raise UsageError("coordinator_of names no group: write coordinator_of(group=…).")
        return _coordinator(cluster, OFFSETS_TOPIC, self.group)

    def election(self) -> Event:
        """Return the election of the next coordinator."""
        return CoordinatorElected(self.group)


@target("transaction_coordinator_of")
@dataclass(frozen=True, slots=True)
class TransactionCoordinatorOf:
    """The broker that coordinates a transactional id: the run's first, if no id is named."""

    transactional_id: str | None = None

    @property
    def traits(self) -> TargetTraits:
        """What a target of the run's own transactions needs."""
        return TargetTraits(needs_transactions=self.transactional_id is None)

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the leader of the id's partition of __transaction_state; nobody while none is.

        Raises:
            UsageError: no id is named, and no run gave its own.
        """
        if self.transactional_id is None:
            raise UsageError(
                "transaction_coordinator_of names no transactional id: write "
                "transaction_coordinator_of(transactional_id=…)."
            )
        return _coordinator(cluster, TRANSACTIONS_TOPIC, self.transactional_id)

    def election(self) -> Event:
        """Return the election of the next coordinator."""
        return TransactionCoordinatorElected(self.transactional_id)


@target("random")
@dataclass(frozen=True, slots=True)
class RandomBroker:
    """Any broker whose process is alive."""

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:
        """Return one running broker, drawn at inject time."""
        running = cluster.running()
        return (_draw(running, random),) if running else ()


@target("id")
@dataclass(frozen=True, slots=True)
class BrokerOfId:
    """The broker with this id, whatever it does."""

    node_id: int

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the broker.

        Raises:
            UsageError: the cluster has no broker of that id.
        """
        known = {broker.node_id: broker for broker in cluster.brokers}
        if self.node_id not in known:
            raise UsageError(f"There is no broker {self.node_id}: the ids are {sorted(known)}.")
        return (known[self.node_id],)


@target("last_restarted")
@dataclass(frozen=True, slots=True)
class LastRestarted:
    """The running broker whose process is the youngest, by the kernel's word."""

    traits: ClassVar[TargetTraits] = TargetTraits(needs_container=True)

    def choose(self, cluster: Processes, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return the broker that was started last; nobody while none runs."""
        started = {
            broker: process.start_ticks
            for broker in cluster.brokers
            if (process := cluster.process_of(broker)) is not None
        }
        return (max(started, key=lambda broker: started[broker]),) if started else ()


@target("isr_down_to")
@dataclass(frozen=True, slots=True)
class IsrDownTo:
    """So many in-sync followers of one partition that its ISR is left with `replicas`.

    The leader stays.
    """

    traits: ClassVar[TargetTraits] = TargetTraits(needs_followers=1)

    replicas: int
    topic: str
    partition: int = 0

    def __post_init__(self) -> None:
        """Reject an ISR without its leader.

        Raises:
            UsageError: fewer than one replica would be left.
        """
        if self.replicas < 1:
            raise UsageError(
                f"An ISR cannot be brought down to {self.replicas}: its leader stays, so choose "
                "1 or more."
            )

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return in-sync followers, drawn; nobody while the ISR is not larger."""
        leader, followers = _leader_and_followers(cluster, self.topic, self.partition)
        surplus = len(followers) + 1 - self.replicas
        return _draw_many(followers, surplus, random) if leader and surplus > 0 else ()


@target("minority")
@dataclass(frozen=True, slots=True)
class Minority:
    """As many brokers as a majority can do without, drawn: 1 of 3, 2 of 5."""

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:
        """Return fewer than half of the brokers; nobody of two or one."""
        return _draw_many(cluster.brokers, (len(cluster.brokers) - 1) // 2, random)


@target("majority")
@dataclass(frozen=True, slots=True)
class Majority:
    """As few brokers as are more than half of all, drawn: 2 of 3, 3 of 5.

    Not for experiments in which the cluster is to stay available.
    """

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:
        """Return more than half of the brokers."""
        return _draw_many(cluster.brokers, len(cluster.brokers) // 2 + 1, random)


@target("all")
@dataclass(frozen=True, slots=True)
class AllBrokers:
    """Every broker at once. Not for experiments that need a majority."""

    traits: ClassVar[TargetTraits] = TargetTraits(hits_all=True)

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002 (all are asked alike)
        """Return every broker."""
        return cluster.brokers


def _leader_and_followers(
    cluster: ClusterMetadata, topic: str, partition: int
) -> tuple[Broker | None, list[Broker]]:
    """Return who leads a partition, and who else is in sync."""
    leader = cluster.leader_of(topic, partition)
    return leader, [broker for broker in cluster.isr_of(topic, partition) if broker != leader]


def _coordinator(cluster: ClusterMetadata, topic: str, name: str) -> tuple[Broker, ...]:
    """Return the leader of the partition of an internal topic that a name belongs to."""
    partitions = cluster.partition_count(topic)
    if not partitions:
        # Kafka creates the topic at the first request that needs it.
        return ()
    leader = cluster.leader_of(topic, coordinating_partition(name, partitions))
    return (leader,) if leader else ()


def _draw(brokers: Sequence[Broker], random: Random) -> Broker:
    return random.choice(_sorted(brokers))


def _draw_many(brokers: Sequence[Broker], count: int, random: Random) -> tuple[Broker, ...]:
    return tuple(_sorted(random.sample(_sorted(brokers), count)))


def _sorted(brokers: Sequence[Broker]) -> list[Broker]:
    # A draw depends on the seed, and not on the order of a metadata answer.
    return sorted(brokers, key=lambda broker: broker.node_id)
