"""What can be asked of a running cluster: Kafka, the kernel, the nodes' disks; changes nothing."""

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness.cluster.admin import Admin
from harness.cluster.agent import Agent
from harness.cluster.containers import Place
from harness.cluster.disks import effective_settings, log_dirs_of
from harness.cluster.logs import ClusterLogs
from harness.cluster.metadata import MetadataSource, PartitionState, ReplicaEnd, Watermark
from harness.cluster.topology import Node, Topology
from harness.cluster.zookeeper import ZooKeeper
from harness.core.cluster import (
    Answer,
    Broker,
    ClusterSpec,
    ProcessState,
)
from harness.core.errors import ClusterBroken, UsageError
from harness.core.wait import wait_until

log = logging.getLogger(__name__)


class ClusterView:
    """The questions to a cluster of containers; see `harness.core.cluster.Cluster`.

    Args:
        spec: what was asked for.
        topology: what it became.
        folder: of the run; its nodes' settings and logs go there.
    """

    _agent: Agent
    _logs: ClusterLogs

    def __init__(self, spec: ClusterSpec, topology: Topology, folder: Path) -> None:
        self._spec = spec
        self._topology = topology
        self._folder = folder
        self._places: dict[int, Place] = {}
        keeper = topology.zookeeper
        self._zookeeper = ZooKeeper(f"127.0.0.1:{keeper.port}") if keeper else None
        has_extra = any(node.kind == "controller" for node in topology.nodes)
        self._admin = Admin(
            topology.bootstrap,
            kafka=spec.kafka,
            zookeeper=self._zookeeper,
            # Kafka itself would place replicas on the extra controllers too.
            place_on=[b.node_id for b in self.brokers] if keeper and has_extra else (),
        )
        self._source: MetadataSource = self._zookeeper or self._admin
        self._watermarks: Admin | None = None

    # -- what it is ------------------------------------------------------------------------------

    @property
    def spec(self) -> ClusterSpec:
        """What was asked for."""
        return self._spec

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients on this machine."""
        return self._topology.bootstrap

    @property
    def nodes(self) -> tuple[Broker, ...]:
        """All brokers, isolated controllers, and ZooKeeper where there is one."""
        return tuple(Broker(node.node_id, node.container) for node in self._topology.nodes)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers by node id, running or not."""
        return tuple(
            Broker(node.node_id, node.container)
            for node in self._topology.nodes
            if node.kind == "broker"
        )

    @property
    def agent(self) -> Agent:
        """The fault agent."""
        return self._agent

    @property
    def admin(self) -> Admin:
        """The administration client."""
        return self._admin

    # -- what Kafka says ---------------------------------------------------------------------------

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
        port = self._node(broker).port
        # A client that knows no other broker yet can only ask this one.
        state = Admin(f"127.0.0.1:{port}").partitions(topic).get((topic, partition))
        return self._broker(state.leader) if state and state.leader is not None else None

    def _partition(self, topic: str, partition: int) -> PartitionState | None:
        seen = self._source.partitions(topic)
        if seen and (topic, partition) not in seen:
            raise UsageError(f"The cluster has no partition {partition} of topic {topic!r}.")
        return seen.get((topic, partition))

    def _broker(self, node_id: int) -> Broker:
        return next(node for node in self.nodes if node.node_id == node_id)

    def _pid(self, node: Broker | Node) -> int:
        return self._places[node.node_id].pid

    def _node(self, broker: Broker) -> Node:
        return next(node for node in self._topology.nodes if node.node_id == broker.node_id)

    def metadata(self) -> MetadataSource:
        """Return a source of metadata for as long as the cluster is there.

        A question that hangs in it does not hold up those that are asked elsewhere.
        """
        return self._zookeeper or Admin(self._topology.bootstrap)

    def controller(self) -> Broker | None:
        """Return the active controller, by its znode or by the votes on the nodes' disks.

        In ZooKeeper mode the znode says. Under KRaft metadata cannot be asked: every broker
        names a random one. Each voter's `quorum-state` names the leader that it knows, and in
        which epoch; the highest epoch wins.
        """
        if self._zookeeper:
            active = self._zookeeper.controller_id()
            return None if active is None else self._broker(active)
        best: tuple[int, int] = (-1, -1)
        for node in self._topology.nodes:
            if node.data is None:
                continue
            path = f"{node.data}/__cluster_metadata-0/quorum-state"
            text, _ = self._agent.read(self._pid(node), path)
            epoch = re.search(rb'"leaderEpoch":(\d+)', text)
            leader = re.search(rb'"leaderId":(-?\d+)', text)
            if epoch and leader:
                best = max(best, (int(epoch[1]), int(leader[1])))
        return self._broker(best[1]) if best[1] >= 0 else None

    def registered(self) -> frozenset[int]:
        """Return the ids of the brokers that are registered; empty if nobody can be asked."""
        return frozenset(self._source.broker_ids())

    def has_full_isr(self, topics: Sequence[str], *, without: Collection[int] = ()) -> bool:
        """Return whether every broker is registered and every ISR of the topics is full.

        Args:
            topics: whose partitions count.
            without: node ids of brokers that are not waited for.
        """
        wanted = {broker.node_id for broker in self.brokers} - set(without)
        if not self._source.broker_ids() >= wanted:
            return False
        states = {k: s for k, s in self._source.partitions().items() if k[0] in topics}
        return bool(states) and all(
            state.leader is not None and set(state.isr) >= set(state.replicas) - set(without)
            for state in states.values()
        )

    def await_full_isr(
        self, topics: Sequence[str], *, timeout_s: float, without: Collection[int] = ()
    ) -> None:
        """Wait until every broker is registered and every ISR of the topics is full.

        Raises:
            WaitTimeout: they were not.
        """
        wait_until(
            lambda: self.has_full_isr(topics, without=without),
            timeout_s=timeout_s,
            what=f"full in-sync replicas of {', '.join(topics)}",
        )

    # -- what the kernel says ----------------------------------------------------------------------

    def process_of(self, broker: Broker) -> ProcessState | None:
        """Return the node's JVM, or None if it has none."""
        return self._agent.state(self._pid(broker))

    def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
        """Return how each of the node's JVMs ended so far, as its supervisor saw it."""
        lines, _ = self._agent.read(self._pid(broker), "/run/kafka-chaos/exits")
        return tuple(int(json.loads(line)["status"]) for line in lines.splitlines())

    def is_shut_down_cleanly(self, broker: Broker) -> bool:
        """Return whether the broker left its marker of a clean shutdown in every log directory."""
        # The marker of old versions is an empty file, and reading does not tell it from none.
        folders = self._log_dirs(broker)
        pid = self._pid(broker)
        return all(self._agent.exists(pid, f"{f}/.kafka_cleanshutdown") for f in folders)

    def await_serving(self, broker: Broker, *, timeout_s: float) -> None:
        """Wait until the node answers, asked from its own network."""
        wait_until(
            lambda: (
                set(self.probe([(broker, broker)], timeout_s=1.0).values()) == {Answer.ANSWERED}
            ),
            timeout_s=timeout_s,
            what=f"node {broker.node_id} to answer",
        )

    def probe(
        self, pairs: Sequence[tuple[Broker, Broker]], *, timeout_s: float
    ) -> dict[tuple[int, int], Answer]:
        """Ask each second node's listener from inside the first node's network."""
        probes = []
        for source, target in pairs:
            address = self._places[target.node_id].address_from(self._places[source.node_id])
            speaks = self._node(target).protocol
            probes.append((self._pid(source), address, self._probe_port(target), speaks))
        answers = self._agent.probe(probes, timeout_s=timeout_s)
        return {
            (source.node_id, target.node_id): answer
            for (source, target), answer in zip(pairs, answers, strict=True)
        }

    def _probe_port(self, broker: Broker) -> int:
        port = self._node(broker).probe_port
        if port is None:
            raise ClusterBroken(
                f"The port where node {broker.node_id} is talked to is not known: label its "
                "service kafka-chaos.replication-port or kafka-chaos.controller-port."
            )
        return port

    def high_watermarks(
        self, places: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Watermark]:
        """Return the high watermarks that leaders tell now; those that do not are left out."""
        if self._watermarks is None:
            # A client of its own: a question that hangs in it holds up nobody else's.
            self._watermarks = Admin(self._topology.bootstrap)
        return self._watermarks.high_watermarks(places)

    def replica_ends(self, topics: Sequence[str]) -> Mapping[tuple[int, str, int], ReplicaEnd]:
        """Return where the replicas of some topics end, by broker, topic and partition.

        The files are looked at: a broker that is dead, frozen or cut off is no exception.

        Raises:
            ClusterBroken: the fault agent does not tell.
        """
        folders: dict[int, tuple[int, Sequence[str]]] = {}
        for broker in self.brokers:
            with suppress(ClusterBroken):
                folders[broker.node_id] = (self._pid(broker), self._log_dirs(broker))
        return self._agent.log_ends(folders, topics)

    def host_clock_ns(self) -> int:
        """Return what the clock of the brokers' machine shows, nanoseconds since 1970.

        Raises:
            ClusterBroken: the fault agent does not tell.
        """
        told = b"".join(self._agent.stream(["date", "+%s%N"]))
        # A number that the engine cut short would be another one.
        if not (told.endswith(b"\n") and told.strip().isdigit()):
            raise ClusterBroken("The fault agent does not tell the time of its machine.")
        return int(told)

    def jmx(
        self, broker: Broker, object_names: str | Sequence[str], attribute: str
    ) -> dict[str, float]:
        """Return one attribute of the MBeans that the broker's own JVM holds.

        The MBean server is asked inside the JVM, so it costs no JVM and no port, and works on any
        version; a JVM that is frozen or collects garbage answers late or not at all.

        Args:
            broker: it must run.
            object_names: one or more, such as
                "kafka.server:type=ReplicaManager,name=IsrShrinksPerSec"; each may be a pattern
                ("kafka.cluster:type=Partition,name=UnderReplicated,*").
            attribute: such as "Value" of a gauge, "Count" of a meter.

        Returns:
            By object name as the JVM writes it; a boolean is 0 or 1. What does not exist, has no
            such attribute, or is no number, is left out.

        Raises:
            ClusterBroken: there is no JVM, it does not answer, or a name is malformed.
        """
        names = [object_names] if isinstance(object_names, str) else object_names
        seen = self._agent.mbeans(self._pid(broker), names)
        return {name: value for (name, known), value in seen.items() if known == attribute}

    def log_ends(self, topic: str) -> dict[int, int]:
        """Return where the leader's log of each partition ends, by its own MBeans.

        Consumers may read to the high watermark only, which can lie below and stay there: a leader
        left alone in the ISR did not move it until the next write (KAFKA-13091, fixed in 3.0).
        Partitions whose leader is not known or does not tell are left out.
        """
        pattern = f"kafka.log:type=Log,name=LogEndOffset,topic={topic},partition=*"
        leaders = {
            number: state.leader
            for (_, number), state in self._source.partitions(topic).items()
            if state.leader is not None
        }
        found: dict[int, int] = {}
        for node_id in sorted(set(leaders.values())):
            try:
                told = self.jmx(self._broker(node_id), pattern, "Value")
            except ClusterBroken as error:
                log.warning("Broker %d does not tell where its logs end: %s", node_id, error)
                continue
            for name, value in told.items():
                number = int(name.rsplit("partition=", 1)[1].split(",")[0])
                if leaders.get(number) == node_id:
                    found[number] = int(value)
        return found

    # -- what lies on the disks --------------------------------------------------------------------

    def _log_dirs(self, broker: Broker) -> tuple[str, ...]:
        node = self._node(broker)
        settings = effective_settings(self._folder / "cluster" / node.service)
        folders = log_dirs_of(settings, node.data)
        if not folders:
            raise ClusterBroken(f"Where node {broker.node_id} keeps its logs is not known.")
        return folders

    def read_data(self, broker: Broker, path: str) -> bytes:
        """Return a file of a node's data folder, running or not; empty if there is none.

        Raises:
            ClusterBroken: the node's data folder is not known.
        """
        folder = self._node(broker).data
        if folder is None:
            raise ClusterBroken(f"The data folder of node {broker.node_id} is not known.")
        content, _ = self._agent.read(self._pid(broker), f"{folder}/{path}")
        return content

    def received_bytes(self, broker: Broker) -> int:
        """Return how many bytes a node has received from others, as the kernel counts them."""
        text, _ = self._agent.read(self._pid(broker), "/proc/1/net/dev")
        lines = (line.partition(":") for line in text.decode().splitlines() if ":" in line)
        return sum(int(words.split()[0]) for name, _, words in lines if name.strip() != "lo")

    def said(self, broker: Broker) -> str:
        """Return what a node's process has written into its log so far; empty if it has none."""
        path = self._node(broker).server_log
        if path is None:
            return ""
        content, _ = self._agent.read(self._pid(broker), path)
        return content.decode(errors="replace")
