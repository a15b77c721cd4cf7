"""From a `ClusterSpec` to a Compose file."""

import base64
import socket
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from harness.cluster.agent import Protocol
from harness.cluster.security import Security
from harness.core.access import Access
from harness.core.cluster import (
    FIRST_CONTROLLER,
    FIRST_ZOOKEEPER,
    ZOOKEEPER_PORT,
    ClusterSpec,
    Listener,
    NodeKind,
    voters,
)
from harness.core.errors import ClusterBroken
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.machine.templates import read_yaml, rendered

REPLICATION_PORT = 9092
"""Where brokers talk to brokers."""
CONTROLLER_PORT = 9093
CLIENT_PORT = 9094
"""Inside the container; outside it is published on a port of 127.0.0.1 that stays the same."""

OFFSETS_PARTITIONS = 6
TRANSACTIONS_PARTITIONS = 6

_ZOOKEEPER_HEAP_MIB = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One container that runs Kafka, or its ZooKeeper.

    Attributes:
        node_id: `node.id`, in ZooKeeper mode `broker.id`.
        kind: what it is to users and faults: an isolated controller is no broker.
        service: name in the Compose file, and host name inside the network.
        container: name of the container.
        port: published client port on 127.0.0.1; None for an isolated KRaft controller.
        properties: its server.properties, whole; empty if they are not ours to write.
        replication_port: where other brokers talk to it, inside the network; None: not known.
        controller_port: where controllers are talked to; None: it is none, or not known.
        data: folder of its metadata log; None: not known.
        gc_log: where its JVM logs collections, `%p` standing for the JVM's pid; None: nowhere.
        server_log: its log file; None: it has none beyond what the container says.
        heap_mib: heap of its JVM, MiB, where it is ours to say.
        wait_for: `host:port` of the listeners that must be open before its very first start.
    """

    node_id: int
    service: str
    container: str
    port: int | None
    kind: NodeKind = "broker"
    properties: str = ""
    replication_port: int | None = REPLICATION_PORT
    controller_port: int | None = CONTROLLER_PORT
    data: str | None = "/var/lib/kafka/data"
    gc_log: str | None = "/var/log/kafka/gc.log"
    server_log: str | None = "/var/log/kafka/server.log"
    heap_mib: int = 256
    wait_for: tuple[str, ...] = ()

    @property
    def client_port(self) -> int:
        """The port inside the container that is published."""
        return ZOOKEEPER_PORT if self.kind == "zookeeper" else CLIENT_PORT

    @property
    def protocol(self) -> Protocol:
        """What its listeners speak."""
        return "zookeeper" if self.kind == "zookeeper" else "kafka"

    @property
    def health_port(self) -> int:
        """A port inside the container that is open when a node of ours is up."""
        return self.client_port if self.port else CONTROLLER_PORT

    @property
    def probe_port(self) -> int | None:
        """The port that its peers are asked to knock at; None: not known."""
        return self.replication_port if self.kind == "broker" else self.controller_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A rendered cluster: its Compose file and who is in it.

    Attributes:
        project: its name in Compose.
        compose: the file.
        shown: the file without the secrets that it holds; None: it holds none.
        chroot: the path in ZooKeeper under which the cluster keeps its metadata; empty: its root.
        nodes: who is in it.
        agent: the container of the fault agent.
        properties: the file by which clients get in; None: whoever comes is let in.
        admin_properties: that of the administration client; None: the same.
        secrets: what Compose puts into brokers' containers, by the variable that it finds it in.
    """

    project: str
    compose: str
    nodes: tuple[Node, ...]
    agent: str
    properties: str | None = None
    admin_properties: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    shown: str | None = None
    chroot: str = ""

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients on this machine."""
        brokers = [node for node in self.nodes if node.kind == "broker"]
        return ",".join(f"127.0.0.1:{node.port}" for node in brokers)

    @property
    def access(self) -> Access:
        """How clients get in."""
        return Access(self.bootstrap, self.properties)

    @property
    def admin_access(self) -> Access:
        """How the administration client gets in."""
        return Access(self.bootstrap, self.admin_properties or self.properties)

    @property
    def zookeeper(self) -> str | None:
        """Where the ZooKeeper of the cluster listens on this machine, `host:port,…`, if any."""
        keepers = [f"127.0.0.1:{node.port}" for node in self.nodes if node.kind == "zookeeper"]
        return ",".join(keepers) + self.chroot if keepers else None

    def ports_between(self, one: Node, other: Node, listener: Listener) -> tuple[int, ...] | None:
        """Return the ports of one kind of traffic between two nodes, or None for all traffic.

        In ZooKeeper mode replicas and an extra controller's commands go to the same port, so
        that it depends on the nodes what a port is for.

        Raises:
            ClusterBroken: no node's port of that kind is known.
        """
        if listener == "all":
            return None
        nodes = self.nodes
        if self.zookeeper and listener == "controller":
            nodes = (one, other)
        elif self.zookeeper and not one.kind == other.kind == "broker":
            return ()
        known = {
            node.replication_port if listener == "replication" else node.controller_port
            for node in nodes
        }
        ports = tuple(sorted(port for port in known if port is not None))
        if not ports and not self.zookeeper:
            raise ClusterBroken(
                f"No node's {listener} port is known: label the services "
                f"kafka-chaos.{listener}-port."
            )
        return ports


def render(
    spec: ClusterSpec,
    *,
    run: str,
    owner: str,
    image: str,
    agent_image: str,
    security: Security | None = None,
) -> Topology:
    """Return the Compose file of a cluster, with host ports chosen.

    Args:
        spec: what is wanted.
        run: name of the run; every object made carries it as the label `kafka-chaos.run`.
        image: broker image.
        agent_image: fault-agent image.
        owner: the process that may still use it; see `harness.cluster.cleanup.owner`.
        security: its secrets; None: it has none.
    """
    project = f"kc-{uuid.uuid4().hex[:8]}"
    nodes = _nodes(spec, project)
    nodes = [replace(node, properties=_properties(spec, node, nodes)) for node in nodes]
    agent = f"{project}-agent"
    text = rendered(
        "cluster.yaml.j2", project=project, image=image, agent=agent, agent_image=agent_image,
        nodes=nodes, has_zookeeper=spec.mode == "zookeeper", labels=labels(run, owner),
        tuned=spec.tuned, cluster_id=_cluster_id(),
        features=" ".join(f"{name}={level}" for name, level in spec.features),
        secrets={name: _variable(name) for name in security.broker} if security else {},
    )  # fmt: skip
    read_yaml(text)  # a template that renders no YAML is our error: fail here, not in Compose
    made = Topology(project=project, compose=text, nodes=tuple(nodes), agent=agent)
    if security is None:
        return made
    return replace(
        made,
        properties=str(security.client_properties),
        admin_properties=str(security.admin_properties),
        secrets={_variable(name): secret for name, secret in security.broker.items()},
    )


def _variable(secret: str) -> str:
    return f"KC_SECRET_{secret.upper()}"


def labels(run: str, owner: str) -> dict[str, str]:
    """Return the labels of everything that a run makes; `harness.cluster.cleanup` reads them."""
    return {"kafka-chaos": "1", "kafka-chaos.run": run, "kafka-chaos.owner": owner}


def _nodes(spec: ClusterSpec, project: str) -> list[Node]:
    """Return brokers, extra controllers and ZooKeeper, without their properties."""
    has_zookeeper = spec.mode == "zookeeper"
    extra = range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers)
    kinds: dict[int, NodeKind] = dict.fromkeys(range(1, spec.brokers + 1), "broker")
    kinds |= dict.fromkeys(extra, "controller")
    if has_zookeeper:
        kinds[FIRST_ZOOKEEPER] = "zookeeper"
        # All that an extra controller hears and says is its business as a controller.
        controller_ports = dict.fromkeys(extra, REPLICATION_PORT) | {
            FIRST_ZOOKEEPER: ZOOKEEPER_PORT
        }
        first = tuple(f"{_service(node_id)}:{REPLICATION_PORT}" for node_id in extra)
    else:
        controller_ports = dict.fromkeys(_voters(spec), CONTROLLER_PORT)
        first = ()
    return [
        Node(
            node_id=node_id,
            service=_service(node_id),
            container=f"{project}-{_service(node_id)}",
            port=port if has_zookeeper or kind == "broker" else None,
            kind=kind,
            replication_port=REPLICATION_PORT if kind == "broker" else None,
            controller_port=controller_ports.get(node_id),
            heap_mib=_ZOOKEEPER_HEAP_MIB if kind == "zookeeper" else spec.heap_mib,
            wait_for=first if kind == "broker" else (),
        )
        for (node_id, kind), port in zip(kinds.items(), free_ports(len(kinds)), strict=True)
    ]


def _properties(spec: ClusterSpec, node: Node, nodes: Sequence[Node]) -> str:
    """Return the properties of a node of ours, as its file has them."""
    if node.kind == "zookeeper":
        return rendered("zookeeper.properties.j2", node=node)
    controllers = [
        f"{each.node_id}@{each.service}:{each.controller_port}"
        for each in nodes
        if each.controller_port
    ]
    version = numbers(spec.kafka)
    text = rendered(
        "server.properties.j2", node=node, copies=min(3, spec.brokers),
        quorum=",".join(controllers) if spec.mode == "kraft" else "",
        zookeeper=f"{_service(FIRST_ZOOKEEPER)}:{ZOOKEEPER_PORT}",
        replication_port=REPLICATION_PORT, offsets_partitions=OFFSETS_PARTITIONS,
        has_transactions=not version or version >= FIRST_IDEMPOTENCE,
        transactions_partitions=TRANSACTIONS_PARTITIONS, client_protocol=spec.security.upper(),
    )  # fmt: skip
    settings = dict(line.split("=", 1) for line in text.splitlines()) | dict(spec.config)
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _cluster_id() -> str:
    """Return a random id in Kafka's form: 16 bytes in base64, 22 characters.

    Kafka's own tools take one that begins with a dash for a flag.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _service(node_id: int) -> str:
    if node_id == FIRST_ZOOKEEPER:
        return "zookeeper"
    kind = "broker" if node_id < FIRST_CONTROLLER else "controller"
    return f"{kind}-{node_id}"


def _voters(spec: ClusterSpec) -> range:
    return voters(brokers=spec.brokers, controllers=spec.controllers)


def free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held open at once, so that they differ."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            ports.append(held.getsockname()[1])
        return ports
