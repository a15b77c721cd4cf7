"""The cluster of a user's own Compose file, arranged so that it can be broken and healed.

The brokers' images stay as they are. Our supervisor is mounted into each node and wraps the
node's own command, so that the container outlives the JVM; the project gets a name, networks and
volumes of its own, so that a cluster which the user runs from the same file is never touched.
"""

import copy
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from harness.cluster.agent import Jvm
from harness.cluster.topology import Node, Topology, free_ports
from harness.cluster.user_compose import (
    ComposeFile,
    ForeignNode,
    Service,
    controller_port,
    data_folders,
    metadata_folder,
    properties_of,
    replication_port,
)
from harness.core.cache import cache_folder
from harness.core.errors import EnvironmentBroken
from harness.core.progress import Say
from harness.machine.images import compose_folder
from harness.machine.programs import last_words, run, run_logged
from harness.machine.templates import agent_service

ADDED_GC_LOG = "/tmp/kafka-chaos-gc-%p.log"  # noqa: S108  # where every image's user may write

_SUPERVISOR = "/opt/kafka-chaos/supervisor"
_RUN_FOLDER = "/run/kafka-chaos"
_INSPECT_S = 60.0
_FETCH_S = 900.0
# Each JVM writes a file of its own: Kafka's tools, which a health check starts in the same
# container, would empty a common one. Decorations as in our own image.
_GC_LOG_FLAG = f"-Xlog:gc*:file={ADDED_GC_LOG}:uptimemillis,timenanos,tags:filecount=0"
# Kafka's scripts make a collection that is asked for run beside the program, without a pause.
_PAUSE_FLAG = "-XX:-ExplicitGCInvokesConcurrent"
_USUAL_DATA = (
    "/var/lib/kafka/data",
    "/bitnami/kafka",
    "/tmp/kraft-combined-logs",  # noqa: S108
    # ZooKeeper's, as Confluent's image, Bitnami's and its own have them.
    "/var/lib/zookeeper/data",
    "/var/lib/zookeeper/log",
    "/bitnami/zookeeper",
    "/data",
    "/datalog",
)
_GC_LOG_WORD = re.compile(r"-Xlog:[^:]*\bgc\b[^:]*:(?:file=)?\"?([^:\"]+)|-Xloggc:(.+)")
_JAR = re.compile(r"kafka-(?:server-common|clients)-(\d[\w.+-]*)\.jar")
_SECRET = re.compile(r"(?i)passw|secret|jaas|token|credential|private|ssl_key|ssl\.key")
"""Names of settings that no run folder may hold the values of."""
_LOGIN = re.compile(r"LoginModule|(?i:password|secret)\s*=")
"""What a text holds that has a login in it, whatever its name."""
HIDDEN = "(hidden: a secret)"
_COLLISIONS = (
    (re.compile(r"container name \"?/?([\w.-]+)\"? is already in use"), "container name"),
    (re.compile(r":(\d+)\b\D*?(?:port is already allocated|address already in use)"), "host port"),
    (re.compile(r"(Pool overlaps)"), "range of addresses"),
)


ImageConfig = Mapping[str, Any]
"""What an image does by itself: `Config` as `docker image inspect` prints it."""


def image_config(file: ComposeFile, node: ForeignNode, *, say: Say) -> ImageConfig:
    """Return what the image of a node does by itself; it is fetched if it is not here yet.

    Raises:
        EnvironmentBroken: it can be neither found, fetched nor built.
    """
    service = file.document["services"][node.service]
    # Compose itself names an image after the project if the file does not.
    image = service.get("image") or f"{file.document['name']}-{node.service}"
    inspect = ["docker", "image", "inspect", "--format", "{{json .Config}}", image]
    done = run(inspect, timeout_s=_INSPECT_S)
    if done.returncode != 0:
        verb = "build" if service.get("build") else "pull"
        run_logged(
            ["docker", "compose", "-f", str(file.path), verb, node.service],
            log=cache_folder() / "compose-image.log",
            timeout_s=_FETCH_S,
            what=f"the image {image} available",
            say=say,
        )
        done = run(inspect, timeout_s=_INSPECT_S)
    if done.returncode != 0:
        raise EnvironmentBroken(f"The image {image} of {node.service}: {last_words(done)}")
    config: ImageConfig = json.loads(done.stdout)
    return config


