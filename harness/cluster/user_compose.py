"""A Compose file of the user's own, and the Kafka nodes that are found in it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.cluster import FIRST_ZOOKEEPER, MAX_BROKERS, ZOOKEEPER_PORT, NodeKind
from harness.core.errors import EnvironmentBroken, UsageError
from harness.machine.programs import last_words, run

BROKER_LABEL = "kafka-chaos.broker"
CONTROLLER_LABEL = "kafka-chaos.controller"
ZOOKEEPER_LABEL = "kafka-chaos.zookeeper"
CLIENT_PORT_LABEL = "kafka-chaos.client-port"

_CONFIG_S = 60.0
_BROKER_NAME = re.compile(r"(?:kafka[-_])?(?:kafka|broker)[-_]?(\d*)")
_CONTROLLER_NAME = re.compile(r"(?:kafka[-_])?controller[-_]?(\d*)")
_ZOOKEEPER_NAME = re.compile(r"(?:kafka[-_])?(?:zookeeper|zoo|zk)[-_]?(\d*)")
_ZOOKEEPER_PORTS = ("ZOOKEEPER_CLIENT_PORT", "ZOO_PORT_NUMBER")
"""Where the usual images are told another client port than ZooKeeper's own."""
_ID_PROPERTIES = ("node.id", "broker.id")
_LISTENER = re.compile(r"\s*([\w.-]+)://(.*):(\d+)\s*")
_HERE = ("localhost", "127.0.0.1")

Service = dict[str, Any]
"""One service as `docker compose config` prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignNode:
    """A service that runs Kafka, or its ZooKeeper.

    Attributes:
        node_id: by its label, else by its environment, else by the number in its name; of
            ZooKeeper's services counted from 201.
        service: name in the file.
        kind: what it is.
        port: client port as published on the host; None for an isolated controller, and for a
            ZooKeeper that publishes none.
        inner_port: client port of a ZooKeeper inside its container.
    """

    node_id: int
    service: str
    kind: NodeKind
    port: int | None
    inner_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeFile:
    """A Compose file that can be used.

    Attributes:
        path: where it lies.
        document: what `docker compose config` made of it: variables filled in, paths absolute;
            a dollar sign in a value is still written twice.
        nodes: brokers by node id, then isolated controllers, then ZooKeeper's.
    """

    path: Path
    document: dict[str, Any]
    nodes: tuple[ForeignNode, ...]

    @property
    def brokers(self) -> int:
        """How many brokers it has."""
        return self._count("broker")

    @property
    def controllers(self) -> int:
        """How many isolated controllers it has."""
        return self._count("controller")

    @property
    def has_zookeeper(self) -> bool:
        """Whether the metadata is kept in a ZooKeeper of the file's."""
        return self._count("zookeeper") > 0

    def _count(self, kind: NodeKind) -> int:
        return sum(node.kind == kind for node in self.nodes)


def read_compose_file(path: Path) -> ComposeFile:
    """Read a Compose file and find the brokers in it; nothing is started.

    Raises:
        UsageError: there is no such file, it is no Compose file, or what it holds cannot be used.
        EnvironmentBroken: `docker compose` is missing or did not answer.
    """
    if not path.is_file():
        raise UsageError(f"There is no Compose file {path}: give --compose the path of one.")
    done = run(
        ["docker", "compose", "-f", str(path), "config", "--format", "json"], timeout_s=_CONFIG_S
    )
    if done.returncode != 0:
        if run(["docker", "compose", "version"], timeout_s=_CONFIG_S).returncode != 0:
            raise EnvironmentBroken(
                "`docker compose` is not there: `kafka-chaos doctor --fix` installs it."
            )
        raise UsageError(f"{path} is no usable Compose file: {last_words(done)}")
    document = json.loads(done.stdout)
    return ComposeFile(path=path, document=document, nodes=find_nodes(document, str(path)))


