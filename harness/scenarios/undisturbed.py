"""Clients alone: no fault is injected, and none is proven."""

from dataclasses import replace

from harness.core.scenario import Scenario, scenario
from harness.core.schedule import Script
from harness.scenarios.mixed import mixed


@scenario("undisturbed")
def undisturbed() -> Scenario:
    """Run the clients of the default experiment, break nothing, and look for what is forbidden.

    A run that finds nothing is UNKNOWN: nothing was damaged. It tells whether clients get in and
    whether the contract can be had, before anybody breaks a cluster that is not ours.
    """
    return replace(mixed(), name="undisturbed", schedule=Script(script=()))
