"""A running cluster in containers."""

import copy
import json
import logging
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.admin import Admin, reject_ignored_config
from harness.agent import Agent
from harness.cluster_logs import ClusterLogs
from harness.compose_file import read_compose_file
from harness.compose_project import ComposeProject, Place
from harness.core.cluster import (
    Answer,
    Broker,
    ClientDirection,
    Cluster,
    ClusterSpec,
    CutLog,
    Direction,
    Lease,
    Listener,
    ProcessState,
    TopicSpec,
)
from harness.core.errors import ClusterBroken, UsageError
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.core.wait import wait_until
from harness.foreign_topology import complete, kafka_version, prepare
from harness.images import ensure_agent_image, ensure_broker_image
from harness.internal_topics import internal_topics
from harness.links import client_rule, knock, link_rules
from harness.metadata import MetadataSource, PartitionState
from harness.programs import Say
from harness.replica_files import (
    LIMIT_BYTES,
    Source,
    copy_replicas,
    effective_settings,
    log_dirs_of,
)
from harness.sweep import owner
from harness.topology import Node, Topology, render
from harness.zookeeper import ZooKeeper

log = logging.getLogger(__name__)

_COMPOSE_S = 120.0
_FOREIGN_COMPOSE_S = 900.0  # a user's file may have more images to pull and build
_READY_S = 120.0
_PROBE_TOPIC = "kafka-chaos-ready"
_GC_NODES = 2_000_000
_SAID_LINES = 100_000


