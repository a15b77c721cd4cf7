"""A transaction graph in compact arrays, and its strongly connected components."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Some ops of some runs, and the edges between them.

    Nodes are numbered from 0, ordered by run and op. Realtime edges are not stored: `ok`, `op` and
    `invoked` tell them.

    Attributes:
        run: per node, its run.
        op: per node, the index of its completion.
        invoked: per node, the index of its invocation.
        ok: per node, whether it ended ok, so that realtime edges lead out of it.
        source: per edge, the node that it leads from.
        target: per edge, the node that it leads to.
        is_write: per edge, whether it is of kind ww, else it is of kind wr.
    """

    run: Longs
    op: Longs
    invoked: Longs
    ok: Flags
    source: Longs
    target: Longs
    is_write: Flags

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.op)

    def components(self, edges: Flags, *, realtime: bool) -> Longs:
        """Return per node its strongly connected component by these edges, and, if so, realtime."""
        pairs = [(self.source[edges], self.target[edges])]
        total = self.size
        if realtime:
            total += int(self.ok.sum())
            pairs += self._clock()
        source, target = map(np.concatenate, zip(*pairs, strict=True))
        present = np.ones(len(source), np.bool_)
        matrix = csr_matrix((present, (source, target)), shape=(total, total))
        _, labels = connected_components(matrix, directed=True, connection="strong")
        return np.asarray(labels[: self.size], np.int64)

    def _clock(self) -> Iterator[tuple[Longs, Longs]]:
        """Yield a few edges that have the same transitive closure as the realtime edges.

        Each completion of an ok op is a tick, a node of its own behind ours. An op leads to its
        tick, each tick to the next of the run, and the last tick before an op's invocation to the
        op. So one op reaches another over ticks exactly if it completed before that was invoked.
        """
        completing = np.flatnonzero(self.ok)
        tick = self.size + np.arange(len(completing))
        yield completing, tick
        same_run = self.run[completing[:-1]] == self.run[completing[1:]]
        yield tick[:-1][same_run], tick[1:][same_run]
        # One axis for all runs, on which nodes, and so ticks, stand in their order.
        begins = self.run * (1 + max(self.op.max(), self.invoked.max()))
        completions = (begins + self.op)[completing]
        first = np.searchsorted(completions, begins)
        before = np.searchsorted(completions, begins + self.invoked)
        waiting = np.flatnonzero(before > first)
        yield self.size + before[waiting] - 1, waiting


def graph_of(edges: pa.Table) -> Graph:
    """Return the graph of some edges; its edges are numbered as the rows are.

    Args:
        edges: run, kind, and for `from` and `to`: op, ok, invoked; no column with nulls.
    """
    run = np.tile(np.asarray(edges["run"].to_numpy(), np.int64), 2)
    op = of_ends(edges, "op")
    number = ranks(op, run)
    source, target = np.split(number, 2)
    one_each = np.empty(number.max() + 1, np.int64)
    one_each[number] = np.arange(len(number))
    return Graph(
        run=run[one_each],
        op=op[one_each],
        invoked=of_ends(edges, "invoked")[one_each],
        ok=of_ends(edges, "ok")[one_each] > 0,
        source=source,
        target=target,
        is_write=np.asarray(pc.equal(edges["kind"], "ww").to_numpy(), np.bool_),
    )


def of_ends(edges: pa.Table, name: str) -> Longs:
    """Return a number, or a flag, of what each edge leads from, then of what each leads to."""
    ends = [edges[f"{end}_{name}"].to_numpy() for end in ("from", "to")]
    return np.concatenate(ends).astype(np.int64)


def ranks(*keys: Longs) -> Longs:
    """Return the place of each row in the order of its keys, of which the last decides first.

    Equal rows have the same place, and no place is left out.
    """
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.bool_)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(new)
    return places
