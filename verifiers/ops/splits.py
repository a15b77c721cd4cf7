"""Splits of op histories, which workers parse independently."""

import gc
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.grouping import by_key
from verifiers.ops.first_look import suspects_of
from verifiers.ops.lags import worst_lags_of
from verifiers.ops.parser import OP_COLUMNS, STRETCH_COLUMNS, Parser, Row
from verifiers.ops.schema import (
    FILE,
    LAG,
    MOP,
    MOPS_SCHEMA,
    OP,
    OPS_SCHEMA,
    PARSED_SCHEMA,
    SPLIT,
)
from verifiers.spark import storage
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, declared

SPLIT_BYTES = 128 << 20
"""A file is divided into splits of so many bytes. A file of one split gets its first look while it
is in memory, which saves more time than a second core would."""
MOST_SUSPECTS = 1_000
"""A file with more suspected keys than this has all of its keys checked."""

_LOG = logging.getLogger(__name__)
_BLOCK_BYTES = 4 << 20

_BATCH_ROWS = 65_536
_FILE_COLUMNS = ("row", "kind", "error")
_SPLIT_COLUMNS = ("row", "error")
_LAG_COLUMNS = ("row", "process", "key", "value", "invoke_ns", "op")
SPLITS_SCHEMA = declared(run=INT, split=INT, path=TEXT, begin=LONG, end=LONG, last=BOOL)


def _arrow(schema: StructType) -> pa.Schema:
    # Rows of a kind fill their own columns only.
    return pa.schema([field.with_nullable(nullable=True) for field in to_arrow_schema(schema)])


_PARSED, _OPS, _MOPS = _arrow(PARSED_SCHEMA), _arrow(OPS_SCHEMA), _arrow(MOPS_SCHEMA)


class Split(NamedTuple):
    """The lines of a file that begin in a range of its bytes, from `begin` to before `end`.

    `run` is the position of the file among those that are verified together, `number` that of the
    split in it, from 0.
    """

    run: int
    number: int
    path: str
    begin: int
    end: int
    last: bool


def splits_of(run: int, path: str) -> list[Split]:
    """Return the splits of a file by its name, one even if it is empty."""
    size = storage.size_bytes(path)
    begins = range(0, max(size, 1), SPLIT_BYTES)
    return [
        Split(
            run=run,
            number=n,
            path=path,
            begin=begin,
            end=min(begin + SPLIT_BYTES, size),
            last=begin == begins[-1],
        )
        for n, begin in enumerate(begins)
    ]


def dealt(splits: Sequence[Split], cores: int) -> list[Split]:
    """Return the rows of SPLITS_SCHEMA, so that each core gets about as much to do."""
    # Spark cuts the rows into as many equal parts as there are cores: each core gets one of the
    # largest splits first.
    largest = sorted(splits, key=lambda split: split.begin - split.end)
    return [split for core in range(cores) for split in largest[core::cores]]


