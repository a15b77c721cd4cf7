"""Patterns: how a few faults hang together, and the deck that they are drawn from."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

from harness.core.event import Event
from harness.core.fault import (
    Fault,
    FaultTraits,
    Target,
    describe,
    fault_traits,
    phrase,
    target_traits,
)
from harness.core.registry import Registry
from harness.core.scenario import Step

_Thing = TypeVar("_Thing", bound=Fault | Target | Event)

_ABOVE = (1.1, 1.6)
FAR_ENOUGH = _ABOVE[1]
"""A hold of so many times a limit passes it."""
_FAR_ABOVE = (1.5, 2.5)
_BANDS = (_ABOVE, _ABOVE, _ABOVE, (2.0, 2.5), (0.5, 0.9))
"""Parts of a limit between which a hold is drawn: just above it, far above it, below it."""
_LONGEST_DELAY_S = 2.0
_ABRUPT = frozenset({"crash", "power loss"})
_ABRUPT_WEIGHT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Deck:
    """What the steps of one pattern are drawn from.

    Each draw has a name and a stream of its own, and among several things each has a chance of its
    own: one more kind in the deck is drawn now and then, and changes no other draw.

    Attributes:
        stream: names all draws of this pattern.
        faults: the kinds to draw from.
        targets: who may be hit.
        limits_s: the limits that holds are drawn around, seconds.
        waits_s: the limits after which clients give something up, longer ones too, seconds.
        hold_s: shortest and longest hold, seconds, instead of holds around the limits.
    """

    stream: str
    faults: tuple[Fault, ...]
    targets: tuple[Target, ...]
    limits_s: tuple[float, ...] = ()
    waits_s: tuple[float, ...] = ()
    hold_s: tuple[float, float] | None = None

    def fault(self, draw: str) -> Fault:
        """Return a fault; one that needs the two ends of a link only where there is no other.

        Nor one that brokers do not feel: what follows an event is to hit who has just got a role.
        """
        others = [fault for fault in self.faults if fault_traits(fault).takes_roles]
        return self.one_of(draw, others or self.faults)

    def destroying(self, draw: str) -> Fault:
        """Return a fault that destroys data; an abrupt one, or any, where there is none."""
        destroying = [fault for fault in self.faults if fault_traits(fault).destroys_data]
        some = destroying or [fault for fault in self.faults if _is_abrupt(fault)]
        return self.one_of(draw, some) if some else self.fault(draw)

    def only(self, is_wanted: Callable[[FaultTraits], bool]) -> "Deck":
        """Return a deck with those of the faults alone; with all, where there is none of them."""
        faults = tuple(fault for fault in self.faults if is_wanted(fault_traits(fault)))
        return replace(self, faults=faults or self.faults)

    def target(self, draw: str, fault: Fault) -> Target:
        """Return somebody whom a fault can hit."""
        return self.one_of(draw, fitting(fault, self.targets))

    def elected(self, draw: str) -> tuple[Target, Event]:
        """Return somebody who has a role by election, and the election of a successor."""
        target = self.one_of(draw, [t for t in self.targets if is_elected(t)])
        assert isinstance(target, Elected)  # noqa: S101 (just asked)
        return target, target.election()

    def hold_s_of(self, draw: str) -> float:
        """Return how long a fault is held, seconds, to a tenth."""
        random = self._random(draw)
        if self.hold_s is not None:
            return round(random.uniform(*self.hold_s), 1)
        low, high = random.choice(_BANDS)
        return round(random.choice(self.limits_s) * random.uniform(low, high), 1)

    def outlasting_s(self, draw: str) -> float:
        """Return a hold in which clients give up much of what they ask for, if it can be, seconds.

        What they ask in its beginning, that is: what they wait for when it ends is answered.
        """
        if self.hold_s is not None or not self.waits_s:
            return self.hold_s_of(draw)
        random = self._random(draw)
        return round(max(self.waits_s) * random.uniform(*_FAR_ABOVE), 1)

    def delay_s(self, draw: str) -> float:
        """Return how long a step follows its event, 0 to 2 s; half of them within half a second."""
        random = self._random(draw)
        return round(_LONGEST_DELAY_S * random.random() ** 2, 2)

    def one_of(self, draw: str, things: Sequence[_Thing]) -> _Thing:
        """Return one of some faults, targets or events."""
        return pick(f"{self.stream}/{draw}", things)

    def _random(self, draw: str) -> Random:
        return Random(f"{self.stream}/{draw}")  # noqa: S311 (a draw that its seed repeats, no secret)


@runtime_checkable
class Pattern(Protocol):
    """How a few faults hang together; a frozen dataclass whose fields are parameters."""

    def fits(self, fault: Fault, deck: Deck) -> bool:
        """Return whether the pattern can begin with a fault, given the rest of the deck."""

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return the steps, the first of them this fault; the same for the same deck.

        Their times count from the beginning of the pattern.
        """


