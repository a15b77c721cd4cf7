"""How many batches brokers have refused since their checksums did not fit their records.

A producer that gives a batch up before it is answered tells nobody what the answer was. The broker
counts it.
"""

import time
from collections.abc import Mapping
from typing import Any

from harness.cluster.agent import Agent
from harness.cluster.containers import NodeContainer
from harness.core.errors import ClusterBroken
from harness.machine.engine import ENGINE_ERRORS

REFUSALS = "refusals.jsonl"
"""Below `cluster/`: what brokers had refused when the run began, and again and again since."""

_STARTED = ("java.lang:type=Runtime", "StartTime")
_REFUSED = ("kafka.server:type=BrokerTopicMetrics,name=InvalidMessageCrcRecordsPerSec", "Count")


def refusals(brokers: Mapping[int, NodeContainer], agent: Agent) -> dict[str, Any]:
    """Return what each broker has refused since its process began, as docs/run-folder.md has it.

    Args:
        brokers: their containers, by node id.
        agent: of the cluster.
    """
    told = [
        {"node": node_id, "started_ms": None, "batches": None, "why": None,
         **_told(container, agent)}
        for node_id, container in sorted(brokers.items())
    ]  # fmt: skip
    return {"asked_ns": time.monotonic_ns(), "brokers": told}


def _told(container: NodeContainer, agent: Agent) -> dict[str, Any]:
    try:
        values = agent.mbeans(container.pid, [_STARTED[0], _REFUSED[0]])
    except (ClusterBroken, *ENGINE_ERRORS) as error:
        return {"why": str(error)}
    told = {"started_ms": values.get(_STARTED), "batches": values.get(_REFUSED)}
    # Brokers before 2.4 do not count them (KAFKA-8729).
    return {name: value if value is None else int(value) for name, value in told.items()}
