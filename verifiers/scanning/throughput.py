"""Sends, reads and latencies over time, and the longest times without an acknowledgement.

Spark's workers count them, and see what became of sends. Each task reads what was sent in one
stretch of time, by whichever producer: the row groups whose times overlap it. So a percentile is
that of all sends of its bin, nothing is shuffled, and memory is bounded by the sends of a stretch.
Short runs that are verified together are a stretch each, and a task has several of them.
"""

import itertools
import json
import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructType

from harness.core.grouping import by_key
from harness.core.run_dir import write_atomically
from verifiers.frames.history import History
from verifiers.run_folder.member import MEMBER, Member, number_column, number_of
from verifiers.run_folder.result import Counts
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
from verifiers.scanning.sends import COLUMNS, Sends, SendsWanted
from verifiers.spark.arrow import BatchFunction, map_in_arrow
from verifiers.spark.columns import INT, LONG, TEXT, struct

SECOND_NS = 1_000_000_000
MOST_BINS = 2000
_FINEST_BIN_NS = 100_000_000
FINE_NS = 10_000_000
"""Acknowledgements are first gathered so finely; no gap below this is ever the widest of a run."""
QUANTILES = (0.5, 0.95, 0.99)
"""Of the latencies that a bin tells."""

_STRETCH_ROWS = 4_000_000
_FEWEST_ROWS = 500_000
"""So many sends are in a stretch at most, and at least; about."""
_MOST_STEPS = 100_000
_OK, _INFO, _FAIL, _RESERVED = range(4)
_KINDS = ("ok", "info", "fail", "reserved")
_UNKNOWN = np.iinfo(np.int64).min
"""Stands for a latency, or the number of a bin, that is not known."""

_SENT = StructType([SEND_SCHEMA[name] for name in COLUMNS])
_LATENCIES = tuple(f"latency_{number}" for number in range(len(QUANTILES)))
_COUNTED = struct(
    **{MEMBER: INT},
    **dict.fromkeys(("bin", *_KINDS, *_LATENCIES, "polled"), LONG),
    topic=TEXT,
    partition=INT,
    stretch=LONG,
    **dict.fromkeys(("acked", "first_ns", "last_ns", "gap_from_ns", "gap_to_ns"), LONG),
    sends=BinaryType(),
)
"""Rows with `sends` hold what a task learnt of a member's sends. Others without a topic are of a
bin: what was sent in it, of which each is told once; or how many records were polled, by one task.
Those with a topic are of a partition in a stretch of time."""

