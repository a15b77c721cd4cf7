"""The clock of the brokers' machine, and how its readings translate to our clock.

The two clocks are never compared: a broker's clock may be wrong. But if we ask for its time, and
note our own time before and after, we know that it showed this time in between. Such samples give
every other reading of that clock an earliest and a latest moment on ours.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_DRIFT_IN = 1000
"""Two synchronised clocks drift apart by less than one part in so many."""
_NEAR = 4
_MS_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Samples of one clock, ordered by the time that it showed.

    Attributes:
        readings: what it showed, ns since 1970, and the least and the most that is to be added to
            come to our monotonic clock.
    """

    readings: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def read(cls, samples: Iterable[Mapping[str, Any]]) -> "Clock":
        """Return the clock that the lines of samples.jsonl describe."""
        found = [
            (
                int(line["host_ns"]),
                int(line["asked_ns"]) - int(line["host_ns"]),
                int(line["answered_ns"]) - int(line["host_ns"]),
            )
            for line in samples
            if line.get("sample") == "clock"
        ]
        return cls(readings=tuple(sorted(found)))

    def latest_ns(self, at_ms: int) -> int | None:
        """Return the latest moment on our clock at which it may have shown this, if known."""
        span_ns = self.span_ns(at_ms)
        return None if span_ns is None else span_ns[1]

    def span_ns(self, at_ms: int) -> tuple[int, int] | None:
        """Return the earliest and the latest moment on our clock at which it may have shown this.

        They are known by the samples around; else None. `at_ms` is what it showed, milliseconds
        since 1970, rounded down.
        """
        shown_ns = at_ms * _MS_NS
        place = bisect_left(self.readings, (shown_ns,))
        around = self.readings[max(0, place - _NEAR) : place + _NEAR]
        if not around:
            return None
        drifts = [abs(shown_ns - host_ns) // _DRIFT_IN for host_ns, _, _ in around]
        least = max(low - drift for (_, low, _), drift in zip(around, drifts, strict=True))
        most = min(high + drift for (_, _, high), drift in zip(around, drifts, strict=True))
        # If samples contradict each other, the clock was set in between.
        return (shown_ns + least, shown_ns + _MS_NS + most) if least <= most else None
