"""The search for cycles in a transaction graph: the kinds of each component, and a short cycle."""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from verifiers.cycles.arrays import Flags, Longs
from verifiers.cycles.graph import Graph, graph_of

MOST_EXAMPLES = 8
"""So many cycles of each kind are shown of a run; all components are counted."""
MOST_VISITS = 200_000
"""A search for the shortest cycle ends after so many steps with the shortest found until then."""

REALTIME = -1
"""Stands for the row of a realtime edge, which has none."""

_ORDER = ("run", "from_op", "to_op", "kind", "key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of cycle; `companion` is the name of the fact that some cycle of this kind exists.

    Edges of ww may always take part; those of wr if `reads`, realtime edges if `realtime`.
    """

    name: str
    companion: str
    reads: bool
    realtime: bool


WRITES = Kind(name="G0", companion="PL-1-cycle-exists", reads=False, realtime=False)
READS = Kind(name="G1c", companion="PL-2-cycle-exists", reads=True, realtime=False)
WRITES_IN_TIME = Kind(
    name="G0-realtime", companion="strong-PL-1-cycle-exists", reads=False, realtime=True
)
READS_IN_TIME = Kind(
    name="G1c-realtime", companion="strong-PL-2-cycle-exists", reads=True, realtime=True
)
_KINDS = (WRITES, READS, WRITES_IN_TIME, READS_IN_TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An edge of a cycle from op to op (indices of completions).

    `row` is where it stands in the table of edges; REALTIME if it is a realtime edge.
    """

    source: int
    target: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclicComponent:
    """One strongly connected component, by one of its kinds.

    Attributes:
        run: the history.
        kind: the weakest kind of cycle that it has; two components' worth if it has two such.
        ops: its ops, ascending, as far as they have edges of wr or ww within it.
        steps: a short cycle of that kind; empty beyond MOST_EXAMPLES.
    """

    run: int
    kind: Kind
    ops: tuple[int, ...]
    steps: tuple[Step, ...]


def tangled(edges: pa.Table) -> pa.Table:
    """Return the edges that lie on a cycle, in a fixed order.

    Args:
        edges: the columns of `verifiers.ops.edges.read_edges`; several runs are kept apart.
    """
    if edges.num_rows == 0:
        return edges
    graph = graph_of(edges)
    labels = graph.components(np.ones(edges.num_rows, np.bool_), realtime=True)
    inside = labels[graph.source] == labels[graph.target]
    return edges.take(pa.array(np.flatnonzero(inside))).sort_by(
        [(column, "ascending") for column in _ORDER]
    )


def find_cycles(edges: pa.Table) -> Iterator[CyclicComponent]:
    """Yield the components of what `tangled` left, the smallest first, by kind.

    As Elle does, a component is called by the weakest kinds of cycle that it has, for what follows
    from them would say nothing new: by G0 alone if it has one; else by G1c, by G0-realtime or by
    both; else by G1c-realtime. In a component with a G0 no other kind is named, in one without it
    every cycle of ww and wr has a wr, every one of ww and realtime edges has a realtime edge, and
    where there are none of these either, every cycle has both. So each name is found by asking
    whether some edges alone close a cycle, which is settled in linear time for any size: there is
    no search that could run out of time, and no `cycle-search-timeout`.

    Args:
        edges: the result of `tangled`.
    """
    if edges.num_rows == 0:
        return
    graph = graph_of(edges)
    by_kind = {kind: _Projection.of(graph, kind) for kind in _KINDS}
    labels = by_kind[READS_IN_TIME].labels
    cyclic = {kind: set(labels[projected.is_cyclic()]) for kind, projected in by_kind.items()}
    shown: Counter[tuple[int, Kind]] = Counter()
    for nodes in _members(labels):
        label = labels[nodes[0]]
        run = int(graph.run[nodes[0]])
        for kind in _weakest({kind for kind in _KINDS if label in cyclic[kind]}):
            shown[run, kind] += 1
            steps: tuple[Step, ...] = ()
            if shown[run, kind] <= MOST_EXAMPLES:
                steps = _shortest(edges, graph, by_kind[kind], nodes, kind)
            yield CyclicComponent(
                run=run, kind=kind, ops=tuple(graph.op[nodes].tolist()), steps=steps
            )


def _weakest(kinds: set[Kind]) -> list[Kind]:
    if WRITES in kinds:
        return [WRITES]
    return [kind for kind in (READS, WRITES_IN_TIME) if kind in kinds] or [READS_IN_TIME]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projection:
    """The edges of a graph that are of one kind, and, per node, its component by these."""

    edges: Flags
    labels: Longs

    @classmethod
    def of(cls, graph: Graph, kind: Kind) -> "_Projection":
        edges = np.ones_like(graph.is_write) if kind.reads else graph.is_write
        if not edges.any():
            # Realtime edges alone close no cycle.
            return cls(edges=edges, labels=np.arange(graph.size))
        return cls(edges=edges, labels=graph.components(edges, realtime=kind.realtime))

    def is_cyclic(self) -> Flags:
        """Return per node whether it lies on a cycle."""
        return np.asarray(np.bincount(self.labels)[self.labels] > 1)


def _members(labels: Longs) -> list[Longs]:
    """Return the nodes of each component, the smallest components first."""
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    # Nodes are in the order of runs and ops, so the first of them decides among equals.
    return sorted(groups, key=lambda nodes: (len(nodes), int(nodes[0])))


def _shortest(
    edges: pa.Table, graph: Graph, projection: _Projection, nodes: Longs, kind: Kind
) -> tuple[Step, ...]:
    """Return a short cycle of a component, within the smallest part that its kind's edges join."""
    inside = np.zeros(graph.size, np.bool_)
    inside[nodes] = True
    labels = projection.labels
    sizes = np.bincount(labels[nodes])
    parts = np.flatnonzero(sizes > 1)
    smallest = int(parts[np.argmin(sizes[parts])])
    inside &= labels == smallest
    rows = np.flatnonzero(projection.edges & inside[graph.source] & inside[graph.target])
    part = graph_of(edges.take(pa.array(rows)))
    steps = _pair(part, realtime=kind.realtime) or _walk(part, realtime=kind.realtime)
    return tuple(
        Step(
            source=int(part.op[source]),
            target=int(part.op[target]),
            row=REALTIME if edge == REALTIME else int(rows[edge]),
        )
        for source, target, edge in steps
    )


_NEVER = np.iinfo(np.int64).max

_Steps = list[tuple[int, int, int]]


def _pair(part: Graph, *, realtime: bool) -> _Steps:
    """Return a cycle of two ops if there is one."""
    if realtime:
        before = part.ok[part.target] & (part.op[part.target] < part.invoked[part.source])
        for edge in np.flatnonzero(before)[:1]:
            source, target = int(part.source[edge]), int(part.target[edge])
            return [(source, target, int(edge)), (target, source, REALTIME)]
    there = part.source * part.size + part.target
    back = part.target * part.size + part.source
    for edge in np.flatnonzero(np.isin(there, back))[:1]:
        source, target = int(part.source[edge]), int(part.target[edge])
        other = int(np.flatnonzero(there == back[edge])[0])
        return [(source, target, int(edge)), (target, source, other)]
    return []


def _walk(part: Graph, *, realtime: bool) -> _Steps:
    """Return the shortest cycle, or the shortest that MOST_VISITS steps found."""
    order = np.argsort(part.source, kind="stable")
    begins = np.searchsorted(part.source[order], np.arange(part.size + 1))
    latest = np.argsort(-part.invoked, kind="stable") if realtime else np.empty(0, np.int64)
    best: _Steps = []
    visits = 0
    for start in range(part.size):
        found, visited = _around(part, order, begins, latest, start)
        visits += visited
        if found and (not best or len(found) < len(best)):
            best = found
        # A cycle of two was looked for before.
        if len(best) == 3 or (best and visits > MOST_VISITS):
            break
    return best


def _around(
    part: Graph, order: Longs, begins: Longs, latest: Longs, start: int
) -> tuple[_Steps, int]:
    """Return a shortest cycle through one node, and how many nodes were visited, breadth first.

    An ok op leads in time to all ops invoked after its completion. In the order of falling
    invocations these are a prefix, of which only what no op before it reached has to be visited:
    so all realtime edges together cost one pass.
    """
    came: dict[int, tuple[int, int]] = {}
    queue = deque([start])
    passed = 0
    while queue and start not in came:
        node = queue.popleft()
        for edge in order[begins[node] : begins[node + 1]].tolist():
            target = int(part.target[edge])
            if target not in came:
                came[target] = (node, edge)
                queue.append(target)
        ends = part.op[node] if part.ok[node] else _NEVER
        while passed < len(latest) and part.invoked[latest[passed]] > ends:
            target = int(latest[passed])
            passed += 1
            if target not in came:
                came[target] = (node, REALTIME)
                queue.append(target)
    if start not in came:
        return [], len(came)
    steps: _Steps = []
    target = start
    while not steps or target != start:
        source, edge = came[target]
        steps.append((source, target, edge))
        target = source
    return steps[::-1], len(came)
