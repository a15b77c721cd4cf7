"""A running cluster in containers."""

import logging
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from harness.cluster.agent import Agent
from harness.cluster.broker_socket import Address
from harness.cluster.containers import ComposeProject, NodeContainer
from harness.cluster.disks import Source, copy_metadata, copy_replicas, copy_transactions
from harness.cluster.kafka_cluster import KafkaCluster
from harness.cluster.links import NodeLink, client_rule, fetch_rules, link_rules
from harness.cluster.logs import ClusterLogs, shuts_down
from harness.cluster.metadata import ReplicaEnd
from harness.cluster.processes import PROCESSES, processes
from harness.cluster.refusals import REFUSALS, refusals
from harness.cluster.security import Security
from harness.cluster.topology import Node, Topology
from harness.cluster.user_compose import data_folders
from harness.cluster.zookeeper import ZooKeeper
from harness.core.cluster import (
    Answer,
    Broker,
    ClientDirection,
    ClusterSpec,
    CutLog,
    Direction,
    Listener,
    ProcessState,
)
from harness.core.errors import ClusterBroken
from harness.core.run_dir import REPLICA_LIMIT_BYTES, Journal, canonical_json, write_atomically
from harness.machine.engine import ENGINE_ERRORS

log = logging.getLogger(__name__)

PROBE_TOPIC = "kafka-chaos-ready"
"""A topic of one partition with a replica on every broker; `launch` creates it."""

_ONE_ANSWER_S = 3.0
_UNKNOWN_VERSION = (999,)
_GC_NODES = 2_000_000
_LOG_LINES = 100_000


