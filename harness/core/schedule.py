"""Schedules: how the steps of an experiment are laid out in time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from harness.core.errors import UsageError
from harness.core.fault import Fault, Target, fault_traits, target_traits
from harness.core.scenario import Step

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Steps written out by hand; the seed draws nothing.

    Attributes:
        script: the steps; those that would begin after the end of the run are an error.
    """

    script: tuple[Step, ...]

    def steps(self, random: Random, duration_s: float) -> Sequence[Step]:  # noqa: ARG002
        """Return the steps as written.

        Raises:
            UsageError: the run is too short for them.
        """
        needed_s = max((step.at_s + step.hold_s for step in self.script), default=0.0)
        if needed_s > duration_s:
            raise UsageError(
                f"The script of this scenario needs {needed_s:g} s and the run lasts "
                f"{duration_s:g} s: give a longer --duration."
            )
        return tuple(sorted(self.script, key=lambda step: step.at_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Faults in random order on random targets, with quiet gaps between them.

    No fault is drawn again before all others have been. Holds are drawn likewise, around the limits
    by which the cluster notices that a broker is gone: most of them longer, some far longer, some
    shorter. The time that is left is shared out among the gaps.

    Attributes:
        faults: the faults to draw from.
        targets: who may be hit, drawn for each fault; a fault that needs a pair is given a target
            that chooses pairs.
        limits_s: the limits that holds are drawn around, seconds. Those that a run is too short to
            pass several times are left out; if none is left, holds last 4 to 8 s.
        hold_s: shortest and longest hold, seconds, instead of holds around the limits.
        quiet_s: shortest gap between two faults, and before the first, seconds.
    """

    faults: tuple[Fault, ...]
    targets: tuple[Target, ...]
    limits_s: tuple[float, ...] = (9.0,)
    hold_s: tuple[float, float] | None = None
    quiet_s: float = 3.0

    def __post_init__(self) -> None:
        """Reject a mix of nothing.

        Raises:
            UsageError: there is no fault, no target fits a fault, or the shortest hold is longer
                than the longest.
        """
        if not self.faults or not self.targets:
            raise UsageError("A mix needs at least one fault and one target.")
        for fault in self.faults:
            if not self._targets_of(fault):
                name = type(fault).__name__
                raise UsageError(f"No target of this mix fits {name}.")
        if not self.limits_s or min(self.limits_s) <= 0:
            raise UsageError(f"Holds cannot be drawn around limits of {self.limits_s} s.")
        if self.hold_s is not None and not 0 < self.hold_s[0] <= self.hold_s[1]:
            raise UsageError(f"Holds from {self.hold_s[0]:g} s to {self.hold_s[1]:g} s cannot be.")

    def steps(self, random: Random, duration_s: float) -> Sequence[Step]:
        """Return the steps, in the order of their times.

        Raises:
            UsageError: the run is too short for a single fault.
        """
        kinds, holds = _each_once(self.faults, random), self._holds(random, duration_s)
        drawn: list[tuple[Fault, float]] = []
        used_s = 0.0
        while True:
            fault, hold_s = next(kinds), next(holds)
            used_s += self.quiet_s + hold_s
            if used_s > duration_s:
                break
            drawn.append((fault, hold_s))
        if not drawn:
            raise UsageError(
                f"{duration_s:g} s is too short for a fault with its quiet time: "
                f"give at least --duration {used_s:.0f}s."
            )
        slack_s = duration_s - sum(self.quiet_s + hold_s for _, hold_s in drawn)
        delays_s = sorted(random.uniform(0, slack_s) for _ in drawn)
        steps, begin_s = [], 0.0
        for (fault, hold_s), delay_s in zip(drawn, delays_s, strict=True):
            begin_s += self.quiet_s
            target = random.choice(self._targets_of(fault))
            at_s = math.floor((begin_s + delay_s) * 10) / 10
            steps.append(Step(at_s=at_s, fault=fault, target=target, hold_s=hold_s))
            begin_s += hold_s
        return tuple(steps)

    def _holds(self, random: Random, duration_s: float) -> Iterator[float]:
        """Yield the lengths of holds without end, seconds."""
        passed = [s for s in self.limits_s if _ABOVE[1] * s <= duration_s / _FEWEST_FAULTS]
        if self.hold_s is None and passed:
            for low, high in _each_once(_BANDS, random):
                yield round(random.choice(passed) * random.uniform(low, high), 1)
        shortest, longest = self.hold_s or _PLAIN_HOLD_S
        while True:
            yield round(random.uniform(shortest, longest), 1)

    def _targets_of(self, fault: Fault) -> tuple[Target, ...]:
        pairs = fault_traits(fault).hits_pairs
        return tuple(t for t in self.targets if target_traits(t).hits_pairs == pairs)


_ABOVE = (1.1, 1.6)
_BANDS = (_ABOVE, _ABOVE, _ABOVE, (2.0, 2.5), (0.5, 0.9))
"""Parts of a limit between which a hold is drawn: just above it, far above it, below it."""
_FEWEST_FAULTS = 6
"""A limit is long for a run in which so many holds just above it do not fit."""
_PLAIN_HOLD_S = (4.0, 8.0)


def _each_once(items: Sequence[_Item], random: Random) -> Iterator[_Item]:
    """Yield items without end, in random order, each once before any comes again."""
    while True:
        order = list(items)
        random.shuffle(order)
        yield from order
