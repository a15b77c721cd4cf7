"""Heals and removes what any run left behind, found by label."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import docker.errors
from docker.models.containers import Container

from harness.cluster.agent import Agent
from harness.cluster.engine import connect
from harness.core.errors import ClusterBroken, HealFailed
from harness.core.progress import Say

LABEL = "kafka-chaos"
RUN_LABEL = "kafka-chaos.run"
OWNER_LABEL = "kafka-chaos.owner"
AGENT_LABEL = "kafka-chaos.agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """What was healed, in sentences, and how many objects of which kind were removed."""

    healed: tuple[str, ...] = ()
    containers: int = 0
    networks: int = 0
    volumes: int = 0


def owner() -> str:
    """Return a name for this process that no later process will have on this machine."""
    return f"{os.getpid()}@{_start_ticks(os.getpid())}"


def heal(*, say: Say) -> Cleanup:
    """Heal whatever any run left broken, through the agents that still hold leases.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: an agent could not heal.
    """
    engine = connect(timeout_s=30)
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
    return Cleanup(healed=tuple(healed))


def is_running(owner: str) -> bool:
    """Return whether the process of this name still runs."""
    pid, _, ticks = owner.partition("@")
    return pid.isdigit() and _start_ticks(int(pid)) == ticks


def clean(*, everything: bool = False, owner: str | None = None, say: Say) -> Cleanup:
    """Remove containers, networks and volumes of runs whose harness is gone.

    Args:
        everything: also of runs that still go on.
        owner: only of runs of this process.
        say: called with a sentence for each thing removed.

    Raises:
        EnvironmentBroken: there is no engine to ask.
        HealFailed: something could not be removed.
    """
    engine = connect(timeout_s=30)
    busy = set() if everything else _busy_runs(engine.containers.list(filters={"label": LABEL}))
    failures: list[str] = []
    labelled: dict[str, str | list[str] | bool] = {"label": LABEL}
    found: list[tuple[str, Any, Callable[[], None]]] = [
        *(
            ("container", entry, partial(entry.remove, force=True, v=True))
            for entry in engine.containers.list(all=True, filters=labelled)
        ),
        *(("network", e, e.remove) for e in engine.networks.list(filters=labelled)),
        *(("volume", e, e.remove) for e in engine.volumes.list(filters=labelled)),
    ]
    counts = dict.fromkeys(("container", "network", "volume"), 0)
    owned = {
        _run_of(entry)
        for kind, entry, _ in found
        if kind == "container" and entry.labels.get(OWNER_LABEL) == owner
    }
    for kind, entry, remove in found:
        if _run_of(entry) in busy or (owner is not None and _run_of(entry) not in owned):
            continue
        try:
            remove()
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
    return Cleanup(
        containers=counts["container"], networks=counts["network"], volumes=counts["volume"]
    )


def _run_of(entry: object) -> str:
    attributes = getattr(entry, "attrs", {})
    labels = attributes.get("Labels") or attributes.get("Config", {}).get("Labels") or {}
    return str(labels.get(RUN_LABEL, ""))


def _busy_runs(containers: list[Container]) -> set[str]:
    """Return the runs whose owner is still the process that it was."""
    busy = set()
    for container in containers:
        if is_running(container.labels.get(OWNER_LABEL, "")):
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
