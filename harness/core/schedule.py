"""Schedules: how the steps of an experiment are laid out in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from harness.core.errors import UsageError
from harness.core.fault import Fault, Target, fault_traits, target_traits
from harness.core.scenario import Step


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

    The time is divided into equal slots, one for each fault; within a slot, the moment and the
    length are drawn. No fault is drawn again before all others have been.

    Attributes:
        faults: the faults to draw from.
        targets: who may be hit, drawn for each fault; a fault that needs a pair is given a target
            that chooses pairs.
        hold_s: shortest and longest hold, seconds.
        quiet_s: shortest gap between two faults, and before the first, seconds.
    """

    faults: tuple[Fault, ...]
    targets: tuple[Target, ...]
    hold_s: tuple[float, float] = (4.0, 8.0)
    quiet_s: float = 4.0

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
        if not 0 < self.hold_s[0] <= self.hold_s[1]:
            raise UsageError(f"Holds from {self.hold_s[0]:g} s to {self.hold_s[1]:g} s cannot be.")

    def steps(self, random: Random, duration_s: float) -> Sequence[Step]:
        """Return the steps, in the order of their times.

        Raises:
            UsageError: the run is too short for a single fault.
        """
        shortest, longest = self.hold_s
        slot_s = self.quiet_s + (shortest + longest) / 2 + self.quiet_s / 2
        slots = int(duration_s // slot_s)
        if slots < 1:
            raise UsageError(
                f"{duration_s:g} s is too short for a fault with its quiet time: "
                f"give at least --duration {slot_s:g}s."
            )
        slot_s = duration_s / slots
        steps = []
        deck: list[Fault] = []
        for number in range(slots):
            if not deck:
                deck = list(self.faults)
                random.shuffle(deck)
            hold_s = round(random.uniform(shortest, min(longest, slot_s - self.quiet_s)), 1)
            slack_s = slot_s - self.quiet_s - hold_s
            at_s = number * slot_s + self.quiet_s + random.uniform(0, max(0.0, slack_s))
            fault = deck.pop()
            target = random.choice(self._targets_of(fault))
            steps.append(Step(at_s=round(at_s, 1), fault=fault, target=target, hold_s=hold_s))
        return tuple(steps)

    def _targets_of(self, fault: Fault) -> tuple[Target, ...]:
        pairs = fault_traits(fault).hits_pairs
        return tuple(t for t in self.targets if target_traits(t).hits_pairs == pairs)