def arrange(
    file: ComposeFile,
    images: Mapping[str, ImageConfig],
    *,
    labels: Mapping[str, str],
    agent_image: str,
    say: Say,
) -> Topology:
    """Return the changed Compose document and its nodes.

    Args:
        file: what was read; it stays as it is.
        images: of each node, by service.
        labels: for everything that is made.
        agent_image: fault-agent image.
        say: is told what was changed.
    """
    document = copy.deepcopy(file.document)
    project = f"kc-{uuid.uuid4().hex[:8]}"
    say(_about_flags(file.nodes))
    nodes, chroot = [], ""
    _make_private(document, labels, say)
    for node in file.nodes:
        service = document["services"][node.service]
        image = images[node.service]
        environment = dict(entry.partition("=")[::2] for entry in image.get("Env") or [])
        service.setdefault("image", f"{file.document['name']}-{node.service}")
        service["container_name"] = service.get("container_name") or f"{project}-{node.service}"
        told = properties_of(environment) | properties_of(service.get("environment") or {})
        _wrap(service, image)
        _add_flags(service, environment)
        _give_own_data(document, node.service, told, labels, say)
        if node.kind == "zookeeper" and node.port is None:
            node = _published(node, service)
        nodes.append(_node(node, service, told))
        if node.kind == "broker":
            _, slash, path = told.get("zookeeper.connect", "").partition("/")
            chroot = f"{slash}{path}".rstrip("/")
    for service in document["services"].values():
        service["labels"] = {**(service.get("labels") or {}), **labels}
        service.pop("profiles", None)
    agent = f"{project}-agent"
    document["services"]["kafka-chaos-agent"] = agent_service(
        agent, image=agent_image, labels=labels
    )
    document["name"] = project
    header = f"# {file.path.name}, as kafka-chaos changed and started it.\n"

    def written(document: Mapping[str, Any]) -> str:
        return header + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)

    shown = without_secrets(document)
    return Topology(
        project=project,
        compose=written(document),
        nodes=tuple(nodes),
        agent=agent,
        chroot=chroot,
        shown=written(shown) if shown != document else None,
    )


