"""What a benchmark aims at: figures below their goals make it end with 1."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One figure and its bound.

    Attributes:
        name: what was measured.
        measured: the figure.
        at_most: the largest figure that meets the goal; None if it has no upper bound.
        at_least: the smallest; None if it has no lower bound.
    """

    name: str
    measured: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the figure lies within its bounds."""
        return (self.at_most is None or self.measured <= self.at_most) and (
            self.at_least is None or self.measured >= self.at_least
        )

    def __str__(self) -> str:
        """Return the figure beside its bound."""
        bound = f"at most {self.at_most:g}" if self.at_most is not None else ""
        bound = bound or f"at least {self.at_least:g}"
        return f"{self.name}: {self.measured:g} (goal: {bound})"


def exit_code(goals: Sequence[Goal]) -> int:
    """Say on standard error which goals were missed; return 1 if there is one, else 0."""
    missed = [goal for goal in goals if not goal.is_met]
    for goal in missed:
        sys.stderr.write(f"missed: {goal}\n")
    return 1 if missed else 0
