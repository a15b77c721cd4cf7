"""Scans: Spark's workers read a dataset's files and apply a function to its Arrow batches.

Computations that need one or two numbers of every record of a long history run as numpy in Spark's
workers. A worker that reads row groups itself avoids the most expensive part of such a scan: the
JVM's reading the rows and handing them to Python.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.errors import HistoryUnreadable
from verifiers.frames.history import History
from verifiers.spark import storage
from verifiers.spark.arrow import BatchFunction, frame_of, map_in_arrow

BATCH_ROWS = 131_072
"""A function gets so many rows at once: their columns fit into a processor's cache."""

_SHARES_EACH = 2
_TIMES = ("complete_ns", "time_ns")
_FEWEST_ROWS, _MOST_ROWS = 500_000, 8_000_000

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Part = tuple[str, int]
"""A file, and the number of a row group in it."""


def scan(
    history: History,
    dataset: str,
    columns: Sequence[str],
    kernel: BatchFunction,
    schema: StructType,
) -> DataFrame:
    """Return the results of a function on the rows of a dataset, in columns of `schema`.

    The function sees the batches of a row group in their order, and row groups in any; text columns
    may be encoded by a dictionary. It must not matter to the result how rows are divided.

    Args:
        history: the recorded frames.
        dataset: send, poll or final.
        columns: those that the function asks for.
        kernel: the function.
        schema: of what it returns.
    """
    frame = {"send": history.sends, "poll": history.polls, "final": history.final}[dataset]
    files = history.files.get(dataset)
    if files is None:
        return map_in_arrow(frame.select(*columns), kernel, schema)
    session = frame.sparkSession
    wanted = StructType([frame.schema[name] for name in columns])
    shares = _shares(files, session.sparkContext.defaultParallelism)
    return scan_shares(session, shares, wanted, lambda _: kernel, schema)


def scan_shares(
    session: SparkSession,
    shares: Sequence[Sequence[Part]],
    columns: StructType,
    kernel: Callable[[int], BatchFunction],
    schema: StructType,
) -> DataFrame:
    """Return the results of functions on the rows of row groups, as `scan` does.

    Each task reads one of the `shares`, and `kernel` returns the function for it by its number.
    """
    if not shares:
        return frame_of(session, [], schema)
    wanted = to_arrow_schema(columns, timezone="UTC")
    given = to_arrow_schema(schema, timezone="UTC")

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                rows = (rows for part in shares[number] for rows in _rows_of(part, wanted))
                for made in kernel(number)(rows):
                    yield made.cast(given) if made.schema != given else made

    # One row, and so one share, for each task.
    return map_in_arrow(session.range(0, len(shares), 1, len(shares)), read, schema)


def _shares(files: Sequence[str], cores: int) -> list[list[Part]]:
    """Return the row groups of files in the order of time, divided into about equal shares.

    A task costs its worker as much as some hundred thousand rows: so there are a few for each core,
    and more only of a history so long that to repeat one would take long. What several clients did
    at one time is about the same places: one worker that sees it has less to say of it.
    """
    # Only speed depends on the times.
    groups = [
        (0 if times is None else int(times.min), rows, part)
        for part, rows, times in row_groups(files)
    ]
    rows = sum(count for _, count, _ in groups)
    most = min(max(rows // (_SHARES_EACH * cores), _FEWEST_ROWS), _MOST_ROWS)
    shares: list[list[Part]] = []
    filled = most
    for _, count, part in sorted(groups):
        if filled >= most:
            shares.append([])
            filled = 0
        shares[-1].append(part)
        filled += count
    return shares


def row_groups(files: Sequence[str]) -> Iterator[tuple[Part, int, pq.Statistics | None]]:
    """Yield each row group, its number of rows, and the statistics of its times if it has any."""
    for file, metadata in zip(files, storage.parquet_footers(files), strict=True):
        names = metadata.schema.names
        where = next((names.index(name) for name in names if name in _TIMES), None)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            times = None if where is None else group.column(where).statistics
            known = times is not None and times.has_min_max
            yield (file, number), group.num_rows, times if known else None


def _rows_of(part: Part, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return the rows of a row group; a column that the file lacks is null.

    Raises:
        HistoryUnreadable: the file is damaged, or is not there.
    """
    file, group = part
    texts = [field.name for field in wanted if pa.types.is_string(field.type)]
    try:
        with storage.open_parquet(file, read_dictionary=texts) as opened:
            there = set(opened.schema_arrow.names)
            names = [name for name in wanted.names if name in there]
            for batch in opened.iter_batches(BATCH_ROWS, row_groups=[group], columns=names):
                columns = [
                    _as(batch.column(field.name), field.type)
                    if field.name in there
                    else pa.nulls(batch.num_rows, field.type)
                    for field in wanted
                ]
                yield pa.RecordBatch.from_arrays(columns, names=wanted.names)
    except storage.ERRORS as error:
        reason = str(error).splitlines()[0]
        raise HistoryUnreadable(f"{file} cannot be read ({reason})") from error


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind or pa.types.is_dictionary(column.type):
        return column
    return column.cast(kind)


def numbers(batch: pa.RecordBatch, name: str) -> tuple[Numbers, Flags]:
    """Return a column of whole numbers with 0 for null, and which rows are not null."""
    column = batch.column(name)
    known = np.ones(batch.num_rows, dtype=np.bool_)
    if column.null_count:
        known = column.is_valid().to_numpy(zero_copy_only=False)
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), known


def codes(batch: pa.RecordBatch, name: str) -> tuple[Numbers, pa.Array]:
    """Return a number for each row's text, -1 for null, and the texts by these numbers."""
    encoded = batch.column(name).dictionary_encode()
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(-1)
    return indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def is_one_of(batch: pa.RecordBatch, name: str, wanted: Sequence[str]) -> Flags:
    """Return which rows have a text that is among `wanted`."""
    number, texts = codes(batch, name)
    chosen = np.array([text in wanted for text in texts.to_pylist()] + [False], dtype=np.bool_)
    # The last entry is for null, whose number is -1.
    return chosen[number]


def grouped(keys: Sequence[Numbers]) -> Numbers:
    """Return an order that keeps the rows of a key together, in their own order.

    Args:
        keys: small numbers, not negative; one array for each part of the key.
    """
    (first, *others) = keys
    code = first
    for more in others:
        code = code * (int(more.max(initial=0)) + 1) + more
    if len(code) < 2 or bool((code[1:] >= code[:-1]).all()):
        return np.arange(len(code))
    # A stable sort of 16-bit numbers is a radix sort.
    small = code.astype(np.uint16) if int(code.max()) < 1 << 16 else code
    return np.argsort(small, kind="stable")


def starts_of(keys: Sequence[Numbers]) -> Numbers:
    """Return the rows whose key differs from the row before; there must be rows."""
    new = np.zeros(len(keys[0]), dtype=np.bool_)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)
