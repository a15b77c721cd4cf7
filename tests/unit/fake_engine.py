"""A Docker engine in memory, for what is found by label, healed and removed."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import docker.errors

from tests.unit.agent_stream import agent_stream

PROJECT = "com.docker.compose.project"


@dataclass
class FakeObject:
    """A container, a network or a volume; an agent's container answers its verbs."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    status: str = "running"
    id: str = "x"
    healed: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    is_stuck: bool = False
    asked: list[str] = field(default_factory=list)
    gone: bool = False
    goes_meanwhile: bool = False
    """Whether it is listed, and gone when it is inspected."""

    @property
    def attrs(self) -> dict[str, Any]:
        return {"Labels": self.labels}

    @property
    def client(self) -> Any:
        return SimpleNamespace(api=self)

    def start(self) -> None:
        if self.is_stuck:
            raise docker.errors.APIError("it cannot be started")
        self.status = "running"

    def remove(self, **_: bool) -> None:
        if self.is_stuck:
            raise docker.errors.APIError("in use", explanation="it is in use")
        self.gone = True

    def exec_create(self, _: str, command: list[str], *, stdin: bool) -> dict[str, str]:
        assert (command, stdin) == (["agent.py", "serve"], True)
        if self.status != "running":
            raise docker.errors.APIError("container is not running")
        return {"Id": "e"}

    def exec_start(self, _: str, *, socket: bool) -> Any:
        assert socket
        return agent_stream(self._answer)

    def _answer(self, request: str) -> str:
        self.asked.append(request)
        return json.dumps({"error": self.error} if self.error else {"healed": self.healed})


class FakeEngine:
    """An engine with these containers, networks and volumes."""

    def __init__(
        self,
        *containers: FakeObject,
        networks: tuple[FakeObject, ...] = (),
        volumes: tuple[FakeObject, ...] = (),
    ) -> None:
        self.containers = _Listed(containers)
        self.networks = _Listed(networks)
        self.volumes = _Listed(volumes)


class _Listed:
    def __init__(self, objects: tuple[FakeObject, ...]) -> None:
        self._objects = objects

    def list(
        self, *, filters: dict[str, str], all: bool = False, ignore_removed: bool = False
    ) -> list[FakeObject]:
        listed = [
            entry
            for entry in self._objects
            if filters["label"] in entry.labels and (all or entry.status == "running")
        ]
        if any(entry.goes_meanwhile for entry in listed) and not ignore_removed:
            raise docker.errors.NotFound("no such container")
        return [entry for entry in listed if not entry.goes_meanwhile]