def without_secrets(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Compose document with the values hidden whose names say that they are secret.

    Extensions are part of it: what services share is often written there.
    """
    shown: dict[str, Any] = _hidden(document)
    return shown


def _hidden(part: Any, name: str = "") -> Any:  # noqa: ANN401 (any part of a document)
    if isinstance(part, Mapping):
        return {key: _hidden(value, str(key)) for key, value in part.items()}
    if isinstance(part, list):
        return [_hidden(each) for each in part]
    if isinstance(part, str) and part and (_SECRET.search(name) or _LOGIN.search(part)):
        return HIDDEN
    return part


def _about_flags(nodes: Sequence[ForeignNode]) -> str:
    names = ", ".join(node.service for node in nodes)
    return (
        f"Added to {names}: our supervisor around the command, a GC log of our own "
        f"(JDK_JAVA_OPTIONS: {_GC_LOG_FLAG}), and {_PAUSE_FLAG} (KAFKA_OPTS)."
    )


def _make_private(document: dict[str, Any], labels: Mapping[str, str], say: Say) -> None:
    """Give the project networks and volumes of its own, whatever they are called elsewhere."""
    for kind in ("networks", "volumes"):
        for name, settings in (document.get(kind) or {}).items():
            before = settings or {}
            if kind == "volumes" and before.get("external"):
                continue
            if before.get("external"):
                say(f"The external network {name} is left alone: the run gets its own.")
            own = {k: v for k, v in before.items() if k not in ("name", "external", "labels")}
            document[kind][name] = {**own, "labels": dict(labels)}


def _give_own_data(
    document: dict[str, Any],
    name: str,
    told: Mapping[str, str],
    labels: Mapping[str, str],
    say: Say,
) -> None:
    """Replace a folder or an outside volume that holds a node's data by a fresh volume."""
    service = document["services"][name]
    data = [*data_folders(told), *_USUAL_DATA]
    for number, mount in enumerate(service.get("volumes") or []):
        outside = mount["type"] == "bind" or (
            document.get("volumes", {}).get(mount.get("source") or "", {}).get("external")
        )
        target = mount["target"].rstrip("/")
        if not outside or not any(f"{folder}/".startswith(f"{target}/") for folder in data):
            continue
        fresh = f"{name}-data-{number}"
        service["volumes"][number] = {"type": "volume", "source": fresh, "target": target}
        document.setdefault("volumes", {})[fresh] = {"labels": dict(labels)}
        say(f"{mount['source']} is left alone: {name} keeps its data in a volume of the run.")


def _wrap(service: Service, image: ImageConfig) -> None:
    """Put our supervisor in front of the node's own command."""
    own_entry, own_command = service.get("entrypoint"), service.get("command")
    if own_entry is None:
        entry = [_escape(word) for word in image.get("Entrypoint") or []]
        command = own_command or [_escape(word) for word in image.get("Cmd") or []]
    else:
        # As in Docker: who sets an entry point does not get the image's command.
        entry, command = list(own_entry), own_command or []
    service["entrypoint"] = ["/bin/bash", _SUPERVISOR, *entry, *command]
    service["command"] = []
    service["restart"] = "no"
    (service.get("deploy") or {}).pop("restart_policy", None)
    source = _escape(str(compose_folder() / "broker" / "supervisor"))
    bound = {"type": "bind", "source": source, "target": _SUPERVISOR, "read_only": True}
    service["volumes"] = [*(service.get("volumes") or []), bound]
    # The image's user may be anyone, so the supervisor's folder is made by the engine.
    service["tmpfs"] = [*(service.get("tmpfs") or []), f"{_RUN_FOLDER}:mode=0777"]


def _add_flags(service: Service, of_image: Mapping[str, str]) -> None:
    """Have every JVM of JDK 9 and later log its collections, and make asked-for ones pause."""
    environment = dict(service.get("environment") or {})
    # JDK_JAVA_OPTIONS is read by the launcher of JDK 9 and later only; JAVA_TOOL_OPTIONS would
    # keep Java 8, which has no -Xlog, from starting at all.
    for name, flag in (("JDK_JAVA_OPTIONS", _GC_LOG_FLAG), ("KAFKA_OPTS", _PAUSE_FLAG)):
        before = environment.get(name)
        if before is None:
            before = _escape(of_image.get(name, ""))
        environment[name] = f"{before} {flag}".strip()
    service["environment"] = environment


def _published(node: ForeignNode, service: Service) -> ForeignNode:
    """Publish a ZooKeeper's client port on a free port of this machine."""
    (port,) = free_ports(1)
    service["ports"] = [
        *(service.get("ports") or []),
        {"mode": "ingress", "host_ip": "127.0.0.1", "target": node.inner_port,
         "published": str(port), "protocol": "tcp"},
    ]  # fmt: skip
    return replace(node, port=port)


def _node(node: ForeignNode, service: Service, told: Mapping[str, str]) -> Node:
    labels = service.get("labels") or {}
    return Node(
        node_id=node.node_id,
        service=node.service,
        container=service["container_name"],
        port=node.port,
        kind=node.kind,
        replication_port=_number(labels.get("kafka-chaos.replication-port"))
        or replication_port(told),
        controller_port=node.inner_port
        or _number(labels.get("kafka-chaos.controller-port"))
        or controller_port(told),
        data=labels.get("kafka-chaos.data-dir") or metadata_folder(told),
        gc_log=labels.get("kafka-chaos.gc-log") or ADDED_GC_LOG,
        server_log=labels.get("kafka-chaos.server-log"),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _escape(text: str) -> str:
    return text.replace("$", "$$")


# -- what only the running cluster tells -----------------------------------------------------------


def complete(
    node: Node, settings: Mapping[str, str], jvm: Jvm | None, *, has_added_log: bool
) -> Node:
    """Return a node with what its file did not say, as the running broker says it.

    Args:
        node: as arranged.
        settings: the broker's effective configuration; empty for an isolated controller.
        jvm: how its JVM was started.
        has_added_log: whether the GC log that we asked for is being written.
    """
    gc_log = node.gc_log
    if gc_log == ADDED_GC_LOG and not has_added_log:
        gc_log = gc_log_of(jvm.words) if jvm else None
    return replace(
        node,
        replication_port=node.replication_port or replication_port(settings),
        controller_port=node.controller_port or controller_port(settings),
        data=node.data or metadata_folder(settings),
        gc_log=gc_log,
    )


def gc_log_of(words: Sequence[str]) -> str | None:
    """Return the GC log that a JVM's command line names, or None; the last one counts."""
    matches = [match for word in words if (match := _GC_LOG_WORD.fullmatch(_bare(word)))]
    paths = [match[1] or match[2] for match in matches]
    # A time of start in the name is not known here, and standard output is no file.
    known = [p for p in paths if "%t" not in p and p.startswith("/")]
    return known[-1] if known else None


def _bare(word: str) -> str:
    """Return an -Xlog word without decorations and output options."""
    parts = word.split(":")
    return ":".join(parts[:3]) if word.startswith("-Xlog:") else word


def kafka_version(jvms: Sequence[Jvm | None]) -> str:
    """Return the version in the names of the brokers' jars; "unknown" if they tell none.

    Brokers of several versions are named all, oldest name first.
    """
    versions = {
        match[1]
        for jvm in jvms
        if jvm
        for text in (*jvm.jars, *jvm.words)
        for match in _JAR.finditer(text)
    }
    return " and ".join(sorted(versions)) or "unknown"


def explain_collision(words: str) -> str | None:
    """Return one sentence for Compose's complaint that a fixed name or port is taken, or None."""
    for pattern, kind in _COLLISIONS:
        if match := pattern.search(words):
            what = kind if match[1] == "Pool overlaps" else f"{kind} {match[1]}"
            return (
                f"The {what} that the Compose file fixes is taken already: end what uses it "
                "(perhaps the same cluster, started by hand), or change it in the file."
            )
    return None
