"""The journal of faults: the lines of faults.jsonl, by the fault that they tell of."""

from collections.abc import Iterable, Mapping
from typing import Any

Line = Mapping[str, Any]


def events_by_fault(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Return the last line of each event (decided, injected, healed, failed), by the fault's id."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        found.setdefault(str(line["id"]), {})[str(line["event"])] = line
    return found


def healed_ns(events: Mapping[str, Line], otherwise: int) -> int:
    """Return when a fault was healed; `otherwise` if it never was."""
    return int(events["healed"]["time_ns"]) if "healed" in events else otherwise
