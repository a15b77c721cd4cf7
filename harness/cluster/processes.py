"""How the processes of a cluster's nodes ended, and what is left of them when a run ends.

The supervisor of each container notes how every JVM ended, and how long the machine had run by
then. How long it has run is asked for between two readings of our clock, which places every one of
those moments on it.
"""

import time
from collections.abc import Mapping
from typing import Any

from harness.cluster.agent import Agent
from harness.cluster.containers import NodeContainer
from harness.cluster.logs import ClusterLogs
from harness.cluster.topology import Topology
from harness.core.errors import ClusterBroken
from harness.core.run_dir import SCHEMA
from harness.machine.engine import ENGINE_ERRORS

PROCESSES = "processes.json"
"""Below `cluster/`: how the nodes' processes ended."""

_NOTICED_S = 0.2
"""How long a supervisor takes to notice a death, and by how much uptimes are rounded, seconds."""


def processes(
    topology: Topology,
    containers: Mapping[int, NodeContainer],
    agent: Agent,
    logs: ClusterLogs,
) -> dict[str, Any]:
    """Return what has become of every node's process, as docs/run-folder.md has it.

    What could not be asked stands there in words.

    Args:
        topology: the nodes.
        containers: theirs, by node id.
        agent: of the cluster.
        logs: reads what the supervisors noted.

    Raises:
        ClusterBroken: the fault agent does not tell how long its machine has run.
    """
    asked_ns = time.monotonic_ns()
    up_ns = agent.ask("clock")["up_ns"]
    answered_ns = time.monotonic_ns()

    def ended(entry: Mapping[str, float]) -> dict[str, int]:
        ago_ns = up_ns - round(float(entry["uptime_s"]) * 1e9)
        return {
            "pid": int(entry["pid"]),
            "status": int(entry["status"]),
            "from_ns": asked_ns - ago_ns - round(_NOTICED_S * 1e9),
            "to_ns": answered_ns - ago_ns + round(_NOTICED_S * 1e9),
        }

    nodes = []
    for node in topology.nodes:
        container = containers[node.node_id]
        known: dict[str, Any] = {"running": None, "exits": [], "container": None, "why": None}
        try:
            known["container"] = _state_of(container)
            known["exits"] = [ended(entry) for entry in logs.exits(node)]
            state = agent.ask("state", container_pid=container.pid)
            known["running"] = state["process"] is not None
        except (ClusterBroken, *ENGINE_ERRORS) as error:
            known["why"] = str(error)
        nodes.append({"node": node.node_id, "service": node.service, "kind": node.kind, **known})
    return {"schema": SCHEMA, "asked_ns": asked_ns, "answered_ns": answered_ns, "nodes": nodes}


def _state_of(container: NodeContainer) -> dict[str, Any]:
    """Return the state of a container, by the engine; its times are those of the engine's clock."""
    container.container.reload()
    state = container.container.attrs["State"]
    return {
        "running": bool(state["Running"]),
        "exit_code": int(state["ExitCode"]),
        "oom_killed": bool(state.get("OOMKilled")),
        "started_at": str(state["StartedAt"]),
        "finished_at": str(state["FinishedAt"]),
        "error": str(state.get("Error") or ""),
    }