_POLLED = struct(**{MEMBER: INT}, bin=LONG, polled=LONG)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is to be learnt of a member.

    Attributes:
        origin_ns: where the first bin of its time axis begins.
        bin_ns: how wide its bins are.
        wanted: what has to be known of its sends.
    """

    origin_ns: int
    bin_ns: int
    wanted: SendsWanted

    def bins(self, time_ns: Numbers) -> Numbers:
        """Return the bin of each time."""
        return (time_ns - self.origin_ns) // self.bin_ns


_Tasks = Mapping[int, _Task]
"""By the number of the member."""

_Bounds = tuple[int | None, int | None]
"""The first bin of a stretch and the one behind its last; None is without a bound."""

_EVERYTHING: _Bounds = (None, None)


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
    widths: Iterator[int] = (
        step * 10**power * _FINEST_BIN_NS for power in itertools.count() for step in (1, 2, 5)
    )
    return next(width for width in widths if width >= least)


def throughputs(
    history: History, members: Sequence[Member], wanted: Sequence[SendsWanted]
) -> dict[int, tuple[Throughput, Sends]]:
    """Return the throughput of each member, and what became of its sends, by its number; one job.

    Args:
        history: the recorded frames.
        members: whose history it is.
        wanted: of each member, what has to be known of its sends.
    """
    tasks = {
        member.number: _Task(
            origin_ns=member.run.origin_ns,
            bin_ns=bin_width_ns(member.run.meta, member.run.origin_ns),
            wanted=asked.renamed(member.named),
        )
        for member, asked in zip(members, wanted, strict=True)
    }
    columns = ["time_ns"] if len(members) == 1 else ["time_ns", "topic"]
    polled = scan(history, "poll", columns, _count_polled(tasks), _POLLED)
    sent = _count_sent(history, members, tasks)
    counted = sent.unionByName(polled, allowMissingColumns=True)
    rows = by_key(counted.collect(), itemgetter(MEMBER))
    return {
        member.number: _of_member(member, tasks[member.number], rows.get(member.number, []))
        for member in members
    }


def _of_member(member: Member, task: _Task, rows: Sequence[Row]) -> tuple[Throughput, Sends]:
    sends = Sends(attempted=Counter(dict.fromkeys(task.wanted.faults, 0)))
    bins: dict[int | None, Counter[str]] = defaultdict(Counter)
    latencies: dict[int | None, list[int | None]] = defaultdict(lambda: [None] * len(QUANTILES))
    stretches: list[Row] = []
    for row in rows:
        if row["sends"] is not None:
            sends.add(pickle.loads(row["sends"]))  # noqa: S301  (our own worker wrote it)
        elif row["topic"] is not None:
            stretches.append(row)
        else:
            bins[row["bin"]].update({name: row[name] or 0 for name in (*_KINDS, "polled")})
            if row[_LATENCIES[0]] is not None:
                latencies[row["bin"]] = [row[name] for name in _LATENCIES]
    total = sum(bins.values(), Counter())
    throughput = Throughput(
        origin_ns=task.origin_ns,
        bin_ns=task.bin_ns,
        rows=tuple(
            (
                at * task.bin_ns / SECOND_NS,
                *(bins[at][name] for name in ("ok", "info", "fail")),
                *(None if ns is None else round(ns / 1e6, 3) for ns in latencies[at]),
                bins[at]["polled"],
            )
            for at in sorted(at for at in bins if at is not None)
        ),
        partitions=tuple(_widest_gaps(member, stretches)),
        counts=Counts(
            acked=total["ok"],
            failed=total["fail"],
            indeterminate=total["info"],
            sends=total["ok"] + total["fail"] + total["info"],
            reserved=total["reserved"],
            read=total["polled"],
        ),
    )
    return throughput, sends.renamed(member.own)


def _widest_gaps(member: Member, rows: Sequence[Row]) -> Iterator[PartitionGap]:
    """Yield the widest gap of each partition: within a stretch, between two, or at either end."""
    begin_ns = min((row["first_ns"] for row in rows), default=0)
    end_ns = max((row["last_ns"] for row in rows), default=0)
    for (topic, partition), stretches in sorted(
        by_key(rows, itemgetter("topic", "partition")).items()
    ):
        stretches.sort(key=itemgetter("stretch"))
        gaps = [(begin_ns, stretches[0]["first_ns"]), (stretches[-1]["last_ns"], end_ns)]
        gaps += [
            (row["gap_from_ns"], row["gap_to_ns"])
            for row in stretches
            if row["gap_from_ns"] is not None
        ]
        gaps += [
            (before["last_ns"], after["first_ns"])
            for before, after in pairwise(stretches)
            # Acknowledgements this close together have been merged: there is no gap.
            if before["last_ns"] // FINE_NS != after["first_ns"] // FINE_NS
        ]
        since, until = max(gaps, key=lambda gap: gap[1] - gap[0])
        yield PartitionGap(
            topic=member.own(topic),
            partition=partition,
            acked=sum(row["acked"] for row in stretches),
            gap_from_ns=since,
            gap_to_ns=until,
        )


def _count_sent(history: History, members: Sequence[Member], tasks: _Tasks) -> DataFrame:
    """Return what was sent: _COUNTED."""
    session = history.sends.sparkSession
    if "send" not in history.files:
        # What only Spark can read is brought together by Spark: no bin is in two parts.
        sends = history.sends.select(*_SENT.names)
        (task, *others) = tasks.values()
        bins = F.floor((F.col("complete_ns") - task.origin_ns) / task.bin_ns)
        together = (
            sends.repartition(number_column("topic", members))
            if others
            else sends.repartitionByRange(bins)
        )
        return map_in_arrow(together, _count(tasks, _EVERYTHING), _COUNTED)
    shares, bounds = _shares(
        history.files["send"], members, tasks, session.sparkContext.defaultParallelism
    )
    return scan_shares(
        session, shares, _SENT, lambda share: _count(tasks, bounds[share], share), _COUNTED
    )


def _shares(
    files: Sequence[str], members: Sequence[Member], tasks: _Tasks, cores: int
) -> tuple[list[list[Part]], list[_Bounds]]:
    """Return the row groups that each task reads, and the stretch of which it counts the sends."""
    if len(members) == 1:
        groups = _groups(files, next(iter(tasks.values())))
        bounds = list(pairwise([None, *_edges(groups, cores), None]))
        return [_share(groups, begin, end) for begin, end in bounds], bounds
    # All sends of a member are in one file (run_folder/gathering.py).
    shares = [[(file, group) for (file, group), _, _ in row_groups([name])] for name in files]
    return shares, [_EVERYTHING] * len(shares)


def _groups(files: Sequence[str], task: _Task) -> list[_Group]:
    return [
        _Group(
            part=part,
            rows=rows,
            low=0 if times is None else (times.min - task.origin_ns) // task.bin_ns,
            high=0 if times is None else (times.max - task.origin_ns) // task.bin_ns,
            known=times is not None,
            whole=times is not None and times.has_null_count and times.null_count == 0,
        )
        for part, rows, times in row_groups(files)
    ]


def _edges(groups: Sequence[_Group], cores: int) -> list[int]:
    """Return the first bins of all stretches but the first; all stretches have about as many sends.

    They are guessed from where row groups begin and end: a bad guess costs time.
    """
    rows = sum(group.rows for group in groups)
    most = min(max(rows // (2 * cores), _FEWEST_ROWS), _STRETCH_ROWS)
    stretches = -(-rows // most)
    if stretches < 2:
        return []
    low, high = min(group.low for group in groups), max(group.high for group in groups)
    step = max(1, -(-(high + 1 - low) // _MOST_STEPS))
    density = np.zeros((high - low) // step + 2)
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


def _count(tasks: _Tasks, bounds: _Bounds, share: int | None = None) -> BatchFunction:
    """Return a function that counts the sends of a stretch; of none, every part is one."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sent: dict[int, dict[int, _Bin]] = defaultdict(lambda: defaultdict(_Bin))
        acked: dict[tuple[int, str], list[Numbers]] = defaultdict(list)
        told: dict[int, Sends] = defaultdict(Sends)
        for batch in batches:
            for number, rows in _by_member(batch, tasks):
                here = rows.filter(_within(rows, tasks[number], bounds))
                if here.num_rows:
                    _add(here, tasks[number], sent[number])
                    told[number].look_at(pa.Table.from_batches([here]), tasks[number].wanted)
                    for topic, table in _acked(here):
                        acked[number, topic].append(table)
        counted: list[dict[str, Any]] = []
        for number, bins in sent.items():
            counted += (bins[at].cell(number, at) for at in sorted(bins))
            counted.append({MEMBER: number, "sends": pickle.dumps(told[number])})
        for (number, topic), tables in acked.items():
            stretch = _part_number() if share is None else share
            common = {MEMBER: number, "topic": topic, "stretch": stretch}
            counted += ({**common, **gap} for gap in _gaps(tables))
        yield pa.RecordBatch.from_pylist(counted, schema=to_arrow_schema(_COUNTED))

    return count


