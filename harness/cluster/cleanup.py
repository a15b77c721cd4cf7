"""Heals and removes what any run left behind, found by label."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker.errors
from docker.models.containers import Container

from harness.cluster.agent import Agent
from harness.cluster.containers import PROJECT_LABEL
from harness.core.errors import HealFailed, KafkaChaosError
from harness.core.progress import Say
from harness.machine.engine import ENGINE_ERRORS, connect

LABEL = "kafka-chaos"
RUN_LABEL = "kafka-chaos.run"
OWNER_LABEL = "kafka-chaos.owner"
AGENT_LABEL = "kafka-chaos.agent"

_LABELLED: dict[str, str | list[str] | bool] = {"label": LABEL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """How many objects of which kind were removed."""

    containers: int = 0
    networks: int = 0
    volumes: int = 0


def owner() -> str:
    """Return a name for this process that no later process will have on this machine."""
    return f"{os.getpid()}@{_start_ticks(os.getpid())}"


def is_running(owner: str) -> bool:
    """Return whether the process of this name still runs, and not a later one of its number."""
    pid, _, ticks = owner.partition("@")
    return pid.isdigit() and ticks != "" and _start_ticks(int(pid)) == ticks


def heal(*, say: Say) -> list[str]:
    """Heal what any run has broken, through the fault agents; return what was healed, in words.

    Runs that still go on are healed too, and know nothing of it. An agent that has ended is started
    again: its leases outlive it.

    Args:
        say: is told whose faults are healed.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: an agent could not heal, or could not be reached.
    """
    clusters: dict[str, list[Container]] = defaultdict(list)
    for container in _containers(connect(timeout_s=30)):
        if project := container.labels.get(PROJECT_LABEL):
            clusters[project].append(container)
    healed: list[str] = []
    failures: list[str] = []
    for project, containers in sorted(clusters.items()):
        labels = containers[0].labels
        state = "still goes on" if is_running(labels.get(OWNER_LABEL, "")) else "has ended"
        whose = f"run {labels.get(RUN_LABEL)}, which {state} ({project})"
        try:
            actions = _heal_cluster(containers)
        except (KafkaChaosError, *ENGINE_ERRORS) as error:
            failures.append(f"{whose}: {error}")
            continue
        for action in actions:
            healed.append(f"{whose}: {action}")
            say(healed[-1])
    if failures:
        raise HealFailed(f"Not everything could be healed: {' '.join(failures)}")
    return healed


def _heal_cluster(containers: list[Container]) -> list[str]:
    """Heal one cluster, and return what was done.

    Raises:
        ClusterBroken: the agent could not heal.
        HealFailed: there is no agent.
    """
    agents = [container for container in containers if AGENT_LABEL in container.labels]
    nodes = [container for container in containers if AGENT_LABEL not in container.labels]
    if not any(node.status in ("running", "paused") for node in nodes):
        # What was broken in a container has gone with it.
        return []
    if not agents:
        if is_running(containers[0].labels.get(OWNER_LABEL, "")):
            # Its run is just starting the cluster, or removing it.
            return []
        raise HealFailed("its fault agent is gone; `kafka-chaos clean` removes what is left.")
    (agent,) = agents
    if agent.status != "running":
        agent.start()
    with closing(Agent(agent)) as client:
        return client.heal_all()


def clean(*, everything: bool = False, owner: str | None = None, say: Say) -> Removed:
    """Remove containers, networks and volumes of runs whose harness is gone.

    What is broken goes with the containers: nothing need be healed before.

    Args:
        everything: also of runs that still go on.
        owner: only of runs of this process.
        say: called with a sentence for each thing removed.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: something could not be removed.
    """
    engine = connect(timeout_s=30)
    failures: list[str] = []
    labelled: list[tuple[str, Any, dict[str, bool]]] = [
        *(("container", entry, {"force": True, "v": True}) for entry in _containers(engine)),
        *(("network", entry, {}) for entry in engine.networks.list(filters=_LABELLED)),
        *(("volume", entry, {}) for entry in engine.volumes.list(filters=_LABELLED)),
    ]
    counts = Counter[str]()
    left_alone = set()
    for kind, entry, how in labelled:
        labels = _labels_of(entry)
        made_by = labels.get(OWNER_LABEL, "")
        if owner not in (None, made_by):
            continue
        if is_running(made_by) and not everything:
            left_alone.add(labels.get(RUN_LABEL, ""))
            continue
        try:
            entry.remove(**how)
        except docker.errors.NotFound:
            continue
        except docker.errors.APIError as error:
            failures.append(f"{kind} {entry.name}: {error.explanation}")
            continue
        counts[f"{kind}s"] += 1
        say(f"removed {kind} {entry.name}")
    for run in sorted(left_alone):
        say(f"left alone: run {run} still goes on (--all removes it too)")
    if failures:
        raise HealFailed(f"Not everything could be removed: {'; '.join(failures)}")
    return Removed(**counts)


def _containers(engine: docker.DockerClient) -> list[Container]:
    # Each is inspected after all were listed: a run that ends meanwhile removes its own.
    return engine.containers.list(all=True, filters=_LABELLED, ignore_removed=True)


def _labels_of(entry: object) -> Mapping[str, str]:
    attributes = getattr(entry, "attrs", {})
    return attributes.get("Labels") or attributes.get("Config", {}).get("Labels") or {}


def _start_ticks(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; empty if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # The command in brackets may hold spaces; field 22 is the 20th after it.
    return text.rpartition(")")[2].split()[19]