@runtime_checkable
class Elected(Protocol):
    """A target that has its role by election."""

    def election(self) -> Event:
        """Return the election of its successor."""


def is_elected(target: Target) -> bool:
    """Return whether a target has its role by election."""
    # Plans ask for it by the ten thousand: looking for a protocol takes far longer.
    return callable(getattr(target, "election", None))


def fitting(fault: Fault, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return those of some targets whom a fault can hit: only pairs, or no pairs."""
    traits = fault_traits(fault)
    return tuple(
        target
        for target in targets
        if target_traits(target).hits_pairs == traits.hits_pairs
        and not (target_traits(target).hits_all and traits.cuts_links)
    )


def pick(stream: str, things: Sequence[_Thing]) -> _Thing:
    """Return one of some things, each of which draws a number of its own: the highest wins.

    A number does not hang on the run's topic and group: a seed gives the same plan on another
    topic, as repetitions of a run on one cluster need.
    """
    seen: Counter[str] = Counter()
    streams = []
    for thing in things:
        words = _words(thing)
        # Things that differ by such a name alone have numbers of their own all the same.
        streams.append(f"{stream}/{words}" + f"/{seen[words]}" * bool(seen[words]))
        seen[words] += 1
    numbers = [lot(*each) for each in zip(streams, things, strict=True)]
    return things[max(range(len(things)), key=numbers.__getitem__)]


def _words(thing: object) -> str:
    described = describe(thing)
    named = {
        name: _NAMES.get(name, value) if value is not None else None
        for name, value in described["parameters"].items()
    }
    return phrase({**described, "parameters": named})


def lot(stream: str, thing: object) -> float:
    """Return a number between 0 and 1 that a thing draws among others; the highest wins.

    A broker that is gone at once, by a crash or without power, leaves the shortest windows behind:
    such faults count three times. Weights are the fault's own, so that one more kind among them
    changes no other draw.

    Source: P. Efraimidis, P. Spirakis, Weighted random sampling with a reservoir, 2006.
    """
    weight = _ABRUPT_WEIGHT if _is_abrupt(thing) else 1
    number: float = Random(stream).random() ** (1 / weight)  # noqa: S311 (a draw that its seed repeats, no secret)
    return number


def _is_abrupt(thing: object) -> bool:
    traits = getattr(thing, "traits", None)
    return isinstance(traits, FaultTraits) and traits.ends_lead_by in _ABRUPT


_NAMES = {"topic": "orders", "group": "orders-group"}
"""What stands for the names of a run: those of the default experiment."""

PATTERNS: Registry[Callable[..., Pattern]] = Registry("pattern", "faults")
pattern = PATTERNS.register


@pattern("alone")
@dataclass(frozen=True, slots=True)
class Alone:
    """One fault, at a time of its own."""

    def fits(self, fault: Fault, deck: Deck) -> bool:  # noqa: ARG002 (all are asked alike)
        """Return True: every fault can come alone."""
        return True

    def steps(self, fault: Fault, deck: Deck) -> tuple[Step, ...]:
        """Return the one step."""
        target = deck.target("target", fault)
        return (Step(at_s=0, fault=fault, target=target, hold_s=deck.hold_s_of("hold")),)
