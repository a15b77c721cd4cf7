"""Who is hit. Every target is asked at inject time: leaders move."""

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from harness.core.cluster import Broker, ClusterMetadata, Nodes, Processes
from harness.core.fault import TargetTraits, target


@target("leader_of")
@dataclass(frozen=True, slots=True)
class LeaderOf:
    """The leader of one partition at inject time."""

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002
        """Return the leader; nobody while there is none."""
        leader = cluster.leader_of(self.topic, self.partition)
        return (leader,) if leader else ()


@target("follower_of")
@dataclass(frozen=True, slots=True)
class FollowerOf:
    """One in-sync follower of one partition, drawn at inject time."""

    traits: ClassVar[TargetTraits] = TargetTraits(needs_follower=True)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return one in-sync replica that is not the leader; nobody if there is none."""
        leader = cluster.leader_of(self.topic, self.partition)
        followers = [b for b in cluster.isr_of(self.topic, self.partition) if b != leader]
        return (_draw(followers, random),) if followers else ()


@target("leader_and_follower")
@dataclass(frozen=True, slots=True)
class LeaderAndFollower:
    """The leader of one partition and one in-sync follower of it: the two ends of a link."""

    traits: ClassVar[TargetTraits] = TargetTraits(hits_pairs=True, needs_follower=True)

    topic: str
    partition: int = 0

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:
        """Return the leader, then the follower, drawn; nobody unless there are both."""
        leader = LeaderOf(self.topic, self.partition).choose(cluster, random)
        follower = FollowerOf(self.topic, self.partition).choose(cluster, random)
        return (*leader, *follower) if leader and follower else ()


@target("controller")
@dataclass(frozen=True, slots=True)
class Controller:
    """The active controller: of a combined cluster it is one of the brokers."""

    def choose(self, cluster: ClusterMetadata, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002
        """Return the active controller; nobody while none is elected."""
        active = cluster.controller()
        return (active,) if active else ()


@target("random")
@dataclass(frozen=True, slots=True)
class RandomBroker:
    """Any broker whose process is alive."""

    def choose(self, cluster: Processes, random: Random) -> tuple[Broker, ...]:
        """Return one running broker, drawn at inject time."""
        running = [b for b in cluster.brokers if cluster.process_of(b) is not None]
        return (_draw(running, random),) if running else ()


@target("all")
@dataclass(frozen=True, slots=True)
class AllBrokers:
    """Every broker at once. Not for experiments that need a majority."""

    def choose(self, cluster: Nodes, random: Random) -> tuple[Broker, ...]:  # noqa: ARG002
        """Return every broker."""
        return cluster.brokers


def _draw(brokers: list[Broker], random: Random) -> Broker:
    # Sorted, so that the draw depends on the seed and not on the order of a metadata answer.
    return random.choice(sorted(brokers, key=lambda broker: broker.node_id))