class DockerCluster:
    """A cluster of containers, started from a Compose file; see `harness.core.cluster.Cluster`.

    Use `launch` to make one, and `shut_down` to remove it.
    """

    def __init__(self, spec: ClusterSpec, topology: Topology, compose_file: Path) -> None:
        self._spec = spec
        self._topology = topology
        limit_s = _FOREIGN_COMPOSE_S if spec.compose else _COMPOSE_S
        self._project = ComposeProject(topology, compose_file, limit_s=limit_s)
        self._folder = compose_file.parent
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
        self._lease: Lease | None = None
        self.timing_s: dict[str, float] = {}

    @classmethod
    def launch(cls, spec: ClusterSpec, *, run: str, folder: Path, say: Say) -> "DockerCluster":
        """Bring a cluster up and return it when it is ready for work.

        Ready means: every broker is registered, a topic with a full ISR could be created, and the
        configuration that was asked for is the one in effect.

        Args:
            spec: what is wanted.
            run: name of the run, the label of everything that is made.
            folder: where compose.yaml is written.
            say: called with a sentence before each long step.

        Raises:
            ClusterBroken: it did not come up; what was started is removed again.
        """
        agent_image = ensure_agent_image(say=say)
        if spec.compose:
            file = read_compose_file(Path(spec.compose))
            topology = prepare(file, run_name=run, owner=owner(), agent_image=agent_image, say=say)
        else:
            image = spec.image or ensure_broker_image(spec.kafka, say=say)
            topology = render(spec, run=run, owner=owner(), image=image, agent_image=agent_image)
        compose_file = folder / "compose.yaml"
        compose_file.write_text(topology.compose, encoding="utf-8")
        cluster = cls(spec, topology, compose_file)
        try:
            cluster._up(say)
        except BaseException:
            cluster.save_logs(folder / "cluster")
            try:
                cluster.shut_down()
            except ClusterBroken as error:
                # The first error is the one to tell; `kafka-chaos clean` finds what is left.
                log.warning("Something may be left behind: %s", error)
            raise
        return cluster

    def _up(self, say: Say) -> None:
        begin = time.monotonic()
        self._project.start()
        if self._zookeeper:
            self._zookeeper.start()
        self._places = {node.node_id: self._project.find(node) for node in self._topology.nodes}
        self._agent = Agent(self._project.agent())
        pids = {node_id: place.pid for node_id, place in self._places.items()}
        self._logs = ClusterLogs(self._agent, pids, self._folder)
        self.timing_s["containers"] = time.monotonic() - begin
        expected = {broker.node_id for broker in self.brokers}

        def all_registered() -> bool:
            self._reject_dead()
            return self._source.broker_ids(timeout_s=1.0) >= expected

        wait_until(
            all_registered, timeout_s=_READY_S, what="all brokers to register", interval_s=0.1
        )
        self.timing_s["registered"] = time.monotonic() - begin
        if self._zookeeper:
            self._prefer_extra_controllers(self._zookeeper)
        copies = len(expected)
        self._admin.create_topic(
            TopicSpec(name=_PROBE_TOPIC, partitions=1, replication_factor=copies)
        )
        self.await_full_isr([_PROBE_TOPIC], timeout_s=_READY_S)
        self.timing_s["ready"] = time.monotonic() - begin
        settings = {broker.node_id: self._broker_config(broker) for broker in self.brokers}
        for broker in self.brokers:
            seen = settings[broker.node_id]
            self._logs.keep_settings(self._node(broker), seen)
            reject_ignored_config(f"Broker {broker.node_id}", dict(self._spec.config), seen)
        if self._spec.compose:
            self._learn(settings, say)

    def _prefer_extra_controllers(self, zookeeper: ZooKeeper) -> None:
        """See to it that an extra controller is the controller, and hold no internal topics."""
        extra = {n.node_id for n in self._topology.nodes if n.kind == "controller"}
        if not extra:
            return

        def is_extra() -> bool:
            active = zookeeper.controller_id()
            if active is not None and active not in extra:
                # They are started first, so this is rare; whoever is first is elected next.
                zookeeper.remove_controller()
            return active in extra

        wait_until(is_extra, timeout_s=_READY_S, what="an extra controller to be elected")
        for topic in internal_topics(self._spec):
            self._admin.create_topic(topic)

    def _broker_config(self, broker: Broker) -> dict[str, str]:
        if self._spec.compose or numbers(self._spec.kafka) >= FIRST_IDEMPOTENCE:
            return self._admin.broker_config(broker.node_id)
        return self._logs.logged_settings(self._node(broker))

    def _learn(self, settings: Mapping[int, Mapping[str, str]], say: Say) -> None:
        """Fill in what a user's Compose file does not say, by what the running nodes told."""
        nodes, jvms = [], {}
        for node in self._topology.nodes:
            jvms[node.node_id] = jvm = self._agent.jvm(self._pid(node))
            node = complete(
                node, settings.get(node.node_id, {}), jvm, has_added_log=self._logs.has_gc_log(node)
            )
            if node.gc_log is None and node.port:
                say(f"{node.service} writes no GC log: gc_pause can have no witness there.")
            nodes.append(node)
        self._topology = replace(self._topology, nodes=tuple(nodes))
        version = kafka_version([jvms[broker.node_id] for broker in self.brokers])
        self._spec = replace(self._spec, kafka=version)
        say(f"The brokers run Kafka {version}.")

    def _reject_dead(self) -> None:
        for node in self._topology.nodes:
            if self._agent.state(self._pid(node)) is None:
                exits, _ = self._agent.read(self._pid(node), "/run/kafka-chaos/exits")
                if exits:
                    words = self._places[node.node_id].container.logs(tail=15)
                    raise ClusterBroken(
                        f"Node {node.node_id} ended while the cluster was starting; its last "
                        f"words:\n{words.decode(errors='replace')}"
                    )

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

    @property
    def lease(self) -> Lease:
        """The lease that damage is done under.

        Raises:
            ClusterBroken: there is none, so nothing may be broken now.
        """
        if self._lease is None:
            raise ClusterBroken("Nothing may be broken without a lease: use cluster.leased(…).")
        return self._lease

    def leased(self, lease: Lease) -> Cluster:
        """Return this cluster with the right to break it until the lease ends."""
        twin = copy.copy(self)
        twin._lease = lease
        return twin

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

    def alter_topic(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change settings of a topic, keep its others, and read them back.

        Raises:
            UsageError: Kafka calls a setting invalid.
            ClusterBroken: it did not take effect.
        """
        self._admin.alter_topic_config(topic, settings)

    def elect(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Give a partition to its preferred leader, or, unclean, to any replica that lives.

        Raises:
            UsageError: unclean elections cannot be asked for before Kafka 2.4.
            ClusterBroken: no leader could be elected.
        """
        self._admin.elect_leader(topic, partition, unclean=unclean)

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

    def is_whole(self, topics: Sequence[str], *, without: Collection[int] = ()) -> bool:
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
            lambda: self.is_whole(topics, without=without),
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

    def start(self, broker: Broker) -> None:
        """Let the supervisor start the JVM if it is not running."""
        self._agent.wish(self._pid(broker), "up", self._lease)

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

    # -- what is broken, always under a lease ------------------------------------------------------

    def signal(self, broker: Broker, signal: str) -> None:
        """Send the JVM a signal; SIGSTOP and SIGKILL are undone when the lease ends."""
        self._agent.signal(self._pid(broker), signal, self.lease)

    def hold_down(self, broker: Broker) -> None:
        """Tell the supervisor not to start the JVM again until `start`, or the lease's end."""
        self._agent.wish(self._pid(broker), "down", self.lease)

    def cut(
        self,
        pairs: Sequence[tuple[Broker, Broker]],
        *,
        listener: Listener,
        direction: Direction = "both",
        longer_than: int = 0,
    ) -> None:
        """Drop packets between the two nodes of each pair, as `link_rules` says."""
        links = []
        for one, other in pairs:
            ports = self._topology.ports_between(self._node(one), self._node(other), listener)
            links.append((self._places[one.node_id], self._places[other.node_id], ports))
        rules = link_rules(links, direction=direction, longer_than=longer_than)
        self._agent.cut(rules, self.lease)

    def cut_clients(self, brokers: Sequence[Broker], *, direction: ClientDirection) -> None:
        """Drop packets between client listeners and everybody outside the cluster."""
        places = list(self._places.values())
        rules = [
            client_rule(self._places[b.node_id], self._node(b), places, direction=direction)
            for b in brokers
        ]
        self._agent.cut(rules, self.lease)

    def probe_from_outside(
        self, brokers: Sequence[Broker], *, timeout_s: float
    ) -> dict[int, Answer]:
        """Ask each broker's client listener from this machine, as a client would."""
        ports = {broker.node_id: self._node(broker).port for broker in brokers}
        return knock(ports, timeout_s=timeout_s)

    def mend(self) -> None:
        """Take away all cuts of links under this lease."""
        self._agent.mend(self.lease)

    def dropped_packets(self) -> int:
        """Return how many packets the rules of this lease have swallowed."""
        return self._agent.dropped(self.lease)

    def cut_tail(
        self,
        broker: Broker,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> tuple[CutLog, ...]:
        """Cut the ends of a dead broker's logs at batch boundaries; nothing brings them back."""
        # Whoever cuts must have the right to break this cluster now.
        log.debug("tails are cut under lease %s", self.lease.fault_id)
        return self._agent.cut_tail(
            self._pid(broker), self._log_dirs(broker),
            topic=topic, partition=partition, offset=offset,
        )  # fmt: skip

    def log_sizes(self, broker: Broker) -> dict[tuple[str, int], int]:
        """Return the bytes of all segments of each of the broker's logs."""
        return self._agent.log_sizes(self._pid(broker), self._log_dirs(broker))

    def _log_dirs(self, broker: Broker) -> tuple[str, ...]:
        node = self._node(broker)
        settings = effective_settings(self._folder / "cluster" / node.service)
        folders = log_dirs_of(settings, node.data)
        if not folders:
            raise ClusterBroken(f"Where node {broker.node_id} keeps its logs is not known.")
        return folders

    def collect_garbage(self, broker: Broker, *, duration_s: float, nodes: int = 0) -> None:
        """Make the JVM collect garbage back to back for so many seconds; returns at once."""
        self._logs.mark_collections(self._node(broker), self.lease.fault_id)
        self._agent.gc_storm(
            self._pid(broker),
            duration_s=duration_s,
            nodes=nodes or _GC_NODES,
            lease=self.lease,
        )

    def end_collections(self, broker: Broker) -> None:
        """End what `collect_garbage` began, if it still goes on."""
        self._agent.gc_stop(self._pid(broker), self.lease)

    def gc_pauses_s(self, broker: Broker) -> list[float]:
        """Return the stop-the-world pauses logged since `collect_garbage` under this lease."""
        return self._logs.pauses_s(broker.node_id, self.lease.fault_id)

    # -- what lies on the disks --------------------------------------------------------------------

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

    # -- the folder --------------------------------------------------------------------------------

    @property
    def probe_topic(self) -> str:
        """A topic of one partition that has a replica on every broker."""
        return _PROBE_TOPIC

    def move_to(self, folder: Path) -> None:
        """Work for another run from now on; its folder gets the Compose file and the settings."""
        shutil.copyfile(self._folder / "compose.yaml", folder / "compose.yaml")
        self._logs.move_to(folder)
        self._folder = folder
        self.timing_s = {}

    # -- the end -----------------------------------------------------------------------------------

    def save_logs(self, folder: Path) -> None:
        """Copy each node's logs and effective configuration into `folder/<service>/`.

        What cannot be had is left out with a warning: logs are for people, verdicts do not
        depend on them.
        """
        for node in self._topology.nodes:
            if node.node_id not in self._places:
                log.warning("No logs of %s: it was never found.", node.service)
                continue
            words = self._places[node.node_id].container.logs(tail=_SAID_LINES)
            self._logs.save(node, words if node.server_log is None else b"", folder)

    def copy_replicas(
        self, topics: Mapping[str, int], folder: Path, *, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        """Copy the topics' replicas from every broker's disk (`harness.replica_files`)."""
        sources = []
        for node in self._topology.nodes:
            if node.kind != "broker":
                continue
            settings = effective_settings(folder / node.service)
            place = self._places.get(node.node_id)
            source = Source(
                node_id=node.node_id,
                service=node.service,
                container_pid=place.pid if place else None,
                log_dirs=log_dirs_of(settings, node.data),
            )
            sources.append(source)
        copy_replicas(self._agent, sources, topics, folder, limit_bytes=limit_bytes)

    def shut_down(self) -> None:
        """Remove containers, network and volumes.

        Raises:
            ClusterBroken: something is left; `kafka-chaos clean` finds it by its label.
        """
        begin = time.monotonic()
        if self._zookeeper:
            self._zookeeper.close()
        self._project.remove()
        self.timing_s["stopped"] = time.monotonic() - begin