def find_nodes(document: Mapping[str, Any], where: str) -> tuple[ForeignNode, ...]:
    """Return brokers by node id, isolated controllers and ZooKeepers of a Compose document.

    Labels come first; if no service of the kind has one, names decide. A ZooKeeper without a label
    is looked for only where a broker is told to connect to one.

    Args:
        document: as `docker compose config` prints it.
        where: the file, for errors.

    Raises:
        UsageError: no broker, too many, two with one id, or one that no client could reach.
    """
    services: Mapping[str, Service] = document.get("services") or {}
    controllers = _named(services, CONTROLLER_LABEL, _CONTROLLER_NAME)
    brokers = _named(services, BROKER_LABEL, _BROKER_NAME)
    for name in [name for name in brokers if _is_pure_controller(services[name])]:
        controllers.setdefault(name, brokers.pop(name))
    if not brokers:
        raise UsageError(
            f"{where} has no brokers: call their services kafka-1, kafka-2, … or label them "
            f'{BROKER_LABEL}: "<node id>"; there are {", ".join(services) or "no services"}.'
        )
    if len(brokers) > MAX_BROKERS:
        raise UsageError(f"{where} has {len(brokers)} brokers: at most {MAX_BROKERS} will do.")
    nodes = [
        *(_node(name, word, services[name], where, "broker") for name, word in brokers.items()),
        *(_node(name, word, services[name], where, "controller")
          for name, word in controllers.items() if name not in brokers),
        *(_zookeeper(number, name, services[name], where)
          for number, name in enumerate(_zookeepers(services, brokers))),
    ]  # fmt: skip
    services_by_id: dict[int, str] = {}
    for node in nodes:
        if node.node_id in services_by_id:
            raise UsageError(
                f"{where}: the services {services_by_id[node.node_id]} and {node.service} both "
                f"have the node id {node.node_id}; give each its own by KAFKA_NODE_ID or a label."
            )
        services_by_id[node.node_id] = node.service
    return tuple(sorted(nodes, key=lambda node: (_ORDER.index(node.kind), node.node_id)))


_ORDER: Sequence[NodeKind] = ("broker", "controller", "zookeeper")


def _named(
    services: Mapping[str, Service], label: str, pattern: re.Pattern[str]
) -> dict[str, str | None]:
    """Return the services of one kind, each with its label's value, or None if it has none."""
    labelled: dict[str, str | None] = {
        name: str(service["labels"][label])
        for name, service in services.items()
        if label in (service.get("labels") or {})
    }
    return labelled or {name: None for name in services if pattern.fullmatch(name)}


def _is_pure_controller(service: Service) -> bool:
    return _told(service).get("process.roles", "").strip() == "controller"


def _told(service: Service) -> dict[str, str]:
    return properties_of(service.get("environment") or {})


def _zookeepers(services: Mapping[str, Service], brokers: Iterable[str]) -> list[str]:
    """Return the services that run the ZooKeeper of some brokers; none under KRaft."""
    found = _named(services, ZOOKEEPER_LABEL, _ZOOKEEPER_NAME)
    is_asked = any(word is not None for word in found.values())
    if is_asked or any("zookeeper.connect" in _told(services[name]) for name in brokers):
        return sorted(found)
    return []


def _zookeeper(number: int, name: str, service: Service, where: str) -> ForeignNode:
    _reject_unfit(name, service, where)
    environment = service.get("environment") or {}
    told = (service.get("labels") or {}).get(CLIENT_PORT_LABEL)
    ports = [told, *(environment.get(key) for key in _ZOOKEEPER_PORTS), str(ZOOKEEPER_PORT)]
    inner_port = next(int(port) for port in ports if port and str(port).isdecimal())
    return ForeignNode(
        node_id=FIRST_ZOOKEEPER + number,
        service=name,
        kind="zookeeper",
        port=_published(service).get(inner_port),
        inner_port=inner_port,
    )


def _reject_unfit(name: str, service: Service, where: str) -> None:
    """Reject a service that cannot be broken as one node.

    Raises:
        UsageError: it shares a network namespace, or stands for several nodes.
    """
    if str(service.get("network_mode") or "bridge").partition(":")[0] in ("host", "container"):
        raise UsageError(
            f"{where}: {name} has no network of its own (network_mode), so it cannot be cut off; "
            "take network_mode out."
        )
    copies = service.get("scale") or (service.get("deploy") or {}).get("replicas") or 1
    if copies != 1:
        raise UsageError(f"{where}: {name} is scaled to {copies}; write each node as one service.")


def _node(name: str, word: str | None, service: Service, where: str, kind: NodeKind) -> ForeignNode:
    _reject_unfit(name, service, where)
    return ForeignNode(
        node_id=_node_id(name, word, service, where),
        service=name,
        kind=kind,
        port=_published_port(name, service, where) if kind == "broker" else None,
    )


