"""From a `ClusterSpec` to a Compose file."""

import base64
import socket
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from harness.cluster.agent import Protocol
from harness.core.cluster import ClusterSpec, Listener
from harness.core.errors import ClusterBroken
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.machine.templates import read_yaml, rendered

REPLICATION_PORT = 9092
"""Where brokers talk to brokers."""
CONTROLLER_PORT = 9093
CLIENT_PORT = 9094
"""Inside the container; outside it is published on a port of 127.0.0.1 that stays the same."""

ZOOKEEPER_PORT = 2181
OFFSETS_PARTITIONS = 6
TRANSACTIONS_PARTITIONS = 6

FIRST_CONTROLLER = 101
ZOOKEEPER_ID = 201
_ZOOKEEPER_HEAP_MIB = 128
_FOLDER = "/var/lib/kafka/data"
_COMBINED_CONTROLLERS = 3


NodeKind = Literal["broker", "controller", "zookeeper"]


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
    """A rendered cluster: its Compose file and who is in it."""

    project: str
    compose: str
    nodes: tuple[Node, ...]
    agent: str

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers for clients on this machine."""
        brokers = [node for node in self.nodes if node.kind == "broker"]
        return ",".join(f"127.0.0.1:{node.port}" for node in brokers)

    @property
    def zookeeper(self) -> Node | None:
        """The ZooKeeper of the cluster, if it has one."""
        return next((node for node in self.nodes if node.kind == "zookeeper"), None)

    def ports_between(self, one: Node, other: Node, listener: Listener) -> tuple[int, ...] | None:
        """Return the ports of one kind of traffic between two nodes, or None for all traffic.

        In ZooKeeper mode replicas and an extra controller's commands go to the same port, so
        that it depends on the nodes what a port is for.

        Raises:
            ClusterBroken: no node's port of that kind is known.
        """
        ports = self.listener_ports(listener)
        if ports is None or self.zookeeper is None:
            return ports
        if listener == "replication":
            return ports if one.kind == other.kind == "broker" else ()
        return tuple(sorted({p for node in (one, other) if (p := node.controller_port)}))

    def listener_ports(self, listener: Listener) -> tuple[int, ...] | None:
        """Return the ports that one kind of traffic goes to, or None for all traffic.

        Raises:
            ClusterBroken: no node's port of that kind is known.
        """
        if listener == "all":
            return None
        known = {
            node.replication_port if listener == "replication" else node.controller_port
            for node in self.nodes
        }
        ports = tuple(sorted(port for port in known if port is not None))
        if not ports:
            raise ClusterBroken(
                f"No node's {listener} port is known: label the services "
                f"kafka-chaos.{listener}-port."
            )
        return ports


def render(spec: ClusterSpec, *, run: str, owner: str, image: str, agent_image: str) -> Topology:
    """Return the Compose file of a cluster, with host ports chosen.

    Args:
        spec: what is wanted.
        run: name of the run; every object made carries it as the label `kafka-chaos.run`.
        image: broker image.
        agent_image: fault-agent image.
        owner: the process that may still use it; see `harness.cluster.cleanup.owner`.
    """
    project = f"kc-{uuid.uuid4().hex[:8]}"
    nodes = _kraft(spec, project) if spec.mode == "kraft" else _zookeeper(spec, project)
    agent = f"{project}-agent"
    text = rendered(
        "cluster.yaml.j2", project=project, image=image, agent=agent, agent_image=agent_image,
        nodes=nodes, has_zookeeper=spec.mode == "zookeeper", labels=labels(run, owner),
        tuned=spec.tuned, cluster_id=_cluster_id(),
        features=" ".join(f"{name}={level}" for name, level in spec.features),
    )  # fmt: skip
    read_yaml(text)  # a template that renders no YAML is our error: fail here, not in Compose
    return Topology(project=project, compose=text, nodes=tuple(nodes), agent=agent)


def labels(run: str, owner: str) -> dict[str, str]:
    """Return the labels of everything that a run makes; `harness.cluster.cleanup` reads them."""
    return {"kafka-chaos": "1", "kafka-chaos.run": run, "kafka-chaos.owner": owner}


def _kraft(spec: ClusterSpec, project: str) -> list[Node]:
    ports = _free_ports(spec.brokers)
    voters = _voters(spec)
    quorum = ",".join(f"{n}@{_service(n)}:{CONTROLLER_PORT}" for n in voters)
    nodes = []
    for node_id in (*range(1, spec.brokers + 1), *(v for v in voters if v >= FIRST_CONTROLLER)):
        is_broker = node_id < FIRST_CONTROLLER
        port = ports[node_id - 1] if is_broker else None
        nodes.append(
            Node(
                node_id=node_id,
                service=_service(node_id),
                container=f"{project}-{_service(node_id)}",
                port=port,
                kind="broker" if is_broker else "controller",
                properties=_kraft_properties(spec, node_id, voters, quorum, port),
                replication_port=REPLICATION_PORT if is_broker else None,
                controller_port=CONTROLLER_PORT if node_id in voters else None,
                heap_mib=spec.heap_mib,
            )
        )
    return nodes


def _zookeeper(spec: ClusterSpec, project: str) -> list[Node]:
    """Return brokers, extra controllers and ZooKeeper; brokers wait for what they need."""
    extra = tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers))
    ports = _free_ports(spec.brokers + spec.controllers + 1)
    keeper = f"{_service(ZOOKEEPER_ID)}:{ZOOKEEPER_PORT}"
    first = tuple(f"{_service(node_id)}:{REPLICATION_PORT}" for node_id in extra)
    nodes = [
        Node(
            node_id=node_id,
            service=_service(node_id),
            container=f"{project}-{_service(node_id)}",
            port=port,
            kind="controller" if node_id in extra else "broker",
            properties=_zookeeper_properties(spec, node_id, keeper, port),
            # All that an extra controller hears and says is its business as a controller.
            replication_port=None if node_id in extra else REPLICATION_PORT,
            controller_port=REPLICATION_PORT if node_id in extra else None,
            heap_mib=spec.heap_mib,
            wait_for=() if node_id in extra else first,
        )
        for node_id, port in zip((*range(1, spec.brokers + 1), *extra), ports, strict=False)
    ]
    settings = {
        "dataDir": _FOLDER,
        "clientPort": ZOOKEEPER_PORT,
        "tickTime": 2000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "dump,srvr",
    }
    service = _service(ZOOKEEPER_ID)
    nodes.append(
        Node(
            node_id=ZOOKEEPER_ID,
            service=service,
            container=f"{project}-{service}",
            port=ports[-1],
            kind="zookeeper",
            properties=_lines(settings),
            replication_port=None,
            controller_port=ZOOKEEPER_PORT,
            heap_mib=_ZOOKEEPER_HEAP_MIB,
        )
    )
    return nodes


def _cluster_id() -> str:
    """Return a random id in Kafka's form: 16 bytes in base64, 22 characters.

    Kafka's own tools take one that begins with a dash for a flag.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _service(node_id: int) -> str:
    if node_id == ZOOKEEPER_ID:
        return "zookeeper"
    kind = "broker" if node_id < FIRST_CONTROLLER else "controller"
    return f"{kind}-{node_id}"


