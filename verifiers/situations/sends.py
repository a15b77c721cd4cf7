"""What a history tells of sends: those without an acknowledgement, and those in flight."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """

    failed: list[dict[str, Any]] = field(default_factory=list)
    slow: list[dict[str, Any]] = field(default_factory=list)
    in_flight: Counter[tuple[TopicPartition, int]] = field(default_factory=Counter)
    attempted: Counter[str] = field(default_factory=Counter)
    acked_after_healing: int = 0
    refused: int = 0

    def add(self, more: "Sends") -> None:
        """Add what another part of the history tells."""
        for rows, others in ((self.failed, more.failed), (self.slow, more.slow)):
            rows += others[: _MOST_ROWS - len(rows)]
        self.in_flight.update(more.in_flight)
        self.attempted.update(more.attempted)
        self.acked_after_healing += more.acked_after_healing
        self.refused += more.refused


def sends_in(tables: Iterable[pa.Table], wanted: SendsWanted) -> Sends:
    """Return what parts of a history tell of sends, whichever parts they are.

    Args:
        tables: with the columns COLUMNS.
        wanted: when sends in flight are counted.
    """
    sends = Sends(attempted=Counter(dict.fromkeys(wanted.faults, 0)))
    for table in tables:
        _tell(sends, table.filter(pc.is_valid(table["invoke_ns"])), wanted)
    return sends


def _tell(sends: Sends, table: pa.Table, wanted: SendsWanted) -> None:
    """Add what a part of a history tells."""
    healed_ns = max((end_ns for _, end_ns in wanted.faults.values()), default=0)
    acked = pc.equal(table["type"], "ok")
    took_ns = pc.subtract(table["complete_ns"], table["invoke_ns"])
    late = pc.and_(pc.and_(acked, pc.greater(took_ns, _SLOW_NS)), pc.is_valid(table["offset"]))
    acked_after = pc.sum(pc.and_(acked, pc.greater(table["complete_ns"], healed_ns)))
    others = table.filter(pc.invert(acked))
    sends.failed += others.slice(0, _MOST_ROWS - len(sends.failed)).to_pylist()
    sends.slow += table.filter(late).slice(0, _MOST_ROWS - len(sends.slow)).to_pylist()
    for partition, times in wanted.moments.items():
        topic, number = partition
        is_there = pc.and_(pc.equal(table["topic"], topic), pc.equal(table["partition"], number))
        counts = _open_within(table.filter(is_there), [(at_ns, at_ns) for at_ns in times])
        sends.in_flight.update(dict(zip(product([partition], times), counts, strict=True)))
    counts = _open_within(table, wanted.faults.values())
    sends.attempted.update(dict(zip(wanted.faults, counts, strict=True)))
    sends.acked_after_healing += acked_after.as_py() or 0
    sends.refused += pc.sum(pc.starts_with(others["error"].cast("string"), _REFUSAL)).as_py() or 0


def _open_within(table: pa.Table, spans: Collection[tuple[int, int]]) -> list[int]:
    """Return how many sends had begun by the end of each span, and not ended before it began."""
    if not spans:
        return []
    begins, ends = zip(*spans, strict=True)
    begun = np.searchsorted(np.sort(table["invoke_ns"].to_numpy()), ends, "right")
    over = np.searchsorted(np.sort(table["complete_ns"].to_numpy()), begins)
    counts: list[int] = (begun - over).tolist()
    return counts