def _node_id(name: str, word: str | None, service: Service, where: str) -> int:
    properties = _told(service)
    number = re.search(r"(\d+)$", name)
    candidates = [word, *(properties.get(key) for key in _ID_PROPERTIES), number and number[1]]
    for candidate in candidates:
        if candidate is None:
            continue
        if candidate.strip().isdecimal():
            return int(candidate)
        raise UsageError(f"{where}: the node id of {name} is {candidate!r}, which is no number.")
    raise UsageError(
        f"{where}: the node id of {name} is not known; set KAFKA_NODE_ID, or label it "
        f'{BROKER_LABEL}: "<node id>".'
    )


def _published(service: Service) -> dict[int, int]:
    """Return the fixed host port of each container port that is published."""
    return {
        int(port["target"]): int(port["published"])
        for port in service.get("ports") or []
        if str(port.get("published") or "").isdecimal() and port.get("protocol", "tcp") == "tcp"
    }


def _published_port(name: str, service: Service, where: str) -> int:
    published = _published(service)
    wanted = (service.get("labels") or {}).get(CLIENT_PORT_LABEL)
    if wanted is not None:
        if not str(wanted).isdecimal() or int(wanted) not in published:
            raise UsageError(
                f"{where}: {name} is labelled {CLIENT_PORT_LABEL}={wanted}, but publishes "
                f"{', '.join(map(str, published)) or 'no port with a fixed host port'}."
            )
        return published[int(wanted)]
    if not published:
        raise UsageError(
            f"{where}: {name} publishes no port with a fixed host port, so no client could reach "
            'it; add ports: ["127.0.0.1:<host port>:<container port>"] and advertise it.'
        )
    if len(published) == 1:
        return next(iter(published.values()))
    advertised = _told(service).get("advertised.listeners", "")
    here = {port for host, port in listeners(advertised).values() if host in _HERE}
    clients = [port for port in published.values() if port in here]
    if len(clients) != 1:
        raise UsageError(
            f"{where}: {name} publishes several ports; label it {CLIENT_PORT_LABEL} with the "
            f"container port for clients: {', '.join(map(str, published))}."
        )
    return clients[0]


# -- Kafka's settings ----------------------------------------------------------------------------


def properties_of(environment: Mapping[str, str | None]) -> dict[str, str]:
    """Return the Kafka properties that the usual images read from `KAFKA_…` or `KAFKA_CFG_…`."""
    properties = {}
    for key, value in environment.items():
        name = key.removeprefix("KAFKA_").removeprefix("CFG_")
        if key.startswith("KAFKA_") and value is not None:
            # The images' own rule: three underscores are a dash, two are an underscore.
            parts = name.lower().replace("___", "-").replace("__", "\0").replace("_", ".")
            properties[parts.replace("\0", "_")] = value.replace("$$", "$")
    return properties


def listeners(text: str) -> dict[str, tuple[str, int]]:
    """Return host and port by listener name of a `listeners` property, in its order."""
    matches = (_LISTENER.fullmatch(part) for part in text.split(","))
    return {match[1]: (match[2], int(match[3])) for match in matches if match}


def replication_port(properties: Mapping[str, str]) -> int | None:
    """Return the port where brokers talk to this one, or None if the properties do not tell."""
    ports = {name: port for name, (_, port) in listeners(properties.get("listeners", "")).items()}
    for name in _split(properties.get("controller.listener.names", "")):
        ports.pop(name, None)
    wanted = properties.get("inter.broker.listener.name") or properties.get(
        "security.inter.broker.protocol", "PLAINTEXT"
    )
    return ports.get(wanted) or (next(iter(ports.values())) if len(ports) == 1 else None)


def controller_port(properties: Mapping[str, str]) -> int | None:
    """Return the port of the controller listener, or None if it has or tells none."""
    known = listeners(properties.get("listeners", ""))
    names = _split(properties.get("controller.listener.names", ""))
    return next((known[name][1] for name in names if name in known), None)


def metadata_folder(properties: Mapping[str, str]) -> str | None:
    """Return the folder of the metadata log, or None if the properties do not tell."""
    folders = data_folders(properties)
    return properties.get("metadata.log.dir") or (folders[0] if folders else None)


def data_folders(properties: Mapping[str, str]) -> Sequence[str]:
    """Return the log folders that the properties name."""
    folders = _split(properties.get("log.dirs") or properties.get("log.dir") or "")
    return [folder.rstrip("/") for folder in folders]


def _split(text: str) -> Sequence[str]:
    parts: Iterable[str] = (part.strip() for part in text.split(","))
    return [part for part in parts if part]