class DockerCluster(KafkaCluster):
    """A running cluster of containers; see `harness.core.cluster.Cluster`.

    Use `harness.cluster.launch.launch` to start one, and `shut_down` to remove it.

    Attributes:
        spec: what was asked for.
        topology: its nodes, and its Compose file.
        security: its secrets, if it is ours and has some.
        agent: the fault agent.
        admin: the administration client.
        zookeeper: a client of its ZooKeeper, where it has one.
        logs: what its nodes write.
        timing_s: how long the steps of its start and its end took, seconds.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        topology: Topology,
        project: ComposeProject,
        folder: Path,
        *,
        security: Security | None = None,
    ) -> None:
        keeper = topology.zookeeper
        has_extra = any(node.kind == "controller" for node in topology.nodes)
        brokers = [node.node_id for node in topology.nodes if node.kind == "broker"]
        super().__init__(
            spec,
            folder,
            access=topology.access,
            admin_access=topology.admin_access,
            zookeeper=ZooKeeper(keeper) if keeper else None,
            # Kafka itself would place replicas on the extra controllers too.
            place_on=brokers if keeper and has_extra else (),
        )
        self.security = security
        self.topology = topology
        self._project = project
        self._containers = {
            node.node_id: NodeContainer.of(project.find(node.container)) for node in topology.nodes
        }
        self.agent = Agent(project.find(topology.agent))
        self.logs = ClusterLogs(self.agent, {n: c.pid for n, c in self._containers.items()})

    # -- who is in it ----------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Broker, ...]:
        """All brokers, isolated controllers, and ZooKeeper where there is one."""
        return tuple(Broker(node.node_id, node.container) for node in self.topology.nodes)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers by node id, running or not."""
        return tuple(
            Broker(node.node_id, node.container)
            for node in self.topology.nodes
            if node.kind == "broker"
        )

    def node(self, broker: Broker | Node) -> Node:
        """Return how a node was arranged."""
        return next(node for node in self.topology.nodes if node.node_id == broker.node_id)

    def address_of(self, broker: Broker) -> Address | None:
        """Return where a broker listens for clients on this machine; None: it publishes no port."""
        port = self.node(broker).port
        return None if port is None else ("127.0.0.1", port)

    def pid(self, node: Broker | Node) -> int:
        """Return the first process of a node's container, in the engine's root pid namespace."""
        return self._containers[node.node_id].pid

    def container_log(self, node: Broker | Node, *, lines: int) -> bytes:
        """Return the last lines that a node's container has written to its output."""
        return self._containers[node.node_id].container.logs(tail=lines)

    # -- what Kafka says ---------------------------------------------------------------------------

    def controller(self) -> Broker | None:
        """Return the active controller, by its znode or by the votes on the nodes' disks.

        In ZooKeeper mode the znode says. Under KRaft metadata cannot be asked: every broker
        names a random one. Each voter's `quorum-state` names the leader that it knows, and in
        which epoch; the highest epoch wins.
        """
        if self.zookeeper:
            active = self.zookeeper.controller_id()
            return None if active is None else self._broker(active)
        best: tuple[int, int] = (-1, -1)
        for node in self.topology.nodes:
            if node.data is None:
                continue
            path = f"{node.data}/__cluster_metadata-0/quorum-state"
            text = self.agent.read(self.pid(node), path)
            epoch = re.search(rb'"leaderEpoch":(\d+)', text)
            leader = re.search(rb'"leaderId":(-?\d+)', text)
            if epoch and leader:
                best = max(best, (int(epoch[1]), int(leader[1])))
        return self._broker(best[1]) if best[1] >= 0 else None

    # -- what the kernel says ----------------------------------------------------------------------

    def process_of(self, broker: Broker) -> ProcessState | None:
        """Return the node's JVM, or None if it has none."""
        process = self.agent.ask("state", container_pid=self.pid(broker))["process"]
        return process and ProcessState(**process)

    def running(self) -> tuple[Broker, ...]:
        """Return the brokers whose process is there, frozen or not."""
        return tuple(broker for broker in self.brokers if self.process_of(broker) is not None)

    def ending(self, running: Sequence[Broker]) -> tuple[Broker, ...]:
        """Return those of the running brokers that shut down, by what they wrote, and refuse."""
        answers = self.probe([(b, b) for b in running], timeout_s=_ONE_ANSWER_S) if running else {}
        refusing = [b for b in running if answers[b.node_id, b.node_id] is Answer.REFUSED]
        return tuple(broker for broker in refusing if shuts_down(self.said(broker)))

    def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
        """Return how each of the node's JVMs ended so far, as its supervisor saw it."""
        return tuple(ended["status"] for ended in self.logs.exits(self.node(broker)))

    def is_shut_down_cleanly(self, broker: Broker) -> bool:
        """Return whether the broker left its marker of a clean shutdown in every log directory."""
        # The marker of old versions is an empty file, and reading does not tell it from none.
        pid = self.pid(broker)
        paths = [f"{folder}/.kafka_cleanshutdown" for folder in self._log_dirs(broker)]
        asked = [self.agent.ask("read", container_pid=pid, path=path, limit=1) for path in paths]
        return all(answer["exists"] for answer in asked)

    def probe(
        self, pairs: Sequence[tuple[Broker, Broker]], *, timeout_s: float
    ) -> dict[tuple[int, int], Answer]:
        """Ask each second node's listener from inside the first node's network."""
        containers = self._containers
        probes = [
            {
                "container_pid": self.pid(source),
                "host": containers[target.node_id].address_from(containers[source.node_id]),
                "port": self._probe_port(target),
                "protocol": self.node(target).protocol,
            }
            for source, target in pairs
        ]
        told = self.agent.ask("probe", probes=probes, timeout_ms=int(timeout_s * 1000))
        return {
            (source.node_id, target.node_id): Answer(answer)
            for (source, target), answer in zip(pairs, told["answers"], strict=True)
        }

    def _probe_port(self, broker: Broker) -> int:
        port = self.node(broker).probe_port
        if port is None:
            raise ClusterBroken(
                f"The port where node {broker.node_id} is talked to is not known: label its "
                "service kafka-chaos.replication-port or kafka-chaos.controller-port."
            )
        return port

    def replica_ends(self, topics: Sequence[str]) -> list[ReplicaEnd]:
        """Return where the replicas of some topics end; what cannot be read just now is left out.

        The files are looked at: a broker that is dead, frozen or cut off is no exception.

        Raises:
            ClusterBroken: the fault agent does not tell.
        """
        brokers = []
        for broker in self.brokers:
            with suppress(ClusterBroken):
                brokers.append(
                    {
                        "node_id": broker.node_id,
                        "container_pid": self.pid(broker),
                        "log_dirs": self._log_dirs(broker),
                    }
                )
        answer = self.agent.ask("log_ends", topics=list(topics), brokers=brokers)
        return [ReplicaEnd(**log) for log in answer["logs"]]

    def host_clock_ns(self) -> int:
        """Return what the clock of the brokers' machine shows, nanoseconds since 1970.

        Raises:
            ClusterBroken: the fault agent does not tell.
        """
        return int(self.agent.ask("clock")["wall_ns"])

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
        values = self.agent.mbeans(self.pid(broker), names)
        return {name: value for (name, of), value in values.items() if of == attribute}

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
        ends: dict[int, int] = {}
        for node_id in sorted(set(leaders.values())):
            try:
                broker = next(b for b in self.brokers if b.node_id == node_id)
                values = self.jmx(broker, pattern, "Value")
            except (ClusterBroken, StopIteration) as error:
                log.warning("Broker %d does not tell where its logs end: %s", node_id, error)
                continue
            for name, value in values.items():
                number = int(name.rsplit("partition=", 1)[1].split(",")[0])
                if leaders.get(number) == node_id:
                    ends[number] = int(value)
        return ends

    # -- what lies on the disks --------------------------------------------------------------------

    def _log_dirs(self, broker: Broker) -> tuple[str, ...]:
        folders = self._source_of(self.node(broker)).log_dirs
        if not folders:
            raise ClusterBroken(f"Where node {broker.node_id} keeps its logs is not known.")
        return folders

    def read_data(self, broker: Broker, path: str) -> bytes:
        """Return a file of a node's data folder, running or not; empty if there is none.

        Raises:
            ClusterBroken: the node's data folder is not known.
        """
        folder = self.node(broker).data
        if folder is None:
            raise ClusterBroken(f"The data folder of node {broker.node_id} is not known.")
        return self.agent.read(self.pid(broker), f"{folder}/{path}")

    def received_bytes(self, broker: Broker) -> int:
        """Return how many bytes a node has received from others, as the kernel counts them."""
        text = self.agent.read(self.pid(broker), "/proc/1/net/dev")
        lines = (line.partition(":") for line in text.decode().splitlines() if ":" in line)
        return sum(int(counts.split()[0]) for name, _, counts in lines if name.strip() != "lo")

    def said(self, broker: Broker) -> str:
        """Return what a node's process has written into its log so far; empty if it has none."""
        return self.logs.server_log(self.node(broker)).decode(errors="replace")

    # -- what is broken, always under a lease ------------------------------------------------------

    def ask_agent(self, broker: Broker, verb: str, **arguments: Any) -> Mapping[str, Any]:  # noqa: ANN401
        """Have the fault agent carry out a verb at a node, under the lease."""
        return self.agent.ask(verb, lease=self.lease, container_pid=self.pid(broker), **arguments)

    def signal(self, broker: Broker, signal: str) -> None:
        """Send the JVM a signal by name; the lease's end undoes it."""
        self.ask_agent(broker, "signal", signal=signal)

    def start(self, broker: Broker) -> None:
        """Let the supervisor start the JVM if it is not running."""
        self.agent.ask("wish", lease=self._lease, container_pid=self.pid(broker), wish="up")

    def hold_down(self, broker: Broker) -> None:
        """Tell the supervisor not to start the JVM again until `start`, or the lease's end."""
        self.ask_agent(broker, "wish", wish="down")

    def cut(
        self,
        pairs: Sequence[tuple[Broker, Broker]],
        *,
        listener: Listener,
        direction: Direction = "both",
        longer_than: int = 0,
    ) -> None:
        """Drop packets between the two nodes of each pair, as `link_rules` says."""
        links = [self._link(*pair, listener) for pair in pairs]
        rules = link_rules(links, direction=direction, longer_than=longer_than)
        self.agent.ask("cut", lease=self.lease, rules=rules)

    def stall_fetches(self, pairs: Sequence[tuple[Broker, Broker]]) -> None:
        """Drop the fetch requests between the two brokers of each pair, as `fetch_rules` says."""
        rules = fetch_rules(self._link(*pair, "replication") for pair in pairs)
        self.agent.ask("cut", lease=self.lease, rules=rules)

    def _link(self, first: Broker, second: Broker, listener: Listener) -> NodeLink:
        ports = self.topology.ports_between(self.node(first), self.node(second), listener)
        return self._containers[first.node_id], self._containers[second.node_id], ports

    def cut_clients(self, brokers: Sequence[Broker], *, direction: ClientDirection) -> None:
        """Drop packets between client listeners and everybody outside the cluster."""
        everybody = list(self._containers.values())
        rules = [
            client_rule(self.node(b), self._containers[b.node_id], everybody, direction=direction)
            for b in brokers
        ]
        self.agent.ask("cut", lease=self.lease, rules=rules)

    def mend(self) -> None:
        """Take away all cuts of links under this lease."""
        self.agent.ask("mend", lease=self.lease)

    def dropped_packets(self) -> int:
        """Return how many packets the rules of this lease have swallowed."""
        return int(self.agent.ask("counters", lease=self.lease)["packets"])

    def cut_tail(
        self,
        broker: Broker,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> tuple[CutLog, ...]:
        """Cut the ends of a dead broker's logs at batch boundaries; nothing brings them back."""
        answer = self.ask_agent(
            broker, "cut_tail", log_dirs=self._log_dirs(broker),
            topic=topic, partition=partition, offset=offset,
        )  # fmt: skip
        return tuple(CutLog(**log) for log in answer["logs"])

    def log_sizes(self, broker: Broker) -> dict[tuple[str, int], int]:
        """Return the bytes of all segments of each of the broker's logs."""
        answer = self.ask_agent(broker, "log_sizes", log_dirs=self._log_dirs(broker))
        return {(log["topic"], log["partition"]): log["bytes"] for log in answer["logs"]}

    def collect_garbage(
        self, broker: Broker, *, duration_s: float, nodes: int = 0, pauses_s: float = 0.0
    ) -> None:
        """Make the JVM collect garbage back to back for so many seconds; returns at once."""
        self.logs.mark_collections(self.node(broker), self.lease.fault_id)
        self.ask_agent(
            broker, "gc_storm", duration_ms=int(duration_s * 1000), nodes=nodes or _GC_NODES,
            collecting_ms=int(pauses_s * 1000),
        )  # fmt: skip

    def end_collections(self, broker: Broker) -> None:
        """End what `collect_garbage` began under this lease; harmless if there was nothing."""
        self.ask_agent(broker, "gc_stop")

    def gc_pauses_s(self, broker: Broker) -> list[float]:
        """Return the stop-the-world pauses logged since `collect_garbage` under this lease."""
        return self.logs.pauses_s(broker.node_id, self.lease.fault_id)

    # -- the folder of the run ---------------------------------------------------------------------

    def move_to(self, folder: Path) -> None:
        """Work for another run from now on; its folder gets the Compose file and the settings."""
        shutil.copyfile(self._folder / "compose.yaml", folder / "compose.yaml")
        self._folder = folder
        for broker in self.brokers:
            self.keep_settings(broker, self._settings[broker.node_id])
        self.logs.forget_marks()
        self.timing_s = {}

    def save_logs(self) -> None:
        """Copy each node's properties and logs into the run folder.

        What cannot be had is left out with a warning: logs are for people, verdicts do not
        depend on them.
        """
        for node in self.topology.nodes:
            try:
                folder = self._folder_of(node)
                if node.properties:
                    (folder / "server.properties").write_text(node.properties, encoding="utf-8")
                if node.server_log is None:
                    (folder / "server.log").write_bytes(self.container_log(node, lines=_LOG_LINES))
                self.logs.save(node, folder)
            except (ClusterBroken, OSError, *ENGINE_ERRORS) as error:
                log.warning("Not all logs of %s could be kept: %s", node.service, error)

    def save_processes(self) -> None:
        """Write into the run folder how the nodes' processes ended, and which of them run.

        Where the fault agent does not answer there is no such file, and no verdict by it.
        """
        try:
            document = processes(self.topology, self._containers, self.agent, self.logs)
        except ClusterBroken as error:
            log.warning("How processes ended is not kept: %s", error)
            return
        write_atomically(self._folder / "cluster" / PROCESSES, canonical_json(document))

    def save_refusals(self) -> None:
        """Write into the run folder how many batches with a wrong checksum brokers have refused."""
        # By the time that a frozen broker is given up, the cluster may have been given another run.
        folder = self._folder / "cluster"
        folder.mkdir(exist_ok=True)
        containers = {broker.node_id: self._containers[broker.node_id] for broker in self.brokers}
        told = refusals(containers, self.agent)
        with closing(Journal(folder / REFUSALS)) as journal:
            journal.append(told)

    def copy_replicas(
        self, topics: Mapping[str, int], *, limit_bytes: int = REPLICA_LIMIT_BYTES
    ) -> None:
        """Copy the topics' replicas from every broker's disk into the run folder.

        Under KRaft the log of the cluster's metadata comes along, from every node that has one.
        What the transaction coordinators know is copied first: what they say has ended by then
        must have ended in the replicas too.

        Args:
            topics: how many partitions each topic has.
            limit_bytes: beyond so many bytes in all, nothing is copied.
        """
        folder = self._folder / "cluster"
        sources = {node: self._source_of(node) for node in self.topology.nodes}
        brokers = [source for node, source in sources.items() if node.kind == "broker"]
        states = copy_transactions(self.agent, brokers, folder)
        copy_replicas(
            self.agent, brokers, topics, folder, limit_bytes=limit_bytes, transactions=states
        )
        if self.zookeeper is None:
            copy_metadata(self.agent, list(sources.values()), folder)

    def _source_of(self, node: Node) -> Source:
        settings = self._settings.get(node.node_id, {})
        return Source(
            node_id=node.node_id,
            service=node.service,
            container_pid=self.pid(node),
            log_dirs=tuple(data_folders(settings) or data_folders({"log.dirs": node.data or ""})),
        )

    def _folder_of(self, broker: Broker | Node) -> Path:
        folder = self._folder / "cluster" / self.node(broker).service
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    # -- the end -----------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Remove containers, network and volumes.

        Raises:
            ClusterBroken: something is left; `kafka-chaos clean` finds it by its label.
        """
        begin = time.monotonic()
        if self.zookeeper:
            self.zookeeper.close()
        self.agent.close()
        self._project.remove()
        if self.security:
            self.security.remove()
        self.timing_s["stopped"] = time.monotonic() - begin
