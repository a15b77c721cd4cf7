"""Whole groups of consecutive rows, read from batches."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def whole_groups(
    batches: Iterable[pa.RecordBatch], by: Sequence[str], *, rows: int, most: int | None = None
) -> Iterator[pa.Table]:
    """Yield tables of whole groups; small ones many at a time, a large one by itself.

    Args:
        batches: the rows, in which those of a group follow each other.
        by: the columns that make a group; none of them null.
        rows: a table is yielded as soon as there are so many rows, or a group has ended after that.
        most: a group is cut off when so many rows of it are at hand, at least `rows`; None is
            never. One that was cut is yielded by itself, and has at least so many rows.
    """
    pending: list[pa.RecordBatch] = []
    held, cut = 0, None
    for batch in batches:
        part = batch
        if cut is not None:
            part = batch.slice(_first_other(batch, by, cut))
            if not part.num_rows:
                continue
            cut = None
        pending.append(part)
        held += part.num_rows
        if held < rows:
            continue
        table = pa.Table.from_batches(pending)
        whole = _before_the_last(table, by)
        if whole:
            yield table.slice(0, whole)
            table = table.slice(whole)
        pending, held = table.to_batches(), table.num_rows
        if most is not None and held >= most:
            yield table
            cut = table.slice(held - 1).select(list(by))
            pending, held = [], 0
    if pending:
        yield pa.Table.from_batches(pending)


def _before_the_last(table: pa.Table, by: Sequence[str]) -> int:
    """Return how many rows come before the last group, which may continue."""
    return int(pc.index(_same(table, by, table.slice(table.num_rows - 1)), value=True).as_py())


def _first_other(batch: pa.RecordBatch, by: Sequence[str], row: pa.Table) -> int:
    """Return how many rows of a batch come before the first that is not of this group."""
    other = int(pc.index(_same(batch, by, row), value=False).as_py())
    return batch.num_rows if other < 0 else other


def _same(rows: pa.Table | pa.RecordBatch, by: Sequence[str], row: pa.Table) -> pa.ChunkedArray:
    same = pc.equal(rows[by[0]], row[by[0]][0])
    for name in by[1:]:
        same = pc.and_(same, pc.equal(rows[name], row[name][0]))
    return same
