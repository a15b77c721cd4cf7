"""A running cluster in containers."""

import copy
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.cluster.agent import Agent
from harness.cluster.cleanup import owner
from harness.cluster.cluster_view import ClusterView
from harness.cluster.config_check import reject_ignored_config
from harness.cluster.containers import ComposeProject
from harness.cluster.disks import (
    LIMIT_BYTES,
    Source,
    copy_metadata,
    copy_replicas,
    effective_settings,
    log_dirs_of,
)
from harness.cluster.internal_topics import internal_topics
from harness.cluster.links import client_rule, knock, link_rules
from harness.cluster.logs import ClusterLogs
from harness.cluster.topology import Node, Topology, render
from harness.cluster.user_compose import read_compose_file
from harness.cluster.user_topology import complete, kafka_version, prepare
from harness.cluster.zookeeper import ZooKeeper
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
    TopicSpec,
)
from harness.core.errors import ClusterBroken
from harness.core.progress import Say
from harness.core.run_dir import Journal
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.core.wait import wait_until
from harness.machine.images import ensure_agent_image, ensure_broker_image

log = logging.getLogger(__name__)

_COMPOSE_S = 120.0
_FOREIGN_COMPOSE_S = 900.0  # a user's file may have more images to pull and build
_READY_S = 120.0
_PROBE_TOPIC = "kafka-chaos-ready"
_GC_NODES = 2_000_000
_SAID_LINES = 100_000


class DockerCluster(ClusterView):
    """A cluster of containers, started from a Compose file; see `harness.core.cluster.Cluster`.

    Use `launch` to make one, and `shut_down` to remove it.
    """

    def __init__(self, spec: ClusterSpec, topology: Topology, compose_file: Path) -> None:
        super().__init__(spec, topology, compose_file.parent)
        limit_s = _FOREIGN_COMPOSE_S if spec.compose else _COMPOSE_S
        self._project = ComposeProject(topology, compose_file, limit_s=limit_s)
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
                say(f"{node.service} writes no GC log: pauses of its JVM can have no witness.")
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

    # -- what Kafka is told ------------------------------------------------------------------------

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
        self._admin.alter_topic_config(topic, settings)

    def elect(self, topic: str, partition: int, *, unclean: bool = False) -> None:
        """Give a partition to its preferred leader, or, unclean, to any replica that lives.

        Raises:
            UsageError: unclean elections cannot be asked for before Kafka 2.4.
            ClusterBroken: no leader could be elected.
        """
        self._admin.elect_leader(topic, partition, unclean=unclean)

    # -- what is broken, always under a lease ------------------------------------------------------

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

    def signal(self, broker: Broker, signal: str) -> None:
        """Send the JVM a signal; SIGSTOP and SIGKILL are undone when the lease ends."""
        self._agent.signal(self._pid(broker), signal, self.lease)

    def start(self, broker: Broker) -> None:
        """Let the supervisor start the JVM if it is not running."""
        self._agent.wish(self._pid(broker), "up", self._lease)

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
        """Copy the topics' replicas from every broker's disk (`harness.cluster.disks`).

        Under KRaft the log of the cluster's metadata comes along, from every node that has one.
        """
        brokers = [node for node in self._topology.nodes if node.kind == "broker"]
        sources = [self._source_of(node, folder) for node in brokers]
        copy_replicas(self._agent, sources, topics, folder, limit_bytes=limit_bytes)
        if self._zookeeper is None:
            everybody = [self._source_of(node, folder) for node in self._topology.nodes]
            copy_metadata(self._agent, everybody, folder)

    def _source_of(self, node: Node, folder: Path) -> Source:
        settings = effective_settings(folder / node.service)
        place = self._places.get(node.node_id)
        return Source(
            node_id=node.node_id,
            service=node.service,
            container_pid=place.pid if place else None,
            log_dirs=log_dirs_of(settings, node.data),
        )

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
