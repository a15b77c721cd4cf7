"""The specification of a cluster, and the protocols of a running one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from harness.core.errors import UsageError
from harness.core.version import (
    FIRST_FEATURE_FLAGS,
    FIRST_KRAFT,
    FIRST_SCRAM_BY_ADMIN,
    FIRST_SCRAM_IN_KRAFT,
    FIRST_WITHOUT_ZOOKEEPER,
    numbers,
)

MAX_BROKERS = 9

_SET_BY_HARNESS = frozenset(
    {
        "process.roles",
        "node.id",
        "broker.id",
        "listeners",
        "advertised.listeners",
        "log.dirs",
        "log.dir",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "zookeeper.connect",
    }
)

Listener = Literal["all", "replication", "controller"]
"""Which traffic of a node: all, that between brokers, or that with the controllers.

In ZooKeeper mode the last is the sessions with ZooKeeper, and all that an extra controller hears
and says. A controller that is an ordinary broker commands the others by their replication
listener, as it did before KRaft: cut that, and its commands are cut too.
"""

Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
"""What a client's connection is: `security.protocol`, in lower case."""
Sasl = Literal["scram-sha-512", "scram-sha-256", "plain"]
"""How a client logs in: `sasl.mechanism`, in lower case."""

Metadata = Literal["kraft", "zookeeper"]
"""Where a cluster keeps its metadata."""

Direction = Literal["both", "forth", "back"]
"""The direction of packets on a link; from its first node to its second is "forth"."""
ClientDirection = Literal["both", "to_client", "to_broker"]
"""The direction of packets between a broker and clients outside the cluster."""


NodeKind = Literal["broker", "controller", "zookeeper"]
"""What a node is to users and faults: an isolated controller is no broker."""
FIRST_CONTROLLER = 101
"""Node id of the first isolated controller."""
FIRST_ZOOKEEPER = 201
ZOOKEEPER_PORT = 2181
_COMBINED_CONTROLLERS = 3


