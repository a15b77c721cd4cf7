"""Heals and removes what any run left behind, found by label."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
from docker.models.containers import Container

from harness.agent import Agent
from harness.core.errors import ClusterBroken, EnvironmentBroken, HealFailed

LABEL = "kafka-chaos"
RUN_LABEL = "kafka-chaos.run"
OWNER_LABEL = "kafka-chaos.owner"
AGENT_LABEL = "kafka-chaos.agent"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did: sentences, and how many objects of which kind it removed."""

    healed: tuple[str, ...] = ()
    containers: int = 0
    networks: int = 0
    volumes: int = 0


def owner() -> str:
    """Return a name for this process that no later process will have on this machine."""
    return f"{os.getpid()}@{_start_ticks(os.getpid())}"


def heal(*, say: Say) -> Swept:
    """Heal whatever any run left broken, through the agents that still hold leases.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: an agent could not heal.
    """
    engine = _engine()
    healed: list[str] = []
    failures = []
    for container in engine.containers.list(filters={"label": AGENT_LABEL}):
        try:
            done = Agent(container).heal_all()
        except ClusterBroken as error:
            failures.append(f"{container.name}: {error}")
            continue
        for entry in done:
            say(f"{container.name}: {entry}")
        healed += done
    if failures:
        raise HealFailed(f"Not everything could be healed: {' '.join(failures)}")
    return Swept(healed=tuple(healed))


def clean(*, everything: bool, say: Say) -> Swept:
    """Remove containers, networks and volumes of runs whose harness is gone.

    Args:
        everything: also of runs that still go on.
        say: called with a sentence for each thing removed.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: something could not be removed.
    """
    engine = _engine()
    busy = set() if everything else _busy_runs(engine.containers.list(filters={"label": LABEL}))
    failures: list[str] = []
    counts = {}
    for kind, collection in (
        ("container", engine.containers),
        ("network", engine.networks),
        ("volume", engine.volumes),
    ):
        listed = (
            collection.list(all=True, filters={"label": LABEL})
            if kind == "container"
            else collection.list(filters={"label": LABEL})
        )
        counts[kind] = 0
        for entry in listed:
            if _run_of(entry) in busy:
                continue
            try:
                if kind == "container":
                    entry.remove(force=True, v=True)
                else:
                    entry.remove()
            except docker.errors.NotFound:
                continue
            except docker.errors.APIError as error:
                failures.append(f"{kind} {entry.name}: {error.explanation}")
                continue
            counts[kind] += 1
            say(f"removed {kind} {entry.name}")
    for run in sorted(busy):
        say(f"left alone: {run} still goes on (--all removes it too)")
    if failures:
        raise HealFailed(f"Not everything could be removed: {'; '.join(failures)}")
    return Swept(
        containers=counts["container"], networks=counts["network"], volumes=counts["volume"]
    )


def _engine() -> docker.DockerClient:
    try:
        engine = docker.from_env(timeout=30)
        engine.ping()
    except docker.errors.DockerException as error:
        raise EnvironmentBroken(
            f"The Docker engine does not answer ({error}): `kafka-chaos doctor --fix` starts it."
        ) from error
    return engine


def _run_of(entry: object) -> str:
    attributes = getattr(entry, "attrs", {})
    labels = attributes.get("Labels") or attributes.get("Config", {}).get("Labels") or {}
    return str(labels.get(RUN_LABEL, ""))


def _busy_runs(containers: list[Container]) -> set[str]:
    """Return the runs whose owner is still the process that it was."""
    busy = set()
    for container in containers:
        pid, _, ticks = container.labels.get(OWNER_LABEL, "").partition("@")
        if pid.isdigit() and _start_ticks(int(pid)) == ticks:
            busy.add(container.labels.get(RUN_LABEL, ""))
    return busy


def _start_ticks(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # The command in brackets may hold spaces; field 22 is the 20th after it.
    return text.rpartition(")")[2].split()[19]
