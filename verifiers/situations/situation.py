"""What a situation is, and how often a run has reached each."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.registry import Registry
from verifiers.situations.events import RunEvents

AFTERMATH_NS = 15_000_000_000
"""How long after its healing a fault may still bring a situation about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One time that a run was in a situation.

    Attributes:
        at_ns: when, on our monotonic clock.
        where: the partition, broker, group or client, in words; empty for the cluster.
    """

    at_ns: int
    where: str = ""


Recogniser = Callable[[RunEvents], Iterable[Occurrence]]
"""Returns every time that a run was in the situation.

The first sentence of its docstring says what the situation is, as `kafka-chaos list situations`
prints it; the rest says by what it is recognised.
"""

SITUATIONS: Registry[Recogniser] = Registry("situation", "verifiers.situations")
situation = SITUATIONS.register


def reached(events: RunEvents) -> dict[str, dict[str, Any]]:
    """Return how often a run has reached each situation, for verdict.json.

    Returns:
        By name, for all that there are: `count`; `faults`, the ids of those that were in force then
        or had been healed less than 15 s before; `first_s`, seconds after the run's zero, and
        `where` of the first time, both null if it was never reached.
    """
    return {name: _counted(recognise(events), events) for name, recognise in SITUATIONS.items()}


def _counted(occurrences: Iterable[Occurrence], events: RunEvents) -> dict[str, Any]:
    ordered = sorted(occurrences, key=lambda occurrence: occurrence.at_ns)
    first = ordered[0] if ordered else None
    return {
        "count": len(ordered),
        "faults": _faults_around(ordered, events),
        "first_s": None if first is None else round((first.at_ns - events.run.origin_ns) / 1e9, 3),
        "where": None if first is None else first.where,
    }


def _faults_around(occurrences: Iterable[Occurrence], events: RunEvents) -> list[str]:
    """Return the faults in force at some moments, or else the one that was healed just before."""
    ids: set[str] = set()
    for occurrence in occurrences:
        before = [fault for fault in events.faults if fault.decided_ns <= occurrence.at_ns]
        in_force = {fault.id for fault in before if occurrence.at_ns <= fault.end_ns}
        if not in_force and before:
            latest = max(before, key=lambda fault: fault.end_ns)
            if occurrence.at_ns <= latest.end_ns + AFTERMATH_NS:
                in_force = {latest.id}
        ids |= in_force
    return [fault.id for fault in events.faults if fault.id in ids]


def in_a_sentence(situations: Mapping[str, Mapping[str, Any]]) -> str:
    """Return how many situations a run has reached: "12 of 32 situations"."""
    count = sum(1 for entry in situations.values() if entry.get("count"))
    return f"{count} of {len(situations)} situations"
