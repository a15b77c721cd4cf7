"""Schedules: how the steps of an experiment are laid out in time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from harness.core.errors import UsageError
from harness.core.fault import Fault, Target, describe, phrase
from harness.core.pattern import FAR_ENOUGH, Alone, Deck, Pattern, fitting, lot
from harness.core.scenario import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Steps written out by hand; the seed draws nothing.

    Attributes:
        script: the steps; those that would begin after the end of the run are an error.
    """

    script: tuple[Step, ...]

    def steps(self, seed: int, duration_s: float) -> Sequence[Step]:  # noqa: ARG002 (all are asked alike)
        """Return the steps as written, those at fixed times in the order of these.

        Raises:
            UsageError: the run is too short for them.
        """
        needed_s = max((step.at_s + step.hold_s for step in self.script), default=0.0)
        if needed_s > duration_s:
            raise UsageError(
                f"The script of this scenario needs {needed_s:g} s and the run lasts "
                f"{duration_s:g} s: give a longer --duration."
            )
        placed: list[Step] = []
        for step in self.script:
            # Who follows an event comes after the step that stands before it.
            earliest_s = placed[-1].at_s if placed and step.after is not None else 0.0
            placed.append(replace(step, at_s=max(step.at_s, earliest_s)))
        return tuple(sorted(placed, key=lambda step: step.at_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Faults in random order on random targets, alone or in patterns, with quiet gaps between them.

    No pair of a pattern and its first fault is drawn again before all others have been; crashes and
    losses of power tend to come first. Holds are drawn around the limits by which the cluster
    notices that a broker is gone, or by which its clients give up: most of them longer, some far
    longer, some shorter. The time that is left is shared out among the gaps. Every draw has a
    stream of its own: one more kind of fault comes in between, and changes no other draw.

    Attributes:
        faults: the faults to draw from.
        targets: who may be hit, drawn for each fault; a fault that needs a pair is given a target
            that chooses pairs.
        patterns: how faults hang together.
        limits_s: the limits of the cluster that holds are drawn around, seconds. Those that a run
            is too short to pass several times are left out; if none is left, holds last 4 to 8 s.
        client_limits_s: the limits of clients, likewise. As many holds are drawn around them as
            around those of the cluster, whichever are more.
        around_clients: whether holds are drawn around the limits of the workload's clients too;
            they are longer, so that fewer faults come.
        hold_s: shortest and longest hold, seconds, instead of holds around the limits.
        gap_s: the shortest rest between two patterns, and before the first, seconds.
    """

    faults: tuple[Fault, ...]
    targets: tuple[Target, ...]
    patterns: tuple[Pattern, ...] = (Alone(),)
    limits_s: tuple[float, ...] = (9.0,)
    client_limits_s: tuple[float, ...] = ()
    around_clients: bool = False
    hold_s: tuple[float, float] | None = None
    gap_s: float = 3.0

    def __post_init__(self) -> None:
        """Reject a mix of nothing.

        Raises:
            UsageError: there is no fault, no target fits a fault, no pattern can be made of them,
                the shortest hold is longer than the longest, or a gap shorter than nothing.
        """
        if not self.faults or not self.targets:
            raise UsageError("A mix needs at least one fault and one target.")
        for fault in self.faults:
            if not fitting(fault, self.targets):
                name = type(fault).__name__
                raise UsageError(f"No target of this mix fits {name}.")
        if not self._pairs():
            names = ", ".join(describe(pattern)["name"] for pattern in self.patterns) or "none"
            raise UsageError(f"No pattern ({names}) can be made of these faults and targets.")
        limits_s = (*self.limits_s, *self.client_limits_s)
        if not self.limits_s or min(limits_s) <= 0:
            raise UsageError(f"Holds cannot be drawn around limits of {limits_s} s.")
        if self.hold_s is not None and not 0 < self.hold_s[0] <= self.hold_s[1]:
            raise UsageError(f"Holds from {self.hold_s[0]:g} s to {self.hold_s[1]:g} s cannot be.")
        if self.gap_s < 0:
            raise UsageError(f"Gaps of {self.gap_s:g} s cannot be: choose 0 or more.")

    def steps(self, seed: int, duration_s: float) -> Sequence[Step]:
        """Return the steps, in the order of their times.

        Raises:
            UsageError: the run is too short for a single pattern.
        """
        drawn: list[tuple[Step, ...]] = []
        used_s, shortest_s = 0.0, math.inf
        for number, steps in enumerate(self._drawn(seed, duration_s)):
            needed_s = self.gap_s + _length_s(steps)
            if used_s + needed_s <= duration_s:
                used_s += needed_s
                drawn.append(steps)
            elif drawn or number == _MOST_PASSED_OVER:
                break
            else:
                # Whether a run can be must not depend on its seed: a shorter one may come.
                shortest_s = min(shortest_s, needed_s)
        if not drawn:
            raise UsageError(
                f"{duration_s:g} s is too short for a fault with its quiet time: "
                f"give at least --duration {math.ceil(shortest_s)}s."
            )
        slack_s = duration_s - used_s
        random = Random(f"{seed}/gaps")  # noqa: S311 (a draw that its seed repeats, no secret)
        delays_s = sorted(random.uniform(0, slack_s) for _ in drawn)
        planned, begin_s = [], 0.0
        for steps, delay_s in zip(drawn, delays_s, strict=True):
            begin_s += self.gap_s
            at_s = math.floor((begin_s + delay_s) * 10) / 10
            planned += [replace(step, at_s=round(at_s + step.at_s, 2)) for step in steps]
            begin_s += _length_s(steps)
        return tuple(planned)

    def _drawn(self, seed: int, duration_s: float) -> Iterator[tuple[Step, ...]]:
        """Yield the steps of one pattern after the other, without end.

        Patterns come in turn, and so do the faults that each of them begins with: one that few
        faults fit comes as often as any other.
        """
        fitting_faults: dict[Pattern, list[Fault]] = {}
        for pattern, fault in self._pairs():
            fitting_faults.setdefault(pattern, []).append(fault)
        deck = self._deck(duration_s)
        begun = {
            pattern: _begun(seed, pattern, faults, deck)
            for pattern, faults in fitting_faults.items()
        }
        for number in count():
            turns = {
                pattern: Random(f"{seed}/{number}/{phrase(describe(pattern))}").random()  # noqa: S311 (a draw that its seed repeats, no secret)
                for pattern in begun
            }
            for pattern in sorted(turns, key=turns.__getitem__):
                yield next(begun[pattern])

    def _deck(self, duration_s: float = math.inf) -> Deck:
        longest_s = duration_s / _FEWEST_FAULTS / FAR_ENOUGH
        cluster, clients = (
            tuple(limit_s for limit_s in limits_s if limit_s <= longest_s)
            for limits_s in (self.limits_s, self.client_limits_s)
        )
        # A hold is drawn around any of these: repeated, both kinds have the same share.
        passed = cluster * max(1, len(clients)) + clients * max(1, len(cluster))
        return Deck(
            stream="",
            faults=self.faults,
            targets=self.targets,
            limits_s=passed,
            waits_s=tuple(s for s in self.client_limits_s if s <= duration_s / _FEWEST_FAULTS),
            hold_s=self.hold_s or (None if passed else _PLAIN_HOLD_S),
        )

    @property
    def dealt(self) -> tuple[Pattern, ...]:
        """The patterns that come in its plans: those that a fault of its own can begin."""
        return tuple(dict.fromkeys(pattern for pattern, _ in self._pairs()))

    def _pairs(self) -> list[tuple[Pattern, Fault]]:
        deck = self._deck()
        return [(p, fault) for p in self.patterns for fault in self.faults if p.fits(fault, deck)]


_FEWEST_FAULTS = 6
"""A limit is long for a run in which so many holds just above it do not fit."""
_PLAIN_HOLD_S = (4.0, 8.0)
_MOST_PASSED_OVER = 100
"""A run for which so many draws in turn are too long is too short."""


def _length_s(steps: Sequence[Step]) -> float:
    """Return how long the steps of a pattern last at most, but for their waits.

    What follows an event comes when the step before it is over, at the latest.
    """
    ends_s: list[float] = []
    for step in steps:
        begin_s = ends_s[-1] + step.after.delay_s if step.after and ends_s else step.at_s
        ends_s.append(begin_s + step.hold_s)
    return max(ends_s)


def _begun(
    seed: int, pattern: Pattern, faults: Sequence[Fault], deck: Deck
) -> Iterator[tuple[Step, ...]]:
    """Yield the steps of a pattern with one fault in its beginning after the other, without end."""
    kind = describe(pattern)
    for number in count():
        order = []
        for fault in faults:
            name = "/".join([str(seed), str(number), phrase(kind), phrase(describe(fault))])
            order.append((lot(name, fault), name, fault))
        for _, name, fault in sorted(order, key=lambda entry: entry[:2], reverse=True):
            steps = pattern.steps(fault, replace(deck, stream=name))
            yield tuple(replace(step, pattern=kind["name"]) for step in steps)
