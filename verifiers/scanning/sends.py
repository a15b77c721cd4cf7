"""What a history tells of sends: those without an acknowledgement, and those in flight."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Partition = tuple[str, int]

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

    moments: Mapping[Partition, Sequence[int]]
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
    in_flight: dict[tuple[Partition, int], int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)
    acked_after_healing: int = 0
    refused: int = 0
    unknown: Counter[str | None] = field(default_factory=Counter)

    def add(self, more: "Sends") -> None:
        """Add what another part of the history tells."""
        for rows, others in ((self.failed, more.failed), (self.slow, more.slow)):
            rows += others[: _MOST_ROWS - len(rows)]
        for moment, count in more.in_flight.items():
            self.in_flight[moment] = self.in_flight.get(moment, 0) + count
        for fault, count in more.attempted.items():
            self.attempted[fault] = self.attempted.get(fault, 0) + count
        self.acked_after_healing += more.acked_after_healing
        self.refused += more.refused
        self.unknown += more.unknown

    def look_at(self, sends: pa.Table, wanted: SendsWanted) -> None:
        """Add what some sends tell.

        Args:
            sends: with the columns COLUMNS; of those whose beginning is not known nothing is told.
            wanted: when sends in flight are counted.
        """
        sends = sends.filter(pc.is_valid(sends["invoke_ns"]))
        healed_ns = max((end_ns for _, end_ns in wanted.faults.values()), default=0)
        acked = pc.equal(sends["type"], "ok")
        others = sends.filter(pc.invert(acked))
        took_ns = pc.subtract(sends["complete_ns"], sends["invoke_ns"])
        late = pc.and_(pc.and_(acked, pc.greater(took_ns, _SLOW_NS)), pc.is_valid(sends["offset"]))
        acked_after = pc.sum(pc.and_(acked, pc.greater(sends["complete_ns"], healed_ns)))
        errors = others["error"].cast("string")
        unknown = errors.filter(pc.equal(others["type"], "info"))
        everywhere = _Times(sends)
        by_partition = {partition: _Times(_of(sends, partition)) for partition in wanted.moments}
        self.add(
            Sends(
                failed=_first(others, _MOST_ROWS - len(self.failed)),
                slow=_first(sends.filter(late), _MOST_ROWS - len(self.slow)),
                in_flight={
                    (partition, at_ns): by_partition[partition].open_within(at_ns, at_ns)
                    for partition, times in wanted.moments.items()
                    for at_ns in times
                },
                attempted={
                    fault: everywhere.open_within(decided_ns, end_ns)
                    for fault, (decided_ns, end_ns) in wanted.faults.items()
                },
                acked_after_healing=acked_after.as_py() or 0,
                refused=pc.sum(pc.starts_with(errors, _REFUSAL)).as_py() or 0,
                unknown=Counter(unknown.to_pylist()),
            )
        )

    def renamed(self, named: Callable[[str], str]) -> "Sends":
        """Return the same of topics of other names."""
        return replace(
            self,
            failed=[{**send, "topic": named(send["topic"])} for send in self.failed],
            slow=[{**send, "topic": named(send["topic"])} for send in self.slow],
            in_flight={
                ((named(topic), number), at_ns): count
                for ((topic, number), at_ns), count in self.in_flight.items()
            },
        )


def _of(sends: pa.Table, partition: Partition) -> pa.Table:
    name, number = partition
    return sends.filter(
        pc.and_(pc.equal(sends["topic"], name), pc.equal(sends["partition"], number))
    )


class _Times:
    """When sends began and when they ended; sorted only if somebody asks."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @cached_property
    def _invoked(self) -> Any:  # noqa: ANN401
        return np.sort(self._table["invoke_ns"].to_numpy())

    @cached_property
    def _completed(self) -> Any:  # noqa: ANN401
        return np.sort(self._table["complete_ns"].drop_null().to_numpy())

    def open_within(self, from_ns: int, to_ns: int) -> int:
        """Return how many had begun at the end of a time, and not ended before its beginning."""
        begun = np.searchsorted(self._invoked, to_ns, "right")
        return int(begun - np.searchsorted(self._completed, from_ns))


def _first(table: pa.Table, most: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.slice(0, most).to_pylist()
    return rows
