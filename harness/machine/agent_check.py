"""A rehearsal of the fault agent in scratch containers: real rules, a lease that really ends."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from docker.models.containers import Container

from harness.core.errors import EnvironmentBroken
from harness.core.wait import wait_until
from harness.machine.engine import ENGINE_ERRORS, connect
from harness.machine.templates import agent_service

_LEASE_S = 1.0
_PEER = "192.0.2.1"
"""An address that belongs to nobody (RFC 5737)."""


def try_agent(agent_image: str, victim_image: str) -> str:
    """Cut a scratch container off, see the rules, and see the agent heal it by itself.

    Args:
        agent_image: the fault agent.
        victim_image: any image with a `sleep`.

    Returns:
        What works.

    Raises:
        EnvironmentBroken: something that every run needs does not work.
    """
    service = agent_service("agent", image=agent_image, labels={"kafka-chaos.run": "doctor"})
    rights = {name: service[name] for name in ("cap_add", "security_opt")}
    engine = connect()
    labels = {"kafka-chaos": "1", "kafka-chaos.run": "doctor"}
    try:
        with ExitStack() as scratch:
            start = cast(
                "Callable[..., Container]",
                partial(engine.containers.run, detach=True, network_mode="none", labels=labels),
            )
            victim = start(victim_image, ["sleep", "300"])
            scratch.callback(victim.remove, force=True, v=True)
            agent = start(agent_image, pid_mode=service["pid"], **rights)
            scratch.callback(agent.remove, force=True, v=True)
            return _rehearse(agent, victim)
    except ENGINE_ERRORS as error:
        raise EnvironmentBroken(f"the engine does not run a scratch container: {error}") from error


def _rehearse(agent: Container, victim: Container) -> str:
    victim.reload()
    pid = victim.attrs["State"]["Pid"]
    if not _ask(agent, "state", container_pid=pid)["container"]:
        raise EnvironmentBroken(
            "the agent does not see the processes of other containers: the engine keeps them in "
            "another pid namespace (a rootless engine?)"
        )
    rule = {"container_pid": pid, "peers": [_PEER]}
    _ask(agent, "cut", lease={"id": "doctor", "limit_s": _LEASE_S}, rules=[rule])
    if not _has_chain(agent, pid):
        raise EnvironmentBroken("rules of the packet filter were accepted, but are not there")
    wait_until(
        lambda: not _ask(agent, "leases")["leases"],
        timeout_s=_LEASE_S + 10,
        what="the lease of a scratch container to end by itself",
    )
    if _has_chain(agent, pid):
        raise EnvironmentBroken("a lease ended, but its rules are still there")
    return "iptables and leases work"


def _ask(agent: Container, verb: str, **arguments: object) -> dict[str, Any]:
    said = cast("bytes", agent.exec_run(["agent.py", verb, json.dumps(arguments)]).output)
    try:
        answer: dict[str, Any] = json.loads(said)
    except ValueError as error:
        reason = said.decode(errors="replace").strip()
        raise EnvironmentBroken(f"the agent did not answer {verb}: {reason}") from error
    if "error" in answer:
        raise EnvironmentBroken(f"the agent could not {verb}: {answer['error']}")
    return answer


def _has_chain(agent: Container, pid: int) -> bool:
    """Return whether the packet filter of a container has a chain of the scratch lease."""
    network = f"--net=/proc/{pid}/ns/net"
    done = agent.exec_run(["nsenter", network, "iptables-save", "-t", "filter"])
    return b"KC-doctor-0" in done.output