def _part_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _by_member(batch: pa.RecordBatch, tasks: _Tasks) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each member, and its number."""
    if len(tasks) == 1:
        yield next(iter(tasks)), batch
        return
    number, topics = codes(batch, "topic")
    member = np.array([number_of(topic) for topic in topics.to_pylist()], np.int64)[number]
    for one in np.unique(member).tolist():
        chosen = member == one
        yield one, batch if chosen.all() else batch.filter(pa.array(chosen))


def _within(batch: pa.RecordBatch, task: _Task, bounds: _Bounds) -> pa.Array:
    """Return which sends end in a stretch; those of which no end is known are in the first one."""
    begin, end = bounds
    complete, completed = numbers(batch, "complete_ns")
    bins = task.bins(complete)
    here = completed & (bins >= begin) if begin is not None else np.ones_like(completed)
    return pa.array(here if end is None else here & (~completed | (bins < end)))


class _Bin:
    """What was sent in a bin: how many of each kind, and how long the acknowledged ones took."""

    def __init__(self) -> None:
        self._kinds = np.zeros(len(_KINDS), np.int64)
        self._latencies: list[Numbers] = []

    def add(self, kind: Numbers, latency: Numbers) -> None:
        self._kinds += np.bincount(kind, minlength=len(_KINDS))
        self._latencies.append(latency[latency != _UNKNOWN])

    def cell(self, member: int, at: int) -> dict[str, Any]:
        """Return it as a row of _COUNTED."""
        cell: dict[str, Any] = dict(zip(_KINDS, self._kinds.tolist(), strict=True))
        cell |= {MEMBER: member, "bin": None if at == _UNKNOWN else at}
        known = np.concatenate(self._latencies)
        if len(known):
            ranks = [math.ceil(quantile * len(known)) - 1 for quantile in QUANTILES]
            known.partition(sorted(set(ranks)))
            cell |= {name: int(known[rank]) for name, rank in zip(_LATENCIES, ranks, strict=True)}
        return cell


def _add(batch: pa.RecordBatch, task: _Task, bins: Mapping[int, _Bin]) -> None:
    """Add sends to their bins; those of which no end is known to the bin _UNKNOWN."""
    complete, completed = numbers(batch, "complete_ns")
    invoke, invoked = numbers(batch, "invoke_ns")
    number, names = codes(batch, "type")
    kinds = [_KINDS.index(name) for name in names.to_pylist()]
    kind = np.array(kinds, dtype=np.int64)[number]
    latency = np.where(completed & invoked & (kind == _OK), complete - invoke, _UNKNOWN)
    kind = np.where((kind == _INFO) & ~invoked, np.int64(_RESERVED), kind)
    at = task.bins(complete)
    low = int(at[completed].min()) if completed.any() else 0
    # Sends of an unknown bin come first.
    within = np.where(completed, at - low + 1, 0)
    order = grouped([within])
    at, kind, latency = np.where(completed, at, _UNKNOWN)[order], kind[order], latency[order]
    starts = starts_of([at])
    for begin, end in zip(starts, np.append(starts[1:], len(at)), strict=True):
        bins[int(at[begin])].add(kind[begin:end], latency[begin:end])


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


def _gaps(tables: Sequence[Numbers]) -> Iterator[dict[str, Any]]:
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
            "partition": int(partition[begin]),
            "acked": int(acked[begin:end].sum()),
            "first_ns": int(first[begin]),
            "last_ns": int(last[end - 1]),
        }
        if end - begin > 1:
            length = first[begin + 1 : end] - last[begin : end - 1]
            widest = np.flatnonzero(length == length.max())[-1]
            row["gap_from_ns"] = int(last[begin + widest])
            row["gap_to_ns"] = int(first[begin + 1 + widest])
        yield row


def _count_polled(tasks: _Tasks) -> BatchFunction:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(_POLLED)
        for batch in batches:
            for number, rows in _by_member(batch, tasks):
                time, known = numbers(rows, "time_ns")
                bins, polled = np.unique(tasks[number].bins(time[known]), return_counts=True)
                columns = {MEMBER: np.full(len(bins), number), "bin": bins, "polled": polled}
                yield pa.RecordBatch.from_pydict(columns, schema=schema)

    return count
