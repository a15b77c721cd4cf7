"""Arrays of a table's columns, and where they change."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def changes(*columns: Longs | Flags) -> Flags:
    """Return per row whether it differs in any column from the row before; true of the first."""
    found = np.zeros(len(columns[0]), np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def longs(table: pa.Table, name: str) -> Longs:
    """Return a column of integers; -1 stands for null."""
    return np.asarray(pc.fill_null(table[name], -1).to_numpy(), np.int64)


def numbered(*keys: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the number of each row by its keys, of which the last comes first, as `np.lexsort`.

    Returns:
        The numbers, from 0 in the order of the keys; the rows in that order; a row of each number.
    """
    order = np.lexsort(keys)
    new = changes(*(key[order] for key in keys))
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return number, order, order[new]
