"""Order checks without a sort: the rows of presorted files that the order checks need.

A sealed file holds what one client did, in the order in which it did it, so nearly all rows that an
order check compares lie next to each other in the file. A pass over the files, batch by batch,
keeps

-   each pair of consecutive rows that is out of order: the later offset is not the next one
    (polls), or is not higher (sends);
-   each pair of sends that contains a suspicious value, or has one between them;
-   the first and the last row of each lane in each batch: they are compared across batches.

A lane is what one process did in one partition. Each row kept names its batch and its number within
its lane there, so it is known where rows were left out, and that these rows are in order. A window
over the rows kept finds what a window over all rows would find.

This holds only if batches do not overlap in the order of a lane. `are_sorted` detects a file
that was written in another order; then all rows have to be sorted.
"""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from verifiers.frames.history import History
from verifiers.run_folder.schema import POLL_SCHEMA, SEND_SCHEMA
from verifiers.scanning.scan import Flags, Numbers, codes, grouped, is_one_of, numbers, scan
from verifiers.spark.arrow import BatchFunction
from verifiers.spark.columns import INT, LONG, struct

UNSORTED = -1
"""The place of rows whose lane is not sorted within its batch."""

_LANE = ("process", "topic", "partition")
_POLL_ORDER = ("time_ns", "op", "position")
_SEND_ORDER = ("op",)

_POLL_COLUMNS = [*_LANE, "op", "position", "offset", "value", "time_ns"]
_SEND_COLUMNS = [*_LANE, "op", "offset", "value", "complete_ns", "txn"]


def polls(history: History) -> DataFrame:
    """Return the polled records that `turns` needs.

    Columns:
        process, topic, partition, op, position, offset, value, time_ns: as recorded.
        batch: the batch that held it.
        place: its number among the rows of its lane in that batch, or UNSORTED.
    """
    kernel = _kernel(_POLL_ORDER, None)
    return scan(history, "poll", _POLL_COLUMNS, kernel, _kept_of(POLL_SCHEMA, _POLL_COLUMNS))


def sends(history: History, suspicious: Sequence[int]) -> DataFrame:
    """Return the sends, ok or info, that `producing` needs.

    Args:
        history: the recorded frames.
        suspicious: the values that may not be in order, in any order.

    Columns:
        process, topic, partition, op, offset, value, complete_ns, txn: as recorded; offset is null
            unless it was acknowledged.
        batch, place: as of `polls`. A send whose offset is not known has no lane and is always
            kept: it is no offence unless its value was read, and then it is one of `suspicious`.
    """
    kernel = _kernel(_SEND_ORDER, np.sort(np.asarray(suspicious, dtype=np.int64)))

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return kernel(map(_not_refused, batches))

    given = _kept_of(SEND_SCHEMA, _SEND_COLUMNS)
    return scan(history, "send", [*_SEND_COLUMNS, "type"], keep, given)


def are_sorted(polls: DataFrame, sends: DataFrame) -> tuple[bool, bool]:
    """Return whether the files of polls, and those of sends, are sorted as sealing sorts them.

    Runs a job over the rows kept.

    Args:
        polls: as returned by `polls`.
        sends: as returned by `sends`, with whichever suspicious values.
    """
    astray = _astray(polls, _POLL_ORDER).select(F.lit("poll").alias("dataset"))
    others = _astray(sends, _SEND_ORDER).select(F.lit("send").alias("dataset"))
    unsorted = {row["dataset"] for row in astray.unionByName(others).distinct().collect()}
    return "poll" not in unsorted, "send" not in unsorted


def _astray(kept: DataFrame, order: Sequence[str]) -> DataFrame:
    """Return a row for each part of a lane that is not in order, or begins before another ends."""
    laned = kept.where(F.col("partition").isNotNull() & F.col("offset").isNotNull())
    key = F.struct(*order)
    spans = laned.groupBy(*_LANE, "batch").agg(
        F.min(key).alias("begin"), F.max(key).alias("end"), F.min("place").alias("place")
    )
    before = F.max("end").over(
        Window.partitionBy(*_LANE).orderBy("begin").rowsBetween(Window.unboundedPreceding, -1)
    )
    return spans.select("place", "begin", before.alias("before")).where(
        (F.col("place") == UNSORTED) | (F.col("before") >= F.col("begin"))
    )


