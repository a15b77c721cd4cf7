"""The run of a scenario whose cluster others use: they are told where it answers."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.run.context import RunContext
from harness.run.scenario_run import ScenarioRun


@dataclass(frozen=True, slots=True)
class OpenRun(ScenarioRun):
    """Tells where the cluster answers before anything is broken, then goes on as any run.

    Attributes:
        ready: called with the run: its cluster answers.
    """

    ready: Callable[[RunContext], None]

    def carry_out(self, context: RunContext) -> None:
        """Tell where the cluster answers, and break it."""
        self.ready(context)
        # A class with slots is made anew: `super()` would speak of the first one.
        ScenarioRun.carry_out(self, context)
