"""Splits of op histories, which workers parse independently."""

import gc
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from verifiers.ops.first_look import suspects_of
from verifiers.ops.parser import OP_COLUMNS, STRETCH_COLUMNS, Parser, Row
from verifiers.ops.schema import (
    FILE,
    LAG,
    MOP,
    MOPS_SCHEMA,
    OP,
    OPS_SCHEMA,
    PARSED_SCHEMA,
    SUSPECT,
)
from verifiers.ops.worst_lags import worst_lags
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
_SUSPECT_COLUMNS = ("row", "key", "value")
_LAG_COLUMNS = ("row", "process", "key", "value", "invoke_ns", "op")
SPLITS_SCHEMA = declared(run=INT, split=INT, path=TEXT, begin=LONG, end=LONG, last=BOOL)


def _arrow(schema: StructType) -> pa.Schema:
    # Rows of a kind fill their own columns only.
    return pa.schema([field.with_nullable(nullable=True) for field in to_arrow_schema(schema)])


_PARSED, _OPS, _MOPS = _arrow(PARSED_SCHEMA), _arrow(OPS_SCHEMA), _arrow(MOPS_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
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


def dealt(splits: Sequence[Split], cores: int) -> list[tuple[Any, ...]]:
    """Return the rows of SPLITS_SCHEMA, so that each core gets about as much to do."""
    # Spark cuts the rows into as many equal parts as there are cores: each core gets one of the
    # largest splits first.
    largest = sorted(splits, key=lambda split: split.begin - split.end)
    in_turn = [split for core in range(cores) for split in largest[core::cores]]
    return [astuple(split) for split in in_turn]


def parse(scratch: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the ops and values of a task's splits to Parquet; yield all other rows.

    Another attempt of the same task may write too: each has files of its own, and those count whose
    names the driver is told.

    Args:
        scratch: the name of the folder in which `ops` and `mops` are written, a file a task.
        batches: rows of SPLITS_SCHEMA.
    """
    task = TaskContext.get()
    # Parsing makes millions of objects, but no circles of them: looking for these takes its time.
    gc.disable()
    try:
        with _Writer(scratch, 0 if task is None else task.partitionId()) as writer:
            for batch in batches:
                for split in batch.to_pylist():
                    yield from _parse_split(split, writer)
    finally:
        gc.enable()
    written = writer.written()
    if written:
        yield _batch(_FILE_COLUMNS, written, {"run": -1, "split": 0}, _PARSED)


class _Writer:
    """The two files of a task."""

    def __init__(self, scratch: str, task: int) -> None:
        self._scratch = scratch
        self._task = task
        self._open: dict[str, tuple[str, pq.ParquetWriter]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for _, writer in self._open.values():
            writer.close()

    def written(self) -> list[Row]:
        """Return the files, as rows in _FILE_COLUMNS."""
        return [(FILE, name, file) for name, (file, _) in self._open.items()]

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append some rows to the file of that kind."""
        if name not in self._open:
            file = storage.unused(self._scratch, f"{name}-{self._task}", ".parquet")
            writer = storage.parquet_writer(file, batch.schema, compression="lz4")
            self._open[name] = (file, writer)
        self._open[name][1].write_batch(batch)


def _parse_split(split: Mapping[str, Any], writer: _Writer) -> Iterator[pa.RecordBatch]:
    parser = Parser(first=split["split"] == 0, last=split["last"])
    whole = _Whole() if split["split"] == 0 and split["last"] else None
    for lines in _lines_of(split):
        parser.feed(lines)
        if len(parser.ops) + len(parser.mops) >= _BATCH_ROWS:
            yield from _batches(parser, split, writer, whole)
    parser.finish()
    yield from _batches(parser, split, writer, whole)
    # A file with problems is not judged.
    if whole is not None and not parser.problems:
        for columns, rows in ((_SUSPECT_COLUMNS, whole.suspects()), (_LAG_COLUMNS, whole.lags())):
            if rows:
                yield _batch(columns, rows, split, _PARSED)


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


class _Whole:
    """The ops and values of a file that one worker parses as a whole."""

    def __init__(self) -> None:
        self.ops: list[pa.RecordBatch] = []
        self.mops: list[pa.RecordBatch] = []

    def lags(self) -> list[Row]:
        """Return the worst lags, as rows in _LAG_COLUMNS."""
        return [(LAG, *worst) for worst in worst_lags(*self._tables())]

    def suspects(self) -> list[Row]:
        """Return the keys that are suspected, as rows in _SUSPECT_COLUMNS."""
        try:
            found = suspects_of(*self._tables())
        except Exception:  # noqa: BLE001  (logged)
            # The first look decides nothing: without it the checkers check every key.
            _LOG.exception("The first look at the keys crashed: the checkers look at all of them.")
            return [(SUSPECT, None, 0)]
        if len(found) > MOST_SUSPECTS:
            return [(SUSPECT, None, 0)]
        return [(SUSPECT, key, int(against)) for key, against in found]

    def _tables(self) -> tuple[pa.Table, pa.Table]:
        return pa.Table.from_batches(self.ops, _OPS), pa.Table.from_batches(self.mops, _MOPS)


def _batches(
    parser: Parser, split: Mapping[str, Any], writer: _Writer, whole: _Whole | None
) -> Iterator[pa.RecordBatch]:
    loose = [row for row in parser.ops if row[0] != OP]
    open_values = [row for row in parser.mops if row[0] != MOP]
    if loose:
        yield _batch(OP_COLUMNS, loose, split, _PARSED)
    if open_values:
        yield _values(open_values, split, _PARSED)
    if ops := [row for row in parser.ops if row[0] == OP]:
        batch = _batch(OP_COLUMNS, ops, split, _OPS)
        writer.write("ops", batch)
        if whole is not None:
            whole.ops.append(batch)
    if values := [row for row in parser.mops if row[0] == MOP]:
        batch = _values(values, split, _MOPS)
        writer.write("mops", batch)
        if whole is not None:
            whole.mops.append(batch)
    parser.ops.clear()
    parser.mops.clear()


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
