"""The containers of one cluster, as Compose starts them and the engine knows them."""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import docker.errors
from docker.models.containers import Container
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed
from testcontainers.compose import DockerCompose

from harness.cluster.topology import Topology
from harness.cluster.user_topology import explain_collision
from harness.core.errors import ClusterBroken, EnvironmentBroken
from harness.machine.engine import ENGINE_ERRORS, connect
from harness.machine.programs import run

PROJECT_LABEL = "com.docker.compose.project"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainer:
    """The container of a node; it stays the same as long as the cluster lives.

    Attributes:
        container: as the engine knows it.
        pid: its first process, in the engine's root pid namespace.
        addresses: IP address by network.
    """

    container: Container
    pid: int
    addresses: Mapping[str, str]

    @classmethod
    def of(cls, container: Container) -> "NodeContainer":
        """Return what the engine tells of a running container."""
        networks = container.attrs["NetworkSettings"]["Networks"]
        return cls(
            container=container,
            pid=int(container.attrs["State"]["Pid"]),
            addresses={name: network["IPAddress"] for name, network in networks.items()},
        )

    def address_from(self, other: "NodeContainer") -> str:
        """Return the address on a network that the other is on too, if there is one."""
        shared = [ip for network, ip in self.addresses.items() if network in other.addresses]
        return (shared or list(self.addresses.values()))[0]


@dataclass
class Compose(DockerCompose):
    """`docker compose`, ended when it takes too long.

    Attributes:
        limit_s: how long one command may take, seconds.
        secrets: variables of its environment.
    """

    limit_s: float = 120.0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def _run_command(
        self, cmd: str | list[str], context: str | None = None
    ) -> CompletedProcess[bytes]:
        """Run one command to its end.

        Raises:
            ClusterBroken: it failed, or took too long and was killed.
        """
        command = [cmd] if isinstance(cmd, str) else cmd
        try:
            done = run(
                command,
                timeout_s=self.limit_s,
                folder=Path(context or self.context),
                variables=self.secrets,
            )
        except EnvironmentBroken as error:
            raise ClusterBroken(str(error)) from error
        if done.returncode != 0:
            raise ClusterBroken(
                explain_collision(done.stderr)
                or f"`{' '.join(command)}` failed: {done.stderr.strip()[-800:]}"
            )
        return CompletedProcess(command, 0, done.stdout.encode(), done.stderr.encode())


class ComposeProject:
    """Starts and removes the containers of a topology.

    Args:
        topology: whose.
        compose_file: its rendered file.
        limit_s: how long `docker compose` may take, seconds.
        is_private: whether the folder of the file is there for it alone, and goes with the cluster.
    """

    def __init__(
        self, topology: Topology, compose_file: Path, *, limit_s: float, is_private: bool = False
    ) -> None:
        self._topology = topology
        self._private = compose_file.parent if is_private else None
        self._compose = Compose(
            compose_file.parent,
            compose_file_name=compose_file.name,
            pull=False,
            wait=False,
            limit_s=limit_s,
            secrets=topology.secrets,
        )
        # What the environment may say of project names is not meant for ours.
        self._compose.compose_command_property.extend(["--project-name", topology.project])
        self._engine = connect()

    def start(self) -> None:
        """Start everything; returns when the containers run, not when Kafka does.

        Raises:
            ClusterBroken: Compose failed, or took too long.
        """
        self._compose.start()

    @retry(
        retry=retry_if_exception_type(ClusterBroken),
        stop=stop_after_attempt(3),
        wait=wait_fixed(0.5),
        reraise=True,
    )
    def find(self, name: str) -> Container:
        """Return a container by its name.

        Raises:
            ClusterBroken: the engine does not have it.
        """
        try:
            return self._engine.containers.get(name)
        except ENGINE_ERRORS as error:
            raise ClusterBroken(f"The engine has no container {name}: {error}") from error

    def remove(self) -> None:
        """Remove containers, networks and volumes.

        Raises:
            ClusterBroken: something is left; `kafka-chaos clean` finds it by its label.
        """
        # By label and not by name: a fixed name may belong to a container of somebody else.
        label: dict[str, str | list[str] | bool] = {
            "label": f"{PROJECT_LABEL}={self._topology.project}"
        }
        with contextlib.suppress(*ENGINE_ERRORS):
            for container in self._engine.containers.list(filters=label, ignore_removed=True):
                # Nothing here needs a polite end: the data goes with the volumes.
                with contextlib.suppress(docker.errors.APIError):
                    container.kill()
        self._compose.stop()
        if self._private:
            shutil.rmtree(self._private, ignore_errors=True)
        self._engine.close()
