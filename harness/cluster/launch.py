"""Starting a cluster: from what is wanted to brokers that are ready for work."""

import logging
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness.cluster.admin import reject_ignored_config
from harness.cluster.cleanup import owner
from harness.cluster.containers import ComposeProject
from harness.cluster.docker_cluster import PROBE_TOPIC, DockerCluster
from harness.cluster.kafka_cluster import unknown_node
from harness.cluster.logs import EXITS, settings_in
from harness.cluster.security import Security, make_security
from harness.cluster.topology import OFFSETS_PARTITIONS, TRANSACTIONS_PARTITIONS, labels, render
from harness.cluster.user_compose import read_compose_file
from harness.cluster.user_topology import arrange, complete, image_config, kafka_version
from harness.cluster.zookeeper import ZooKeeper
from harness.core.cluster import Broker, ClusterSpec, TopicSpec
from harness.core.coordinators import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from harness.core.errors import ClusterBroken, UsageError
from harness.core.progress import Say
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.core.wait import wait_until
from harness.machine.images import ensure_agent_image, ensure_broker_image

log = logging.getLogger(__name__)

_COMPOSE_S = 120.0
_USER_COMPOSE_S = 900.0  # a user's file may have more images to pull and build
_READY_S = 120.0
_LOOK_FOR_DEAD_S = 1.0

# As GroupCoordinator and TransactionStateManager create them in every version.
_OFFSETS = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
_TRANSACTIONS = {**_OFFSETS, "unclean.leader.election.enable": "false"}


def launch(spec: ClusterSpec, *, run: str, folder: Path, say: Say) -> DockerCluster:
    """Start a cluster and return it when it is ready for work.

    Ready means: every broker is registered, a topic with a full ISR could be created, and the
    configuration that was asked for is the one in effect.

    Args:
        spec: what is wanted.
        run: name of the run, the label of everything that is made.
        folder: where compose.yaml is written.
        say: called with a sentence before each long step.

    Raises:
        UsageError: it is a cluster outside Docker.
        ClusterBroken: it did not come up; what was started is removed again.
    """
    if spec.bootstrap is not None:
        raise UsageError(f"The brokers at {spec.bootstrap} run already: nothing can be started.")
    agent_image = ensure_agent_image(say=say)
    security: Security | None = None
    if spec.compose:
        file = read_compose_file(Path(spec.compose))
        images = {node.service: image_config(file, node, say=say) for node in file.nodes}
        made_by = labels(run, owner())
        topology = arrange(file, images, labels=made_by, agent_image=agent_image, say=say)
        topology = replace(topology, properties=spec.client_config)
    else:
        image = spec.image or ensure_broker_image(spec.kafka, say=say)
        security = make_security(spec)
        topology = render(
            spec, run=run, owner=owner(), image=image, agent_image=agent_image, security=security
        )
    compose_file = folder / "compose.yaml"
    compose_file.write_text(topology.shown or topology.compose, encoding="utf-8")
    if topology.shown:
        compose_file = Path(tempfile.mkdtemp(prefix="kafka-chaos-compose-")) / "compose.yaml"
        compose_file.write_text(topology.compose, encoding="utf-8")
    limit_s = _USER_COMPOSE_S if spec.compose else _COMPOSE_S
    project = ComposeProject(
        topology, compose_file, limit_s=limit_s, is_private=topology.shown is not None
    )
    begin = time.monotonic()
    with ExitStack() as undo:
        if security:
            undo.callback(security.remove)
        undo.callback(_remove, project)
        project.start()
        cluster = DockerCluster(spec, topology, project, folder, security=security)
        undo.callback(cluster.save_logs)
        if cluster.zookeeper:
            cluster.zookeeper.start()
            undo.callback(cluster.zookeeper.close)
        _make_ready(cluster, begin, say)
        undo.pop_all()
    return cluster


def _remove(project: ComposeProject) -> None:
    try:
        project.remove()
    except ClusterBroken as error:
        # The first error is the one to tell; `kafka-chaos clean` finds what is left.
        log.warning("Something may be left behind: %s", error)


def _make_ready(cluster: DockerCluster, begin: float, say: Say) -> None:
    cluster.timing_s["containers"] = time.monotonic() - begin
    _await_registered(cluster)
    cluster.timing_s["registered"] = time.monotonic() - begin
    if cluster.security:
        cluster.security.make_user(cluster.topology.admin_access)
    if cluster.zookeeper:
        _prefer_extra_controllers(cluster, cluster.zookeeper)
    copies = len(cluster.brokers)
    cluster.admin.create_topic(TopicSpec(name=PROBE_TOPIC, partitions=1, replication_factor=copies))
    cluster.await_full_isr([PROBE_TOPIC], timeout_s=_READY_S)
    for node_id in sorted(cluster.registered() - {node.node_id for node in cluster.nodes}):
        raise ClusterBroken(unknown_node(node_id))
    cluster.timing_s["ready"] = time.monotonic() - begin
    settings = {broker.node_id: _broker_config(cluster, broker) for broker in cluster.brokers}
    for broker in cluster.brokers:
        effective = settings[broker.node_id]
        cluster.keep_settings(broker, effective)
        reject_ignored_config(f"Broker {broker.node_id}", dict(cluster.spec.config), effective)
    if cluster.spec.compose:
        _complete_topology(cluster, settings, say)


