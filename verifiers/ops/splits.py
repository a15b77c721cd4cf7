"""Pieces of op histories, each parsed by a worker by itself."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from verifiers.ops.lines import MOP_COLUMNS, OP_COLUMNS, Parser, Row, split_lines
from verifiers.ops.schema import MOP, MOPS_SCHEMA, OP, OPS_SCHEMA, PARSED_SCHEMA

SPLIT_BYTES = 8 << 20
"""A file is divided into pieces of so many bytes, each parsed by itself."""

_BATCH_ROWS = 65_536
SPLITS_SCHEMA = StructType(
    [
        StructField("run", IntegerType(), nullable=False),
        StructField("split", IntegerType(), nullable=False),
        StructField("path", StringType(), nullable=False),
        StructField("begin", LongType(), nullable=False),
        StructField("end", LongType(), nullable=False),
    ]
)
_ARROW: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.field("element", pa.string(), nullable=False)),
}


def _arrow(schema: StructType) -> pa.Schema:
    return pa.schema([pa.field(f.name, _ARROW[f.dataType.simpleString()]) for f in schema.fields])


_PARSED, _OPS, _MOPS = _arrow(PARSED_SCHEMA), _arrow(OPS_SCHEMA), _arrow(MOPS_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The lines of a file that begin in a range of its bytes.

    Attributes:
        run: position of the file among those that are verified together.
        number: of the split in the file, from 0.
        path: the file.
        begin: first byte.
        end: the byte after the last.
    """

    run: int
    number: int
    path: str
    begin: int
    end: int


def splits_of(run: int, path: Path) -> list[Split]:
    """Return the splits of a file, one even if it is empty."""
    size = path.stat().st_size
    begins = range(0, max(size, 1), SPLIT_BYTES)
    return [
        Split(run=run, number=n, path=str(path.absolute()), begin=b, end=min(b + SPLIT_BYTES, size))
        for n, b in enumerate(begins)
    ]


def dealt(splits: Sequence[Split], cores: int) -> list[tuple[Any, ...]]:
    """Return the rows of SPLITS_SCHEMA, so that each core gets about as much to do."""
    # A table of rows is cut into as many equal stretches as there are cores: deal the largest
    # splits out first, one to each.
    largest = sorted(splits, key=lambda split: split.begin - split.end)
    in_turn = [split for core in range(cores) for split in largest[core::cores]]
    return [(one.run, one.number, one.path, one.begin, one.end) for one in in_turn]


def parse(scratch: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the ops and values of a task's splits to Parquet; yield what else there is to tell.

    Args:
        scratch: the folder in which `ops` and `mops` are written, a file a task.
        batches: rows of SPLITS_SCHEMA.
    """
    task = TaskContext.get()
    with _Writer(scratch, 0 if task is None else task.partitionId()) as writer:
        for batch in batches:
            for split in batch.to_pylist():
                yield from _parse_split(split, writer)


class _Writer:
    """The two files of a task; they take their names when the task has done all."""

    def __init__(self, scratch: Path, task: int) -> None:
        self._scratch = scratch
        self._task = task
        self._open: dict[str, tuple[Path, pq.ParquetWriter]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for name, (draft, writer) in self._open.items():
            writer.close()
            if kind is None:
                draft.replace(self._scratch / name / f"{self._task}.parquet")

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Append some rows to the file in the folder of that name."""
        if name not in self._open:
            (self._scratch / name).mkdir(exist_ok=True)
            draft = self._scratch / name / f"{self._task}-{uuid.uuid4()}.draft"
            self._open[name] = (draft, pq.ParquetWriter(draft, batch.schema, compression="lz4"))
        self._open[name][1].write_batch(batch)


def _parse_split(split: Mapping[str, Any], writer: _Writer) -> Iterator[pa.RecordBatch]:
    parser = Parser(first=split["split"] == 0)
    for lines in split_lines(_bytes_of(split)):
        parser.feed(lines)
        if len(parser.ops) + len(parser.mops) >= _BATCH_ROWS:
            yield from _batches(parser, split, writer)
    parser.finish()
    yield from _batches(parser, split, writer)


def _bytes_of(split: Mapping[str, Any]) -> bytes:
    """Return the lines that begin in a split."""
    begin, end = split["begin"], split["end"]
    with Path(split["path"]).open("rb") as file:
        if begin:
            file.seek(begin - 1)
            begin += len(file.readline()) - 1
        if begin >= end:
            return b""
        return file.read(end - begin) + (b"" if _ends_a_line(file) else file.readline())


def _ends_a_line(file: Any) -> bool:  # noqa: ANN401  (any binary file)
    file.seek(-1, 1)
    last: bytes = file.read(1)
    return last == b"\n"


def _batches(parser: Parser, split: Mapping[str, Any], writer: _Writer) -> Iterator[pa.RecordBatch]:
    for columns, rows, kind, name, schema in (
        (OP_COLUMNS, parser.ops, OP, "ops", _OPS),
        (MOP_COLUMNS, parser.mops, MOP, "mops", _MOPS),
    ):
        whole = [row for row in rows if row[0] == kind]
        loose = [row for row in rows if row[0] != kind]
        if whole:
            writer.write(name, _batch(columns, whole, split, schema))
        if loose:
            yield _batch(columns, loose, split, _PARSED)
        rows.clear()


def _batch(
    columns: Sequence[str], rows: Sequence[Row], split: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    given: dict[str, Any] = dict(zip(columns, zip(*rows, strict=True), strict=True))
    many = len(rows)
    arrays = []
    for column in schema:
        if column.name in ("run", "split"):
            arrays.append(pa.repeat(pa.scalar(split[column.name], column.type), many))
        elif column.name in given:
            arrays.append(pa.array(given[column.name], column.type))
        else:
            arrays.append(pa.nulls(many, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
