"""The throughput of a long history: what throughput.py computes, by numpy and exactly.

Each task reads what was sent in one stretch of time, by whichever producer: the row groups whose
times overlap it. So a percentile is that of all sends of its bin, nothing is shuffled, and memory
is bounded by the sends of a stretch.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.grouping import by_key
from verifiers.frames.history import History
from verifiers.run_folder.member import Member
from verifiers.run_folder.schema import SEND_SCHEMA
from verifiers.scanning.scan import (
    Numbers,
    Part,
    codes,
    grouped,
    is_one_of,
    numbers,
    row_groups,
    scan,
    scan_shares,
    starts_of,
)
from verifiers.scanning.throughput import FINE_NS, QUANTILES, Throughput, assembled, bin_ns_of
from verifiers.spark.arrow import BatchFunction
from verifiers.spark.columns import INT, LONG, TEXT, struct

_STRETCH_ROWS = 4_000_000
_FEWEST_ROWS = 500_000
"""So many sends are in a stretch at most, and at least; about."""
_MOST_STEPS = 100_000
_OK, _INFO, _FAIL, _RESERVED = range(4)
_KINDS = ("ok", "info", "fail", "reserved")
_UNKNOWN = np.iinfo(np.int64).min
"""Stands for a latency, or the number of a bin, that is not known."""

_SENT = StructType(
    [SEND_SCHEMA[name] for name in ("type", "topic", "partition", "invoke_ns", "complete_ns")]
)
_ACKED = ("acked", "first_ns", "last_ns", "gap_ns", "gap_from_ns", "gap_to_ns")
_DRAWN = struct(
    bin=LONG,
    **dict.fromkeys((*_KINDS, *(f"latency_{number}" for number in range(len(QUANTILES)))), LONG),
    topic=TEXT,
    partition=INT,
    stretch=LONG,
    **dict.fromkeys(_ACKED, LONG),
)
"""Of a stretch: a row a bin, without a topic; and a row a partition, with one."""

_POLLED = struct(bin=LONG, polled=LONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bins:
    """The bins of the time axis: where the first begins, and how wide they are."""

    origin_ns: int
    bin_ns: int

    def bins(self, time_ns: Numbers) -> Numbers:
        """Return the bin of each time."""
        return (time_ns - self.origin_ns) // self.bin_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A row group: how many sends it has, and the bins of the first and the last.

    These stand for nothing unless they are `known`. It is `whole` if no time is missing in it.
    """

    part: Part
    rows: int
    low: int
    high: int
    known: bool
    whole: bool


def scan_throughput(history: History, member: Member) -> Throughput:
    """Return the throughput of a run that is verified alone; the files of its sends are known."""
    axis = _Bins(origin_ns=member.run.origin_ns, bin_ns=bin_ns_of(member))
    session = history.sends.sparkSession
    groups = _groups(history.files["send"], axis)
    edges = _edges(groups, session.sparkContext.defaultParallelism)
    bounds = list(pairwise([None, *edges, None]))
    shares = [_share(groups, begin, end) for begin, end in bounds]
    drawn = scan_shares(session, shares, _SENT, partial(_draw, axis, bounds), _DRAWN).collect()
    polled = scan(history, "poll", ["time_ns"], _count(axis), _POLLED)
    polls = polled.groupBy("bin").agg(F.sum("polled").alias("polled")).collect()
    cells: dict[int | None, dict[str, Any]] = {}
    for row in drawn:
        if row["topic"] is None:
            latency = [row[f"latency_{number}"] for number in range(len(QUANTILES))]
            cell = {name: row[name] for name in _KINDS}
            cells[row["bin"]] = cell | {"latency": None if latency[0] is None else latency}
    for row in polls:
        cells.setdefault(row["bin"], {})["polled"] = row["polled"]
    cells.setdefault(None, {})["final"] = history.final.count()
    ordered = sorted(cells.items(), key=lambda item: (item[0] is not None, item[0] or 0))
    gaps = _joined([row.asDict() for row in drawn if row["topic"] is not None])
    nothing = dict.fromkeys((*_KINDS, "latency", "polled", "final"))
    return assembled(member, [{**nothing, "bin": number, **cell} for number, cell in ordered], gaps)


