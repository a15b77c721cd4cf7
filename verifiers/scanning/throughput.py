"""Sends, reads and latencies over time, and the longest times without an acknowledgement."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.run_dir import write_atomically
from verifiers.run_folder.result import Counts

SECOND_NS = 1_000_000_000
MOST_BINS = 2000
_FINEST_BIN_NS = 100_000_000
FINE_NS = 10_000_000
"""Acknowledgements are first gathered so finely; no gap below this is ever the widest of a run."""
QUANTILES = (0.5, 0.95, 0.99)
"""Of the latencies that a bin tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGap:
    """How many sends to a partition were acknowledged, and the longest time without one.

    That time begins and ends within the first and the last acknowledgement of any partition.
    """

    topic: str
    partition: int
    acked: int
    gap_from_ns: int
    gap_to_ns: int

    @property
    def gap_s(self) -> float:
        """The length of that time."""
        return round((self.gap_to_ns - self.gap_from_ns) / SECOND_NS, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What was sent and read over time.

    Attributes:
        origin_ns: the zero of the time axis.
        bin_ns: width of a bin.
        rows: per bin: its begin in seconds after the origin; sends completed ok, info and fail;
            latency of the acknowledged ones in ms, p50, p95 and p99 (None if there was none);
            records polled. Bins in which nothing happened are left out.
        partitions: by topic and number.
        counts: how many operations there were in all, without the final read's.
    """

    origin_ns: int
    bin_ns: int
    rows: tuple[tuple[float | int | None, ...], ...]
    partitions: tuple[PartitionGap, ...]
    counts: Counts

    @property
    def widest_gap(self) -> dict[str, Any] | None:
        """The longest time without an acknowledgement, and of which partition; None: no sends."""
        if not self.partitions:
            return None
        widest = max(self.partitions, key=lambda lane: lane.gap_to_ns - lane.gap_from_ns)
        return {
            "topic": widest.topic,
            "partition": widest.partition,
            "gap_s": widest.gap_s,
            "from_s": round((widest.gap_from_ns - self.origin_ns) / SECOND_NS, 3),
        }

    def write(self, run_dir: Path) -> None:
        """Write lanes.json into the run's folder, atomically."""
        document = {
            "origin_ns": self.origin_ns,
            "bin_ns": self.bin_ns,
            "rows": self.rows,
            "partitions": [{**asdict(lane), "gap_s": lane.gap_s} for lane in self.partitions],
        }
        text = json.dumps(document, separators=(",", ":"))
        write_atomically(run_dir / "lanes.json", text + "\n")


def bin_width_ns(meta: Mapping[str, Any], origin_ns: int) -> int:
    """Return the least of 100 ms, 200 ms, 500 ms, 1 s, … that makes at most 2000 bins of a run."""
    ends = [phase.get("to_ns") for phase in meta.get("phases", [])] + [meta.get("ended_ns")]
    begins = [phase.get("from_ns") for phase in meta.get("phases", [])] + [origin_ns]
    known = [int(end) for end in ends if end is not None]
    if not known:
        return SECOND_NS
    length = max(known) - min(int(begin) for begin in begins if begin is not None)
    # The run may begin and end within a bin.
    least = max(1, -(-length // (MOST_BINS - 2)))
    decade = _FINEST_BIN_NS
    while decade * 10 < least:
        decade *= 10
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= least)
