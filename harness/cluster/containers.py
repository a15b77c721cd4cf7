"""The containers of one cluster, as Compose starts them and the engine knows them."""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import docker.errors
from docker.models.containers import Container
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed
from testcontainers.compose import DockerCompose

from harness.cluster.engine import connect
from harness.cluster.topology import Node, Topology
from harness.cluster.user_topology import explain_collision
from harness.core.errors import ClusterBroken

_PROJECT_LABEL = "com.docker.compose.project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node runs; it stays the same as long as its container lives.

    Attributes:
        container: of the node.
        pid: its first process, in the engine's root pid namespace.
        addresses: IP address by network.
    """

    container: Container
    pid: int
    addresses: Mapping[str, str]

    def address_from(self, other: "Place") -> str:
        """Return the address on a network that the other is on too, if there is one."""
        shared = [ip for network, ip in self.addresses.items() if network in other.addresses]
        return (shared or list(self.addresses.values()))[0]


class ComposeProject:
    """Starts and removes the containers of a topology.

    Args:
        topology: whose.
        compose_file: its rendered file.
        limit_s: how long `docker compose` may take, seconds.
    """

    def __init__(self, topology: Topology, compose_file: Path, *, limit_s: float) -> None:
        self._topology = topology
        self._limit_s = limit_s
        self._compose = DockerCompose(
            compose_file.parent, compose_file_name=compose_file.name, pull=False, wait=False
        )
        # What the environment may say of project names is not meant for ours.
        self._compose.compose_command_property.extend(["--project-name", topology.project])
        self._docker = connect()

    def start(self) -> None:
        """Start everything; returns when the containers run, not when Kafka does.

        Raises:
            ClusterBroken: Compose failed, or took too long.
        """
        self._bounded(self._compose.start, "docker compose up")

    @retry(
        retry=retry_if_exception_type(docker.errors.APIError),
        stop=stop_after_attempt(3),
        wait=wait_fixed(0.5),
        reraise=True,
    )
    def find(self, node: Node) -> Place:
        """Return where a node runs."""
        container = self._docker.containers.get(node.container)
        networks = container.attrs["NetworkSettings"]["Networks"]
        return Place(
            container=container,
            pid=int(container.attrs["State"]["Pid"]),
            addresses={name: network["IPAddress"] for name, network in networks.items()},
        )

    def agent(self) -> Container:
        """Return the container of the fault agent."""
        return self._docker.containers.get(self._topology.agent)

    def remove(self) -> None:
        """Remove containers, networks and volumes.

        Raises:
            ClusterBroken: something is left; `kafka-chaos clean` finds it by its label.
        """
        # By label and not by name: a fixed name may belong to a container of somebody else.
        ours: dict[str, str | list[str] | bool] = {
            "label": f"{_PROJECT_LABEL}={self._topology.project}"
        }
        for container in self._docker.containers.list(filters=ours):
            # Nothing here needs a polite end: the data goes with the volumes.
            with contextlib.suppress(docker.errors.APIError):
                container.kill()
        self._bounded(self._compose.stop, "docker compose down")
        self._docker.close()

    def _bounded(self, call: Callable[[], None], what: str) -> None:
        """Run a call of a library that knows no time limit, with one."""
        failure: list[BaseException] = []

        def work() -> None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 (handed to the caller below)
                failure.append(error)

        thread = threading.Thread(target=work, daemon=True, name=what)
        thread.start()
        thread.join(self._limit_s)
        if thread.is_alive():
            raise ClusterBroken(f"`{what}` did not end within {self._limit_s:g} s.")
        if failure:
            words = getattr(failure[0], "stderr", None)
            text = words.decode(errors="replace") if words else str(failure[0])
            raise ClusterBroken(
                explain_collision(text) or f"`{what}` failed: {text.strip()[-800:]}"
            ) from failure[0]
