"""The journals of a run: what their lines tell of, when, and which of them is damaged."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.core.errors import HistoryUnreadable, UsageError

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
