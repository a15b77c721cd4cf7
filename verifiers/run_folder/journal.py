"""The journals of a run: what their lines tell of, when, and which of them is damaged."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.fault import FaultTraits, recorded_traits

Line = Mapping[str, Any]

FOR_EVER_NS = (1 << 63) - 1
"""A time that no run reaches."""

_TICK_NS = 10_000_000
"""In which the kernel gives a process's start (USER_HZ; proc(5))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """A fault from its decision, before anything was broken, until it was healed.

    Attributes:
        id: its number in faults.jsonl.
        name: which fault.
        victims: node ids.
        traits: what it declares of itself.
        decided_ns: when it was decided.
        end_ns: when it was seen to be healed, or what stands for that if it never was.
        injected: the line that says that it was injected; empty if none does.
        healed: the line that says that it was healed; empty if none does.
    """

    id: str
    name: str
    victims: frozenset[int]
    traits: FaultTraits
    decided_ns: int
    end_ns: int
    injected: Line
    healed: Line

    @property
    def is_healed(self) -> bool:
        """Whether it was seen to be healed."""
        return bool(self.healed)

    def covers(self, at_ns: int) -> bool:
        """Tell whether the fault was in force at a time."""
        return self.decided_ns <= at_ns <= self.end_ns

    def started_ns(self, node: int) -> int | None:
        """Return when the process was started that a victim had when it was seen to be healed.

        None if the journal does not say, or says what cannot be: the kernel counts a process's
        start from the boot, with the time for which the machine slept, and our clock counts
        without.
        """
        details = self.healed.get("evidence", {}).get("details", {})
        process = details.get("process", {}).get(str(node))
        if not process:
            return None
        start_ns = int(process["start_ticks"]) * _TICK_NS
        return start_ns if self.decided_ns <= start_ns <= self.end_ns else None


def events_by_fault(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Return the last line of each event (decided, injected, healed, failed), by the fault's id."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        found.setdefault(str(line["id"]), {})[str(line["event"])] = line
    return found


def fault_spans(lines: Iterable[Line], *, unhealed_ns: int = FOR_EVER_NS) -> list[FaultSpan]:
    """Return the faults that were decided, in that order, also those without victims.

    One that was never healed ends at `unhealed_ns`.
    """
    spans = [
        FaultSpan(
            id=fault_id,
            name=str(decided.get("fault", "?")),
            victims=frozenset(decided.get("victims", ())),
            traits=recorded_traits(decided),
            decided_ns=int(decided["time_ns"]),
            end_ns=int(events["healed"]["time_ns"]) if "healed" in events else unhealed_ns,
            injected=events.get("injected", {}),
            healed=events.get("healed", {}),
        )
        for fault_id, events in events_by_fault(lines).items()
        if (decided := events.get("decided"))
    ]
    return sorted(spans, key=attrgetter("decided_ns"))


def at_s(event: Line | None, origin_ns: int) -> float | None:
    """Return when an event was, in seconds after the run's zero; None if it never was."""
    return None if event is None else round((int(event["time_ns"]) - origin_ns) / 1e9, 3)


@contextmanager
def damage_named(what: str, cure: str = "restore the file, or run again") -> Iterator[None]:
    """Turn the error about a document that lacks something into HistoryUnreadable.

    Args:
        what: is wrong, as in "run.json does not say what was run".
        cure: what to do.

    Raises:
        HistoryUnreadable: the document was not as it should be.
    """
    try:
        yield
    except (AttributeError, KeyError, OSError, TypeError, ValueError, UsageError) as error:
        raise HistoryUnreadable(f"{what} ({error!r}): {cure}.") from error