def _groups(files: Sequence[str], axis: _Bins) -> list[_Group]:
    groups: list[_Group] = []
    for part, rows, times in row_groups(files):
        low, high = (axis.origin_ns,) * 2 if times is None else (times.min, times.max)
        groups.append(
            _Group(
                part=part,
                rows=rows,
                low=(low - axis.origin_ns) // axis.bin_ns,
                high=(high - axis.origin_ns) // axis.bin_ns,
                known=times is not None,
                whole=times is not None and times.has_null_count and times.null_count == 0,
            )
        )
    return groups


def _edges(groups: Sequence[_Group], cores: int) -> list[int]:
    """Return the first bins of all stretches but the first; all stretches have about as many sends.

    They are guessed from where row groups begin and end: a bad guess costs time.
    """
    rows = sum(group.rows for group in groups)
    most = min(max(rows // (2 * cores), _FEWEST_ROWS), _STRETCH_ROWS)
    stretches = -(-rows // most)
    if stretches < 2:
        return []
    low = min(group.low for group in groups)
    step = max(1, -(-(max(group.high for group in groups) + 1 - low) // _MOST_STEPS))
    density = np.zeros((max(group.high for group in groups) - low) // step + 2)
    for group in groups:
        begin, end = (group.low - low) // step, (group.high - low) // step + 1
        density[begin] += group.rows / (end - begin)
        density[end] -= group.rows / (end - begin)
    sent = np.cumsum(np.cumsum(density))
    at = np.searchsorted(sent, rows * np.arange(1, stretches) / stretches)
    return [low + int(step_number) * step for step_number in np.unique(at) if step_number > 0]


def _share(groups: Sequence[_Group], begin: int | None, end: int | None) -> list[Part]:
    """Return the row groups that a stretch may have sends in; unknown times are the first's."""
    return [
        group.part
        for group in groups
        if not group.known
        or (begin is None and not group.whole)
        or ((begin is None or group.high >= begin) and (end is None or group.low < end))
    ]


def _draw(
    axis: _Bins, bounds: Sequence[tuple[int | None, int | None]], stretch: int
) -> BatchFunction:
    begin, end = bounds[stretch]

    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent: list[tuple[Numbers, Numbers, Numbers]] = []
        acked: dict[str, list[Numbers]] = {}
        for batch in batches:
            complete, completed = numbers(batch, "complete_ns")
            bins = axis.bins(complete)
            here = completed
            here = here & (bins >= begin) if begin is not None else here | ~completed
            if end is not None:
                here = here & (~completed | (bins < end))
            if here.any():
                rows = batch if here.all() else batch.filter(pa.array(here))
                sent.append(_sent(rows, axis))
                for topic, table in _acked(rows):
                    acked.setdefault(topic, []).append(table)
        rows_drawn: list[dict[str, Any]] = [*_bins(sent)] if sent else []
        for topic, tables in acked.items():
            rows_drawn += _gaps(stretch, topic, tables)
        yield pa.RecordBatch.from_pylist(rows_drawn, schema=to_arrow_schema(_DRAWN))

    return draw


def _sent(batch: pa.RecordBatch, axis: _Bins) -> tuple[Numbers, Numbers, Numbers]:
    """Return the bin, the kind and the latency of each send."""
    complete, completed = numbers(batch, "complete_ns")
    invoke, invoked = numbers(batch, "invoke_ns")
    number, names = codes(batch, "type")
    kinds = [_KINDS.index(name) for name in names.to_pylist()]
    kind = np.array(kinds, dtype=np.int64)[number]
    latency = np.where(completed & invoked & (kind == _OK), complete - invoke, _UNKNOWN)
    kind = np.where((kind == _INFO) & ~invoked, np.int64(_RESERVED), kind)
    return np.where(completed, axis.bins(complete), _UNKNOWN), kind, latency


def _acked(batch: pa.RecordBatch) -> Iterator[tuple[str, Numbers]]:
    """Return acknowledgements by topic, merged where they lie less than FINE_NS apart.

    Rows of the table: partition, number of the fine bin, how many, the first and the last.
    """
    complete, completed = numbers(batch, "complete_ns")
    partition, placed = numbers(batch, "partition")
    topic, topics = codes(batch, "topic")
    rows = np.flatnonzero(is_one_of(batch, "type", ("ok",)) & completed & placed)
    if not len(rows):
        return
    rows = rows[grouped([topic[rows], partition[rows]])]
    topic, partition, complete = topic[rows], partition[rows], complete[rows]
    fine = complete // FINE_NS
    starts = starts_of([topic, partition, fine])
    table = np.stack(
        [
            partition[starts],
            fine[starts],
            np.diff(starts, append=len(rows)),
            np.minimum.reduceat(complete, starts),
            np.maximum.reduceat(complete, starts),
        ]
    )
    for number, name in enumerate(topics.to_pylist()):
        of_topic = topic[starts] == number
        if of_topic.any():
            yield name, table[:, of_topic]


def _bins(sent: Sequence[tuple[Numbers, Numbers, Numbers]]) -> Iterator[dict[str, Any]]:
    number, kind, latency = (np.concatenate(column) for column in zip(*sent, strict=True))
    known = number[number != _UNKNOWN]
    low = int(known.min()) if len(known) else 0
    # Sends of an unknown bin come first.
    within = np.where(number == _UNKNOWN, 0, number - low + 1)
    order = grouped([within])
    number, kind, latency, within = number[order], kind[order], latency[order], within[order]
    starts = starts_of([within])
    for begin, end in zip(starts, np.append(starts[1:], len(within)), strict=True):
        counted = np.bincount(kind[begin:end], minlength=len(_KINDS)).tolist()
        latencies = latency[begin:end]
        known = latencies[latencies != _UNKNOWN]
        cell: dict[str, Any] = dict(zip(_KINDS, counted, strict=True))
        cell["bin"] = None if number[begin] == _UNKNOWN else int(number[begin])
        if len(known):
            ranks = [math.ceil(quantile * len(known)) - 1 for quantile in QUANTILES]
            known = np.partition(known, sorted(set(ranks)))
            cell |= {f"latency_{n}": int(known[rank]) for n, rank in enumerate(ranks)}
        yield cell


def _gaps(stretch: int, topic: str, tables: Sequence[Numbers]) -> Iterator[dict[str, Any]]:
    partition, fine, acked, first, last = np.concatenate(tables, axis=1)
    order = np.lexsort((fine, partition))
    starts = starts_of([partition[order], fine[order]])
    partition, fine = partition[order][starts], fine[order][starts]
    acked = np.add.reduceat(acked[order], starts)
    first = np.minimum.reduceat(first[order], starts)
    last = np.maximum.reduceat(last[order], starts)
    lanes = starts_of([partition])
    for begin, end in zip(lanes, np.append(lanes[1:], len(partition)), strict=True):
        row: dict[str, Any] = {
            "stretch": stretch,
            "topic": topic,
            "partition": int(partition[begin]),
            "acked": int(acked[begin:end].sum()),
            "first_ns": int(first[begin]),
            "last_ns": int(last[end - 1]),
        }
        if end - begin > 1:
            length = first[begin + 1 : end] - last[begin : end - 1]
            widest = np.flatnonzero(length == length.max())[-1]
            row["gap_ns"] = int(length[widest])
            row["gap_from_ns"] = int(last[begin + widest])
            row["gap_to_ns"] = int(first[begin + 1 + widest])
        yield row


def _joined(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each partition, with its widest gap within a stretch or between two."""
    lanes = by_key(rows, itemgetter("topic", "partition"))
    joined: list[dict[str, Any]] = []
    for (topic, partition), stretches in sorted(lanes.items()):
        stretches.sort(key=lambda row: row["stretch"])
        gaps = [
            (row["gap_ns"], row["gap_from_ns"], row["gap_to_ns"])
            for row in stretches
            if row["gap_ns"] is not None
        ]
        for before, after in pairwise(stretches):
            since, until = before["last_ns"], after["first_ns"]
            # Acknowledgements this close together have been merged: there is no gap.
            if since // FINE_NS != until // FINE_NS:
                gaps.append((until - since, since, until))
        widest = max(gaps, default=None)
        joined.append(
            {
                "topic": topic,
                "partition": partition,
                "acked": sum(row["acked"] for row in stretches),
                "first_ns": stretches[0]["first_ns"],
                "last_ns": stretches[-1]["last_ns"],
                "gap": None if widest is None else {"from_ns": widest[1], "to_ns": widest[2]},
            }
        )
    return joined


def _count(axis: _Bins) -> BatchFunction:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time, known = numbers(batch, "time_ns")
            bins, polled = np.unique(axis.bins(time[known]), return_counts=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(bins, pa.int64()), pa.array(polled, pa.int64())], names=_POLLED.names
            )

    return count
