"""What a history tells of sends: those without an acknowledgement, and those in flight."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from verifiers.run_folder.folder import TopicPartition

COLUMNS = ("type", "error", "topic", "partition", "offset", "invoke_ns", "complete_ns")
"""What has to be known of each send."""

_REFUSAL = "NOT_ENOUGH_REPLICAS"
"""Begins the errors by which a leader refuses what it cannot have copied to min.insync.replicas."""
_SLOW_NS = 2_000_000_000
_MOST_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SendsWanted:
    """When sends in flight are counted.

    Attributes:
        moments: at these times, ns, by partition.
        faults: from the first to the second of these times, ns, by the id of the fault.
    """

    moments: Mapping[TopicPartition, Sequence[int]]
    faults: Mapping[str, tuple[int, int]]

    def renamed(self, named: Callable[[str], str]) -> "SendsWanted":
        """Return the same of topics of other names."""
        moments = {(named(topic), number): at for (topic, number), at in self.moments.items()}
        return replace(self, moments=moments)


@dataclass(slots=True, kw_only=True)
class Sends:
    """What a history tells of sends.

    Attributes:
        failed: those that were not acknowledged and have a known beginning, at most 100,000.
        slow: those that were acknowledged after more than 2 s with an offset, at most 100,000.
        in_flight: how many had no outcome yet at a moment, by partition and time.
        attempted: how many had no outcome yet at some time while a fault was in force, by its id.
        acked_after_healing: how many were acknowledged after the last fault was seen to be healed.
        refused: how many were refused for want of in-sync replicas.
        unknown: how many have an unknown outcome, by the error that was met, None if none was.
    """

    failed: list[dict[str, Any]] = field(default_factory=list)
    slow: list[dict[str, Any]] = field(default_factory=list)
    in_flight: Counter[tuple[TopicPartition, int]] = field(default_factory=Counter)
    attempted: Counter[str] = field(default_factory=Counter)
    acked_after_healing: int = 0
    refused: int = 0
    unknown: Counter[str | None] = field(default_factory=Counter)

    def add(self, more: "Sends") -> None:
        """Add what another part of the history tells."""
        for rows, others in ((self.failed, more.failed), (self.slow, more.slow)):
            rows += others[: _MOST_ROWS - len(rows)]
        self.in_flight.update(more.in_flight)
        self.attempted.update(more.attempted)
        self.acked_after_healing += more.acked_after_healing
        self.refused += more.refused
        self.unknown.update(more.unknown)

    def look_at(self, sends: pa.Table, wanted: SendsWanted) -> None:
        """Add what some sends tell.

        Args:
            sends: with the columns COLUMNS; of those whose beginning is not known nothing is told.
            wanted: when sends in flight are counted.
        """
        sends = sends.filter(pc.is_valid(sends["invoke_ns"]))
        healed_ns = max((end_ns for _, end_ns in wanted.faults.values()), default=0)
        acked = pc.equal(sends["type"], "ok")
        took_ns = pc.subtract(sends["complete_ns"], sends["invoke_ns"])
        late = pc.and_(pc.and_(acked, pc.greater(took_ns, _SLOW_NS)), pc.is_valid(sends["offset"]))
        acked_after = pc.sum(pc.and_(acked, pc.greater(sends["complete_ns"], healed_ns)))
        others = sends.filter(pc.invert(acked))
        errors = others["error"].cast("string")
        self.failed += others.slice(0, _MOST_ROWS - len(self.failed)).to_pylist()
        self.slow += sends.filter(late).slice(0, _MOST_ROWS - len(self.slow)).to_pylist()
        for partition, times in wanted.moments.items():
            topic, number = partition
            there = pc.and_(pc.equal(sends["topic"], topic), pc.equal(sends["partition"], number))
            counts = _open_within(sends.filter(there), [(at_ns, at_ns) for at_ns in times])
            self.in_flight.update(dict(zip(product([partition], times), counts, strict=True)))
        counts = _open_within(sends, wanted.faults.values())
        self.attempted.update(dict(zip(wanted.faults, counts, strict=True)))
        self.acked_after_healing += acked_after.as_py() or 0
        self.refused += pc.sum(pc.starts_with(errors, _REFUSAL)).as_py() or 0
        self.unknown.update(errors.filter(pc.equal(others["type"], "info")).to_pylist())

    def renamed(self, named: Callable[[str], str]) -> "Sends":
        """Return the same of topics of other names."""
        return replace(
            self,
            failed=[{**send, "topic": named(send["topic"])} for send in self.failed],
            slow=[{**send, "topic": named(send["topic"])} for send in self.slow],
            in_flight=Counter(
                {
                    ((named(topic), number), at_ns): count
                    for ((topic, number), at_ns), count in self.in_flight.items()
                }
            ),
        )


def _open_within(sends: pa.Table, spans: Collection[tuple[int, int]]) -> list[int]:
    """Return how many sends had begun by the end of each span, and not ended before it began."""
    if not spans:
        return []
    begins, ends = zip(*spans, strict=True)
    begun = np.searchsorted(np.sort(sends["invoke_ns"].to_numpy()), ends, "right")
    completed = np.sort(sends["complete_ns"].drop_null().to_numpy())
    counts: list[int] = (begun - np.searchsorted(completed, begins)).tolist()
    return counts
