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
            other = pc.index(_same(batch, by, cut), value=False).as_py()
            if other < 0:
                continue
            part, cut = batch.slice(other), None
        pending.append(part)
        held += part.num_rows
        if held < rows:
            continue
        table = pa.Table.from_batches(pending)
        # The last group may continue.
        whole = pc.index(_same(table, by, table.slice(held - 1)), value=True).as_py()
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


def _same(rows: pa.Table | pa.RecordBatch, by: Sequence[str], row: pa.Table) -> pa.ChunkedArray:
    """Return which rows are of the group that the one `row` is of."""
    same = pc.equal(rows[by[0]], row[by[0]][0])
    for name in by[1:]:
        same = pc.and_(same, pc.equal(rows[name], row[name][0]))
    return same