def _await_registered(cluster: DockerCluster) -> None:
    """Wait until every broker is registered.

    Raises:
        ClusterBroken: a node's JVM ended instead.
    """
    expected = {broker.node_id for broker in cluster.brokers}
    next_look = time.monotonic()

    def all_registered() -> bool:
        nonlocal next_look
        if time.monotonic() >= next_look:
            _reject_dead(cluster)
            next_look = time.monotonic() + _LOOK_FOR_DEAD_S
        return cluster.registered(timeout_s=1.0) >= expected

    wait_until(all_registered, timeout_s=_READY_S, what="all brokers to register", interval_s=0.1)


def _reject_dead(cluster: DockerCluster) -> None:
    """Look at all nodes with one command: a JVM that ended is not started again by itself.

    Raises:
        ClusterBroken: a JVM has ended; the message has its last lines.
    """
    paths = {f"/proc/{cluster.pid(node)}/root{EXITS}": node for node in cluster.nodes}
    # It ends in 1 if no file has a line, in 2 if one is not there: both are as it should be.
    dead = b"".join(cluster.agent.stream(["grep", "-ls", "", *paths], may_end_in={0, 1, 2}))
    for path in dead.decode().splitlines():
        if path in paths:
            node = paths[path]
            raise ClusterBroken(
                f"Node {node.node_id} ended while the cluster was starting; its last lines:\n"
                f"{cluster.container_log(node, lines=15).decode(errors='replace')}"
            )


def _prefer_extra_controllers(cluster: DockerCluster, zookeeper: ZooKeeper) -> None:
    """See to it that an extra controller is the controller, and that it holds no replicas."""
    extra = {node.node_id for node in cluster.topology.nodes if node.kind == "controller"}
    if not extra:
        return

    def is_extra() -> bool:
        active = zookeeper.controller_id()
        if active is not None and active not in extra:
            # They are started first, so this is rare; whoever is first is elected next.
            zookeeper.remove_controller()
        return active in extra

    wait_until(is_extra, timeout_s=_READY_S, what="an extra controller to be elected")
    for topic in internal_topics(cluster.spec):
        cluster.admin.create_topic(topic)


def internal_topics(spec: ClusterSpec) -> tuple[TopicSpec, ...]:
    """Return the internal topics of a cluster, as the coordinators would create them.

    Kafka itself would place some of their replicas on the extra controllers.
    """
    copies = min(3, spec.brokers)
    offsets = TopicSpec(
        name=OFFSETS_TOPIC,
        partitions=OFFSETS_PARTITIONS,
        replication_factor=copies,
        config=tuple(_OFFSETS.items()),
    )
    if numbers(spec.kafka) < FIRST_IDEMPOTENCE:
        return (offsets,)
    settings = {**_TRANSACTIONS, "min.insync.replicas": str(max(1, copies - 1))}
    transactions = TopicSpec(
        name=TRANSACTIONS_TOPIC,
        partitions=TRANSACTIONS_PARTITIONS,
        replication_factor=copies,
        config=tuple(settings.items()),
    )
    return (offsets, transactions)


def _broker_config(cluster: DockerCluster, broker: Broker) -> dict[str, str]:
    if cluster.spec.compose or numbers(cluster.spec.kafka) >= FIRST_IDEMPOTENCE:
        return cluster.admin.broker_config(broker.node_id)
    return settings_in(cluster.said(broker))


def _complete_topology(
    cluster: DockerCluster, settings: Mapping[int, Mapping[str, str]], say: Say
) -> None:
    """Fill in what a user's Compose file does not say, by what the running nodes tell."""
    nodes, jvms = [], {}
    for broker in cluster.nodes:
        node = cluster.node(broker)
        jvms[node.node_id] = jvm = cluster.agent.jvm(cluster.pid(broker))
        has_added_log = cluster.logs.has_gc_log(node)
        node = complete(node, settings.get(node.node_id, {}), jvm, has_added_log=has_added_log)
        if node.gc_log is None and node.port:
            say(f"{node.service} writes no GC log: pauses of its JVM can have no witness.")
        nodes.append(node)
    cluster.topology = replace(cluster.topology, nodes=tuple(nodes))
    version = kafka_version([jvms[broker.node_id] for broker in cluster.brokers])
    cluster.spec = replace(cluster.spec, kafka=version)
    say(f"The brokers run Kafka {version}.")