def voters(*, brokers: int, controllers: int) -> range:
    """Return the ids of the nodes that elect the controller of a KRaft cluster of ours.

    Args:
        brokers: how many there are.
        controllers: how many isolated controllers; 0: brokers are controllers too.
    """
    if controllers:
        return range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)
    # An even number of voters tolerates no more than the odd number below it.
    return range(1, 1 + (_COMBINED_CONTROLLERS if brokers >= _COMBINED_CONTROLLERS else 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A cluster to be started.

    Attributes:
        kafka: version of Apache Kafka, as on Maven Central.
        brokers: how many brokers, 1 to 9; node ids count from 1.
        controllers: isolated KRaft controllers, node ids from 101; 0 means that every broker
            (up to three of them) is a controller too, "combined" mode. In ZooKeeper mode: extra
            brokers that are started first, so that one of them is the controller, and that hold
            no replicas; 0 means that the broker who comes first is the controller.
        metadata: where the metadata is kept; None means KRaft from 3.3 on, ZooKeeper before.
        features: features that a KRaft log directory is formatted with, and their levels.
        heap_mib: heap of each JVM, MiB.
        config: broker properties beyond our own; each is read back from the running broker.
        tuned: start with the class-data archive and the flags for small machines.
        security: what clients speak to brokers of ours; brokers among themselves speak plaintext.
        sasl: how clients log in where `security` has it.
        client_config: a file of Kafka's security settings of clients, for a cluster that is not
            ours.
        image: a broker image to use instead of our own.
        compose: a Compose file of the user's to start instead of one of ours; `kafka` is then
            "unknown" until a broker tells, and `brokers` is how many the file has.
        bootstrap: `host:port,…` of brokers that run already, outside Docker; nothing is started,
            `kafka` is what the user says, and `brokers` is not known until they are asked.
    """

    kafka: str = "4.3.1"
    brokers: int = 3
    controllers: int = 0
    metadata: Metadata | None = None
    features: tuple[tuple[str, int], ...] = ()
    heap_mib: int = 256
    config: tuple[tuple[str, str], ...] = ()
    tuned: bool = True
    security: Security = "plaintext"
    sasl: Sasl = "scram-sha-512"
    client_config: str | None = None
    image: str | None = None
    compose: str | None = None
    bootstrap: str | None = None

    def __post_init__(self) -> None:
        """Reject a cluster that cannot be started.

        Raises:
            UsageError: naming the setting and its bounds.
        """
        if not 1 <= self.brokers <= MAX_BROKERS and self.bootstrap is None:
            raise UsageError(f"{self.brokers} brokers: choose 1 to {MAX_BROKERS}.")
        if self.controllers not in (0, 1, 3, 5) and self.is_ours:
            raise UsageError(f"{self.controllers} controllers: choose 0 (combined), 1, 3 or 5.")
        for key, value in self.config:
            if key in _SET_BY_HARNESS:
                raise UsageError(f"The broker property {key} is set by the harness: leave it out.")
            if "\n" in value:
                raise UsageError(f"The value of the broker property {key} holds a line break.")
        if self.heap_mib < 128:
            raise UsageError(f"A heap of {self.heap_mib} MiB is too small: at least 128.")
        if self.is_ours:
            self._reject_mode()

    def _reject_mode(self) -> None:
        version = numbers(self.kafka)
        if self.metadata not in (None, "kraft", "zookeeper"):
            raise UsageError(f"metadata={self.metadata!r} is none of kraft, zookeeper.")
        if self.metadata == "kraft" and version < FIRST_KRAFT:
            raise UsageError(f"Kafka {self.kafka} has no KRaft: it needs 3.3 or later.")
        if self.metadata == "zookeeper" and version >= FIRST_WITHOUT_ZOOKEEPER:
            raise UsageError(f"Kafka {self.kafka} has no ZooKeeper mode: 3.9 was the last.")
        if self.features and self.mode == "zookeeper":
            raise UsageError("Features are set when KRaft formats a disk: ZooKeeper mode has none.")
        if self.features and version < FIRST_FEATURE_FLAGS:
            raise UsageError(f"Kafka {self.kafka} formats without features: 3.9 or later can.")
        self._reject_security(version)
        for name, level in self.features:
            if not re.fullmatch(r"[a-z][a-z.]*", name) or level < 0:
                raise UsageError(f"{name}={level} is no feature: write one as metadata.version=20.")

    def _reject_security(self, version: tuple[int, ...]) -> None:
        if self.client_config is not None:
            raise UsageError(
                "Clients of a cluster of ours get in by files of its own: --client-config is for "
                "a cluster of your own, --compose or --bootstrap."
            )
        if not self.security.startswith("sasl") or self.sasl == "plain":
            return
        first = FIRST_SCRAM_IN_KRAFT if self.mode == "kraft" else FIRST_SCRAM_BY_ADMIN
        if version < first:
            raise UsageError(
                f"The admin client of Kafka {self.kafka} cannot make a SCRAM user "
                f"({'.'.join(map(str, first))} can): use --sasl plain."
            )

    @property
    def is_ours(self) -> bool:
        """Whether the brokers are of our making: neither a Compose file's nor outside Docker."""
        return self.compose is None and self.bootstrap is None

    @property
    def mode(self) -> Metadata:
        """Where the metadata is kept, the default resolved; a user's own cluster is KRaft."""
        if self.metadata is not None or not self.is_ours:
            return self.metadata or "kraft"
        return "kraft" if numbers(self.kafka) >= FIRST_KRAFT else "zookeeper"


@dataclass(frozen=True, slots=True)
class Broker:
    """One node of a running cluster: its id in Kafka and the name of its container.

    Outside Docker it has none, and `host:port` stands there.
    """

    node_id: int
    container: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """A broker's JVM as the kernel shows it.

    Attributes:
        pid: process id in the engine's root pid namespace.
        start_ticks: start time in clock ticks since boot: with the pid it names one process.
        state: the kernel's letter: R, S, D run; T is stopped; Z is dead.
    """

    pid: int
    start_ticks: int
    state: str


class Answer(StrEnum):
    """How a listener answered a probe."""

    ANSWERED = "answered"
    """It answered an ApiVersions request."""
    SILENT = "silent"
    """The connection was accepted, and then nothing came: a frozen process."""
    REFUSED = "refused"
    """The connection was reset: the host is there, the process is not."""
    UNREACHABLE = "unreachable"
    """Not even a refusal came back: the network swallows packets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLog:
    """What was cut from the end of one replica's log.

    Attributes:
        topic: topic name.
        partition: its number.
        recovery_point: the offset below which the broker had flushed everything, by its own
            checkpoint.
        end_before: log end offset before the cut.
        end_after: log end offset after it.
        bytes_cut: bytes of batches taken away; 0 if there was nothing beyond the recovery point.
    """

    topic: str
    partition: int
    recovery_point: int
    end_before: int
    end_after: int
    bytes_cut: int


LEASE_MARGIN_S = 30.0
"""How long a lease outlasts the fault that it is for, unless something else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to keep something broken for a while.

    Attributes:
        fault_id: the fault in `faults.jsonl`.
        hold_s: how long the fault is meant to last, seconds.
        limit_s: after so many seconds the agent heals it by itself.
    """

    fault_id: str
    hold_s: float
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic to be created.

    Attributes:
        name: topic name.
        partitions: how many.
        replication_factor: replicas of each partition.
        config: topic configuration; it is read back.
        assignment: replicas by node id for each partition, the preferred leader first; empty
            leaves the choice to Kafka.
    """

    name: str
    partitions: int
    replication_factor: int
    config: tuple[tuple[str, str], ...] = ()
    assignment: tuple[tuple[int, ...], ...] = field(default=())


class Nodes(Protocol):
    """The nodes of a running cluster, and what every fault needs of them.

    Everything that breaks something does so under a lease; see `Cluster.leased`.
    """

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers by node id, running or not."""

    @property
    def nodes(self) -> tuple[Broker, ...]:
        """All brokers, isolated controllers, and ZooKeeper where there is one."""

    def running(self) -> tuple[Broker, ...]:
        """Return the brokers whose process is there, frozen or not; outside Docker who answers."""

    def ending(self, running: Sequence[Broker]) -> tuple[Broker, ...]:
        """Return those of the running brokers that shut down, by what they wrote, and refuse.

        Before Kafka 0.11 a follower that gives up waits in its own shutdown for itself, for ever
        (KAFKA-4039).
        """

    @property
    def lease(self) -> Lease:
        """The lease that damage is done under.

        Raises:
            ClusterBroken: there is none, so nothing may be broken now.
        """

    def probe(
        self, pairs: Sequence[tuple[Broker, Broker]], *, timeout_s: float
    ) -> dict[tuple[int, int], Answer]:
        """Ask, from inside the first node's network, the second node's replication listener.

        Returns:
            For each pair of node ids, how the listener answered within `timeout_s` seconds.
        """

    def ask_agent(self, broker: Broker, verb: str, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Have the fault agent carry out a verb at a node, under the lease, and return its answer.

        For verbs that no other member of a cluster speaks of. The node's `container_pid` and the
        lease are added to the arguments; compose/agent/README.md tells of the verbs.

        Raises:
            ClusterBroken: the agent could not do it; the message is the agent's.
        """


class Processes(Nodes, Protocol):
    """The nodes' JVMs: asked of the kernel, and hit by signals."""

    def process_of(self, broker: Broker) -> ProcessState | None:
        """Return the node's JVM, or None if it has none."""

    def signal(self, broker: Broker, signal: str) -> None:
        """Send the JVM a signal by name, such as SIGKILL; the lease's end undoes it.

        After SIGSTOP the process is continued, after SIGKILL and SIGTERM it is started.
        """

    def start(self, broker: Broker) -> None:
        """Let the supervisor start the JVM if it is not running; returns before it is ready."""

    def hold_down(self, broker: Broker) -> None:
        """Tell the supervisor not to start the JVM again until `start`, or the lease's end."""

    def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
        """Return how each of the node's JVMs ended so far, oldest first; 128 + n: by signal n."""

    def is_shut_down_cleanly(self, broker: Broker) -> bool:
        """Return whether the broker left its marker of a clean shutdown in every log directory."""


class Links(Nodes, Protocol):
    """The links between nodes, and between brokers and clients."""

    def cut(
        self,
        pairs: Sequence[tuple[Broker, Broker]],
        *,
        listener: Listener,
        direction: Direction = "both",
        longer_than: int = 0,
    ) -> None:
        """Drop packets between the two nodes of each pair.

        Args:
            pairs: first and second node of each link.
            listener: which traffic.
            direction: which way.
            longer_than: only IP packets of more bytes, as the packet filter sees them; 0 for all.
        """

    def stall_fetches(self, pairs: Sequence[tuple[Broker, Broker]]) -> None:
        """Drop the fetch requests that the two brokers of each pair send each other.

        Where they are encrypted, nothing is dropped.
        """

    def cut_clients(self, brokers: Sequence[Broker], *, direction: ClientDirection) -> None:
        """Drop packets between each broker's client listener and everybody outside the cluster."""

    def mend(self) -> None:
        """Take away all cuts of links under this lease; harmless if there was nothing."""

    def dropped_packets(self) -> int:
        """Return how many packets the rules of this lease have swallowed."""

    def probe_from_outside(
        self, brokers: Sequence[Broker], *, timeout_s: float
    ) -> dict[int, Answer]:
        """Ask each broker's client listener from this machine, as a client would, by node id."""


class Disks(Nodes, Protocol):
    """The brokers' logs on disk."""

    def cut_tail(
        self,
        broker: Broker,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> tuple[CutLog, ...]:
        """Cut the ends of a dead broker's logs at batch boundaries; nothing brings them back.

        Args:
            broker: it must have no JVM.
            topic: only logs of this topic; None for all but the cluster's metadata.
            partition: only this partition of it.
            offset: cut at the first boundary at or above it; None for the recovery point.

        Raises:
            ClusterBroken: a JVM runs, there is no such log, or the offset lies below the recovery
                point: that would be corruption and no power cut.
        """

    def log_sizes(self, broker: Broker) -> dict[tuple[str, int], int]:
        """Return the bytes of all segments of each of the broker's logs, by topic and partition."""


class GarbageCollections(Nodes, Protocol):
    """The stop-the-world collections of the brokers' JVMs."""

    def collect_garbage(
        self, broker: Broker, *, duration_s: float, nodes: int = 0, pauses_s: float = 0.0
    ) -> None:
        """Make the JVM collect garbage back to back for so many seconds; returns at once.

        Args:
            broker: whose.
            duration_s: how long.
            pauses_s: it goes on until its pauses add up to this, three times as long at most, and
                no more than 18 s longer.
            nodes: length of the list that each collection must follow, 16 bytes of heap each, as
                far as three quarters of the free heap reach; 0 leaves it to the cluster.

        Raises:
            ClusterBroken: the JVM writes no GC log that is known, so nobody could see its pauses.
        """

    def end_collections(self, broker: Broker) -> None:
        """End what `collect_garbage` began under this lease; harmless if there was nothing."""

    def gc_pauses_s(self, broker: Broker) -> list[float]:
        """Return the stop-the-world pauses that the JVM has logged, in seconds.

        Only those since `collect_garbage` under this lease count; none if that was never called.
        """


class ClusterMetadata(Protocol):
    """What Kafka says of its topics and of its controller."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic, or no answer."""

    def leader_of(self, topic: str, partition: int) -> Broker | None:
        """Return the leader, or None while there is none.

        Raises:
            UsageError: the cluster has no such topic or partition.
        """

    def isr_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        """Return the in-sync replicas, the leader among them."""

    def replicas_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        """Return the assigned replicas, the preferred leader first."""

    def controller(self) -> Broker | None:
        """Return the active controller, or None if no node knows of one."""


class Cluster(Processes, Links, Disks, GarbageCollections, ClusterMetadata, Protocol):
    """A running cluster, as scenarios, targets and users see it.

    Metadata questions go to Kafka itself; questions about processes, links and disks go to the
    kernel, through the fault agent. A fault asks for the narrowest of the protocols above.
    """

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients on this machine."""

    def leased(self, lease: Lease) -> "Cluster":
        """Return this cluster with the right to break it until the lease ends."""
