"""A transaction graph in compact arrays, and its strongly connected components."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from verifiers.cycles.arrays import Flags, Longs, longs, numbered


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
        sources, targets = [self.source[edges]], [self.target[edges]]
        total = self.size
        if realtime:
            total += int(self.ok.sum())
            for some_sources, some_targets in self._clock():
                sources.append(some_sources)
                targets.append(some_targets)
        source, target = np.concatenate(sources), np.concatenate(targets)
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
        first = self.size
        for nodes in _slices(self.run):
            completions = self.op[nodes][self.ok[nodes]]
            before = np.searchsorted(completions, self.invoked[nodes], side="left")
            waiting = np.flatnonzero(before)
            yield first + before[waiting] - 1, nodes.start + waiting
            first += len(completions)


def graph_of(edges: pa.Table) -> Graph:
    """Return the graph of some edges; its edges are numbered as the rows are.

    Args:
        edges: run, kind, and for `from` and `to`: op, ok, invoked; no column with nulls.
    """
    rows = edges.num_rows
    run = np.concatenate([longs(edges, "run")] * 2)
    op = np.concatenate([longs(edges, "from_op"), longs(edges, "to_op")])
    number, _, one_each = numbered(op, run)
    invoked = np.concatenate([longs(edges, "from_invoked"), longs(edges, "to_invoked")])
    ok = np.concatenate([_flags(edges, "from_ok"), _flags(edges, "to_ok")])
    return Graph(
        run=run[one_each],
        op=op[one_each],
        invoked=invoked[one_each],
        ok=ok[one_each],
        source=number[:rows],
        target=number[rows:],
        is_write=np.asarray(pc.equal(edges["kind"], "ww").to_numpy(), np.bool_),
    )


def _flags(table: pa.Table, name: str) -> Flags:
    return np.asarray(table[name].to_numpy(), np.bool_)


def _slices(run: Longs) -> Iterator[slice]:
    """Yield where each run's nodes are; they are ordered by run."""
    edges = np.flatnonzero(np.diff(run)) + 1
    bounds = [0, *edges.tolist(), len(run)]
    for begin, end in pairwise(bounds):
        if begin < end:
            yield slice(begin, end)
