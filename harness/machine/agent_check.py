"""A rehearsal of the fault agent in scratch containers: real rules, a lease that really ends."""

import json
import uuid
from typing import Any

from harness.core.errors import EnvironmentBroken
from harness.core.wait import wait_until
from harness.machine.programs import last_words, run, run_checked
from harness.machine.templates import agent_service

_CLI_S = 60
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
    token = uuid.uuid4().hex[:8]
    agent, victim = f"kc-doctor-agent-{token}", f"kc-doctor-victim-{token}"
    labels = {"kafka-chaos": "1", "kafka-chaos.run": "doctor"}
    service = agent_service(agent, image=agent_image, labels=labels)
    rights = [f"--cap-add={right}" for right in service["cap_add"]]
    rights += [f"--security-opt={option}" for option in service["security_opt"]]
    try:
        for name, image, flags, command in (
            (agent, agent_image, (f"--pid={service['pid']}", *rights), ()),
            (victim, victim_image, (), ("sleep", "300")),
        ):
            run_checked(
                ["docker", "run", "--detach", "--rm", "--network", "none", "--name", name,
                 *(f"--label={key}={value}" for key, value in labels.items()), *flags, image,
                 *command],
                timeout_s=_CLI_S,
                purpose=f"start a scratch container of {image}",
            )  # fmt: skip
        return _rehearse(agent, victim)
    finally:
        run(["docker", "rm", "--force", "--volumes", agent, victim], timeout_s=_CLI_S)


def _rehearse(agent: str, victim: str) -> str:
    pid = int(
        run_checked(
            ["docker", "inspect", "--format", "{{.State.Pid}}", victim],
            timeout_s=_CLI_S,
            purpose="find the scratch container's process",
        )
    )
    if not _ask(agent, "state", container_pid=pid)["container"]:
        raise EnvironmentBroken(
            "the agent does not see the processes of other containers: the engine keeps them in "
            "another pid namespace (a rootless engine?)"
        )
    rule = {"container_pid": pid, "peers": [_PEER], "ports": None}
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


def _ask(agent: str, verb: str, **arguments: object) -> dict[str, Any]:
    done = run(["docker", "exec", agent, "agent.py", verb, json.dumps(arguments)], timeout_s=_CLI_S)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise EnvironmentBroken(f"the agent did not answer {verb}: {last_words(done)}") from error
    if "error" in answer:
        raise EnvironmentBroken(f"the agent could not {verb}: {answer['error']}")
    return answer


def _has_chain(agent: str, pid: int) -> bool:
    done = run(
        ["docker", "exec", agent, "nsenter", f"--net=/proc/{pid}/ns/net", "iptables-save", "-t",
         "filter"],
        timeout_s=_CLI_S,
    )  # fmt: skip
    return "KC-doctor-0" in done.stdout