def parse(scratch: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the ops and values of a task's splits to Parquet; yield all other rows.

    Another attempt of the same task may write too: each has files of its own, and those count whose
    names the driver is told.

    Args:
        scratch: the name of the folder in which `ops` and `mops` are written, a file a task.
        batches: rows of SPLITS_SCHEMA.
    """
    task = TaskContext.get()
    writers: dict[str, pq.ParquetWriter] = {}
    files: list[Row] = []
    # Parsing makes millions of objects, but no circles of them: looking for these takes its time.
    gc.disable()
    try:
        with ExitStack() as opened:

            def write(kind: str, batch: pa.RecordBatch) -> None:
                if kind not in writers:
                    stem = f"{kind}-{0 if task is None else task.partitionId()}"
                    file = storage.unused(scratch, stem, ".parquet")
                    writer = storage.parquet_writer(file, batch.schema, compression="lz4")
                    writers[kind] = opened.enter_context(writer)
                    files.append((FILE, kind, file))
                writers[kind].write_batch(batch)

            for batch in batches:
                for split in batch.to_pylist():
                    yield from _parse_split(split, write)
    finally:
        gc.enable()
    if files:
        yield _batch(_FILE_COLUMNS, files, {"run": -1, "split": 0}, _PARSED)


def _parse_split(
    split: Mapping[str, Any], write: Callable[[str, pa.RecordBatch], None]
) -> Iterator[pa.RecordBatch]:
    parser = Parser(first=split["split"] == 0, last=split["last"])
    is_whole = split["split"] == 0 and split["last"]
    held: dict[str, list[pa.RecordBatch]] = {"ops": [], "mops": []}

    def taken() -> Iterator[pa.RecordBatch]:
        for kind, batch in _batches(parser, split):
            if kind is None:
                yield batch
                continue
            write(kind, batch)
            if is_whole:
                held[kind].append(batch)
        parser.ops.clear()
        parser.mops.clear()

    for lines in _lines_of(split):
        parser.feed(lines)
        if len(parser.ops) + len(parser.mops) >= _BATCH_ROWS:
            yield from taken()
    parser.finish()
    yield from taken()
    summary = parser.summary()
    # A file with problems is not judged.
    if is_whole and not parser.problems:
        ops = pa.Table.from_batches(held["ops"], _OPS)
        mops = pa.Table.from_batches(held["mops"], _MOPS)
        summary["suspects"] = _suspects(ops, mops)
        if lags := [(LAG, *worst) for worst in worst_lags_of(ops, mops)]:
            yield _batch(_LAG_COLUMNS, lags, split, _PARSED)
    yield _batch(_SPLIT_COLUMNS, [(SPLIT, json.dumps(summary))], split, _PARSED)


def _suspects(ops: pa.Table, mops: pa.Table) -> list[tuple[str | None, bool]]:
    """Return the suspected keys of a whole file, as `Described` has them."""
    try:
        found = suspects_of(ops, mops)
    except Exception:  # noqa: BLE001  (logged)
        # The first look decides nothing: without it the checkers check every key.
        _LOG.exception("The first look at the keys crashed: the checkers look at all of them.")
        return [(None, False)]
    return [(None, False)] if len(found) > MOST_SUSPECTS else [*found]


def _lines_of(split: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """Yield the lines that begin in a split, many at a time."""
    begin, end = split["begin"], split["end"]
    with storage.open_input(split["path"]) as file:
        if begin:
            file.seek(begin - 1)
            begin += len(file.readline()) - 1
        rest = b""
        while begin < end and (block := file.read(min(end - begin, _BLOCK_BYTES))):
            begin += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield lines
        if rest:
            yield [rest + file.readline().removesuffix(b"\n")]


def _batches(
    parser: Parser, split: Mapping[str, Any]
) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield what was parsed: the ops and mops to write, and what else there is to tell (None)."""
    for kind, rows in by_key(parser.ops, lambda row: "ops" if row[0] == OP else None).items():
        yield kind, _batch(OP_COLUMNS, rows, split, _OPS if kind else _PARSED)
    for kind, rows in by_key(parser.mops, lambda row: "mops" if row[0] == MOP else None).items():
        yield kind, _values(rows, split, _MOPS if kind else _PARSED)


def _values(
    stretches: Sequence[Row], split: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    """Return one row per value, in the columns of a schema."""
    lengths = np.array([len(stretch[-1]) for stretch in stretches], np.int64)
    stretch_of = pa.array(np.repeat(np.arange(len(stretches)), lengths))
    many = len(stretch_of)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    columns = dict(zip(STRETCH_COLUMNS, zip(*stretches, strict=True), strict=True))
    arrays = []
    for column in schema:
        if column.name in ("offset", "value"):
            each = list(chain.from_iterable(columns.get(column.name, ())))
            arrays.append(pa.array(each, column.type))
        elif column.name in columns:
            taken = pa.array(columns[column.name], column.type).take(stretch_of)
            if column.name == "position":
                within = pa.array(np.arange(many) - begins)
                taken = pc.add(taken, within.cast(column.type))
            arrays.append(taken)
        else:
            arrays.append(_same(split, column, many))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _same(split: Mapping[str, Any], column: pa.Field, many: int) -> pa.Array:
    if column.name in ("run", "split"):
        return pa.repeat(pa.scalar(split[column.name], column.type), many)
    return pa.nulls(many, column.type)


def _batch(
    columns: Sequence[str], rows: Sequence[Row], split: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    given: dict[str, Any] = dict(zip(columns, zip(*rows, strict=True), strict=True))
    arrays = [
        pa.array(given[column.name], column.type)
        if column.name in given
        else _same(split, column, len(rows))
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