def _voters(spec: ClusterSpec) -> list[int]:
    if spec.controllers:
        return list(range(FIRST_CONTROLLER, FIRST_CONTROLLER + spec.controllers))
    # An even number of voters tolerates no more than the odd number below it.
    return list(
        range(1, (_COMBINED_CONTROLLERS if spec.brokers >= _COMBINED_CONTROLLERS else 1) + 1)
    )


def _kraft_properties(
    spec: ClusterSpec, node_id: int, voters: list[int], quorum: str, port: int | None
) -> str:
    roles = (["broker"] if port else []) + (["controller"] if node_id in voters else [])
    settings = {
        "process.roles": ",".join(roles),
        "node.id": node_id,
        "controller.quorum.voters": quorum,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT"
        ),
        "listeners": _listeners(roles),
        **_common(spec),
    }
    if port:
        settings |= _advertised(node_id, port)
    return _lines(settings | dict(spec.config))


def _zookeeper_properties(spec: ClusterSpec, node_id: int, keeper: str, port: int) -> str:
    settings = {
        "broker.id": node_id,
        "zookeeper.connect": keeper,
        # Only the first connection is meant: brokers are started together with ZooKeeper.
        "zookeeper.connection.timeout.ms": 60_000,
        "listener.security.protocol.map": "REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT",
        "listeners": _listeners(["broker"]),
        **_common(spec),
        **_advertised(node_id, port),
    }
    return _lines(settings | dict(spec.config))


def _advertised(node_id: int, port: int) -> dict[str, object]:
    return {
        "inter.broker.listener.name": "REPLICATION",
        "advertised.listeners": (
            f"REPLICATION://{_service(node_id)}:{REPLICATION_PORT},CLIENT://127.0.0.1:{port}"
        ),
    }


def _common(spec: ClusterSpec) -> dict[str, object]:
    copies = min(3, spec.brokers)
    settings: dict[str, object] = {
        "log.dirs": _FOLDER,
        # Leaders move because of a fault or not at all: an experiment must not be tidied up.
        "auto.leader.rebalance.enable": "false",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
        # Sized for a small heap; the defaults reserve 128 MiB for the cleaner alone.
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }
    if numbers(spec.kafka) >= FIRST_IDEMPOTENCE or not numbers(spec.kafka):
        settings |= {
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": max(1, copies - 1),
            "transaction.state.log.num.partitions": TRANSACTIONS_PARTITIONS,
            "group.initial.rebalance.delay.ms": 0,
        }
    return settings


def _lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _listeners(roles: list[str]) -> str:
    listeners = []
    if "broker" in roles:
        listeners += [f"REPLICATION://:{REPLICATION_PORT}", f"CLIENT://:{CLIENT_PORT}"]
    if "controller" in roles:
        listeners += [f"CONTROLLER://:{CONTROLLER_PORT}"]
    return ",".join(listeners)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held open at once, so that they differ."""
    with ExitStack() as stack:
        ports = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            ports.append(held.getsockname()[1])
        return ports