def _kept_of(schema: StructType, columns: Sequence[str]) -> StructType:
    return struct(**{name: schema[name].dataType for name in columns}, batch=LONG, place=INT)


def _not_refused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the sends that are ok or info; an offset that was not acknowledged is not known."""
    acked = is_one_of(batch, "type", ("ok",))
    rows = batch.select(_SEND_COLUMNS)
    if acked.all():
        return rows
    wanted = acked | is_one_of(batch, "type", ("info",))
    offset = pc.if_else(pa.array(acked), rows["offset"], pa.scalar(None, rows["offset"].type))
    place = rows.schema.get_field_index("offset")
    return rows.set_column(place, rows.schema.field(place), offset).filter(pa.array(wanted))


def _kernel(order: Sequence[str], suspicious: Numbers | None) -> BatchFunction:
    """Return a function that keeps rows.

    Args:
        order: the columns by which the rows of a lane are in order.
        suspicious: the values, sorted, of which the sends are kept; None if the rows are polls.
    """

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Unique among all tasks of a job, and their attempts.
        base = int.from_bytes(os.urandom(5), "little") << 22
        for number, batch in enumerate(batches):
            if batch.num_rows:
                yield _kept(batch, base + number, order, suspicious)

    return keep


def _kept(
    batch: pa.RecordBatch, number: int, order: Sequence[str], suspicious: Numbers | None
) -> pa.RecordBatch:
    by_lane, lane = _lanes(batch)
    same = lane[1:] == lane[:-1]
    first = np.concatenate(([True], ~same))
    starts = np.flatnonzero(first)
    place = np.arange(len(lane)) - np.repeat(starts, np.diff(np.append(starts, len(lane))))

    grown = np.diff(numbers(batch, "offset")[0][by_lane])
    plain = (grown == 1) if suspicious is None else (grown > 0)
    if suspicious is not None:
        value = numbers(batch, "value")[0][by_lane]
        # A suspicious value lies in [before, after].
        plain &= np.searchsorted(suspicious, value[:-1]) == np.searchsorted(
            suspicious, value[1:], "right"
        )

    wanted = first | np.append(~same, True)
    out_of_order = same & ~plain
    wanted[1:] |= out_of_order
    wanted[:-1] |= out_of_order
    wanted |= lane < 0

    unsorted = np.unique(lane[1:][same & ~_rising(batch, by_lane, order)])
    astray = np.isin(lane, unsorted[unsorted >= 0])
    wanted |= astray
    place[astray] = UNSORTED

    kept = batch.take(pa.array(by_lane[wanted]))
    kept = kept.append_column("batch", pa.repeat(pa.scalar(number, pa.int64()), kept.num_rows))
    return kept.append_column("place", pa.array(place[wanted], pa.int32()))


def _lanes(batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Return an order that keeps the rows of a lane together, and the lane of each row in it.

    A lane is a number; it is -1 where partition or offset are not known.
    """
    process = numbers(batch, "process")[0]
    topic = codes(batch, "topic")[0]
    partition, known = numbers(batch, "partition")
    known &= numbers(batch, "offset")[1]
    order = grouped([known.astype(np.int64), topic, process - process.min(), partition])
    # 24 bits of a partition, 16 of a topic within a batch, the rest of a process.
    lanes = (process << 40) | (topic << 24) | partition
    return order, np.where(known, lanes, -1)[order]


def _rising(batch: pa.RecordBatch, by_lane: Numbers, order: Sequence[str]) -> Flags:
    """Return whether each row, sorted by lane, comes before the next by its order."""
    rising = np.zeros(len(by_lane) - 1, dtype=np.bool_)
    level = np.ones(len(by_lane) - 1, dtype=np.bool_)
    for name in order:
        column = numbers(batch, name)[0][by_lane]
        rising |= level & (column[1:] > column[:-1])
        level &= column[1:] == column[:-1]
    return rising
