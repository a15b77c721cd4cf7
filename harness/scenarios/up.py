"""The cluster of `kafka-chaos up`, for clients of somebody else."""

from dataclasses import replace

from harness.core.scenario import Scenario, scenario
from harness.scenarios.mixed import mixed
from workloads.none import NoClients


@scenario("up")
def up() -> Scenario:
    """Break a cluster for clients of somebody else, as the default experiment does, for a day."""
    return replace(mixed(), name="up", workload=NoClients(partitions=9), duration_s=86400.0)
