"""A running cluster as Kafka itself tells of it, wherever its brokers are."""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from harness.cluster.admin import Admin
from harness.cluster.broker_metadata import BrokerMetadata
from harness.cluster.broker_socket import Address
from harness.cluster.links import knock
from harness.cluster.metadata import MetadataSource, Shortfall, Watermark
from harness.cluster.zookeeper import ZooKeeper
from harness.core.access import Access
from harness.core.cluster import Answer, Broker, ClusterSpec, Lease, TopicSpec
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.run_dir import Journal, canonical_json, write_atomically
from harness.core.version import numbers
from harness.core.view import Partition, PartitionState
from harness.core.wait import wait_until

_ONE_ANSWER_S = 3.0
_UNKNOWN_VERSION = (999,)
_VAIN = "in vain"


class KafkaCluster(ABC):
    """What is asked of Kafka, and needs nobody else; see `harness.core.cluster.Cluster`.

    Attributes:
        spec: what was asked for.
        access: how clients on this machine get in.
        admin: the administration client.
        zookeeper: a client of its ZooKeeper, where it has one that we reach.
        timing_s: how long the steps of its start and its end took, seconds.

    Args:
        spec: what was asked for.
        folder: of the run.
        access: how clients on this machine get in.
        admin_access: how the administration client gets in.
        zookeeper: a client of its ZooKeeper, where it has one that we reach.
        place_on: the only brokers that replicas may be placed on; empty leaves it to Kafka.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        folder: Path,
        *,
        access: Access,
        admin_access: Access,
        zookeeper: ZooKeeper | None = None,
        place_on: Sequence[int] = (),
    ) -> None:
        self.spec = spec
        self.access = access
        self.zookeeper = zookeeper
        self.admin = Admin(admin_access, kafka=spec.kafka, zookeeper=zookeeper, place_on=place_on)
        self.timing_s: dict[str, float] = {}
        self._folder = folder
        self._admin_access = admin_access
        # Who asks many times a second reads no file each time.
        self._admin_security = admin_access.security()
        self._source: MetadataSource = zookeeper or self.admin
        # The effective configuration of each broker, by node id.
        self._settings: dict[int, Mapping[str, str]] = {}
        self._watermarks: Admin | None = None
        self._seen: Callable[[], Mapping[Partition, PartitionState]] = dict
        self._lease: Lease | None = None

    # -- who is in it ----------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients on this machine."""
        return self.access.bootstrap

    @property
    @abstractmethod
    def nodes(self) -> tuple[Broker, ...]:
        """All brokers, isolated controllers, and ZooKeeper where there is one."""

    @property
    @abstractmethod
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers by node id, running or not."""

    @abstractmethod
    def address_of(self, broker: Broker) -> Address | None:
        """Return where a broker listens for clients on this machine; None: not known."""

    @abstractmethod
    def _folder_of(self, broker: Broker) -> Path:
        """Return the folder of a node in the run folder; it is there."""

    def _broker(self, node_id: int) -> Broker:
        """Return a node by its id.

        Raises:
            ClusterBroken: Kafka names one that is not ours.
        """
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise ClusterBroken(unknown_node(node_id))

    # -- what Kafka says ---------------------------------------------------------------------------

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic, or no answer."""
        seen = sum(place[0] == topic for place in self._seen())
        return seen or len(self._source.partitions(topic))

    def leader_of(self, topic: str, partition: int) -> Broker | None:
        """Return the leader, or None while there is none."""
        state = self._partition(topic, partition)
        return self._broker(state.leader) if state and state.leader is not None else None

    def isr_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        """Return the in-sync replicas."""
        state = self._partition(topic, partition)
        return tuple(self._broker(node_id) for node_id in state.isr) if state else ()

    def replicas_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        """Return the assigned replicas, the preferred leader first."""
        state = self._partition(topic, partition)
        return tuple(self._broker(node_id) for node_id in state.replicas) if state else ()

    def leader_known_by(self, broker: Broker, topic: str, partition: int) -> Broker | None:
        """Return the leader that one broker's own metadata names; None if it names none."""
        with closing(self.metadata_of(broker, timeout_s=_ONE_ANSWER_S)) as metadata:
            state = (metadata.partitions() or {}).get((topic, partition))
        return self._broker(state.leader) if state and state.leader is not None else None

    def metadata_of(self, broker: Broker, *, timeout_s: float) -> BrokerMetadata:
        """Return a connection to one broker that tells its own metadata.

        Args:
            broker: who is asked.
            timeout_s: for each answer.
        """
        version = numbers(self.spec.kafka) or _UNKNOWN_VERSION
        return BrokerMetadata(
            self.address_of(broker), version, timeout_s=timeout_s, security=self._admin_security
        )

    def metadata(self) -> MetadataSource:
        """Return a source of metadata for as long as the cluster is there.

        A question that hangs in it does not hold up those that are asked elsewhere.
        """
        return self.zookeeper or Admin(self._admin_access)

    @contextmanager
    def watched(self, seen: Callable[[], Mapping[Partition, PartitionState]]) -> Iterator[None]:
        """Believe somebody who looks at the cluster all the time, instead of asking it.

        A question to librdkafka takes a tenth of a second, and seconds while the broker that it
        asks is gone: too long where a fault is to follow an election.

        Args:
            seen: returns what was seen last of each partition.
        """
        self._seen = seen
        try:
            yield
        finally:
            self._seen = dict

    def _partition(self, topic: str, partition: int) -> PartitionState | None:
        if (seen := self._seen().get((topic, partition))) is not None:
            return seen
        states = self._source.partitions(topic)
        if states and (topic, partition) not in states:
            raise UsageError(f"The cluster has no partition {partition} of topic {topic!r}.")
        return states.get((topic, partition))

    def registered(self, *, timeout_s: float = 3.0) -> frozenset[int]:
        """Return the ids of the brokers that are registered; empty if nobody can be asked."""
        return frozenset(self._source.broker_ids(timeout_s=timeout_s))

    def has_full_isr(self, topics: Sequence[str], *, without: Collection[int] = ()) -> bool:
        """Return whether every broker is registered and every ISR of the topics is full.

        Args:
            topics: whose partitions count.
            without: node ids of brokers that are not waited for.
        """
        return self.shortfall(topics, without=without).is_whole

    def shortfall(self, topics: Sequence[str], *, without: Collection[int] = ()) -> Shortfall:
        """Return which brokers are not registered, and which ISRs of the topics are not full.

        Args:
            topics: whose partitions count.
            without: node ids of brokers that are not waited for.
        """
        wanted = {broker.node_id for broker in self.brokers} - set(without)
        registered = self.registered()
        states = {k: s for k, s in self._source.partitions().items() if k[0] in topics}
        return Shortfall(
            answered=bool(registered) and bool(states),
            unregistered=tuple(sorted(wanted - registered)) if registered else (),
            partitions={
                partition: state
                for partition, state in states.items()
                if state.leader is None or not set(state.isr) >= set(state.replicas) - set(without)
            },
        )

    def await_full_isr(
        self,
        topics: Sequence[str],
        *,
        timeout_s: float,
        without: Collection[int] = (),
        is_vain: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait until every broker is registered and every ISR of the topics is full.

        Args:
            topics: whose partitions count.
            timeout_s: the limit in seconds.
            without: node ids of brokers that are not waited for.
            is_vain: tells whether to wait on is in vain.

        Raises:
            WaitTimeout: they were not.
        """
        what = f"full in-sync replicas of {', '.join(topics)}"
        is_full = wait_until(
            lambda: self.has_full_isr(topics, without=without) or (is_vain() and _VAIN),
            timeout_s=timeout_s,
            what=what,
        )
        if is_full is _VAIN:
            raise WaitTimeout(f"Waited in vain for {what}.")

    def high_watermarks(
        self, partitions: Sequence[tuple[str, int]], *, timeout_s: float = 3.0
    ) -> Mapping[tuple[str, int], Watermark]:
        """Return the high watermarks that leaders tell in time; those that do not are left out."""
        if self._watermarks is None:
            # A client of its own: a question that hangs in it holds up nobody else's.
            self._watermarks = Admin(self._admin_access)
        return self._watermarks.high_watermarks(partitions, timeout_s=timeout_s)

    def probe_from_outside(
        self, brokers: Sequence[Broker], *, timeout_s: float
    ) -> dict[int, Answer]:
        """Ask each broker's client listener from this machine, as a client would."""
        addresses = {broker.node_id: self.address_of(broker) for broker in brokers}
        return knock(addresses, timeout_s=timeout_s, security=self._admin_security)

    # -- what Kafka is told ------------------------------------------------------------------------

    def create_topic(self, topic: TopicSpec) -> None:
        """Create a topic and read its configuration back, as `Admin.create_topic` does."""
        self.admin.create_topic(topic)

    def alter_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic, keep its others, and read them back.

        Raises:
            UsageError: Kafka calls a setting invalid.
            ClusterBroken: it did not take effect.
        """
        # What is asked for may be in force before we are told so: it is noted beforehand.
        line = {"time_ns": time.monotonic_ns(), "topic": topic, "settings": dict(settings)}
        journal = Journal(self._folder / "settings.jsonl")
        try:
            journal.append(line)
        finally:
            journal.close()
        self.admin.alter_topic_config(topic, settings)

    # -- what is broken, always under a lease ------------------------------------------------------

    @property
    def lease(self) -> Lease:
        """The lease that damage is done under."""
        if self._lease is None:
            raise ClusterBroken("Nothing may be broken without a lease: use cluster.leased(…).")
        return self._lease

    def leased(self, lease: Lease) -> Self:
        """Return this cluster with the right to break it until the lease ends."""
        twin = copy.copy(self)
        twin._lease = lease
        return twin

    # -- the folder of the run ---------------------------------------------------------------------

    def keep_settings(self, broker: Broker, settings: Mapping[str, str]) -> None:
        """Remember a broker's effective configuration, and write it into the run folder."""
        self._settings[broker.node_id] = settings
        write_atomically(self._folder_of(broker) / "effective.json", canonical_json(dict(settings)))


def unknown_node(node_id: int) -> str:
    """Return what is wrong with a broker that no service is known to run."""
    return (
        f"Broker {node_id} belongs to the cluster, but no service of its Compose file is known as "
        f'broker {node_id}: label every broker\'s service kafka-chaos.broker: "<node id>".'
    )
