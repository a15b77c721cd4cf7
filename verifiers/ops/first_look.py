"""The first look at the keys of op histories: it clears the keys that certainly have no anomaly.

A few passes over arrays rule out everything that the checkers search for, without the joins that a
checker needs. Most keys are in order. No checker finds anything in a key that is cleared; a key
that is suspected may still be in order. The first look rules out:

- a value that several ops sent, that nobody sent, or that a failed op sent and an OK op polled;
- a value of an OK op that no OK op polled, and one of an INFO op that lies in the log and no OK op
  polled: whatever is lost or unseen is among these;
- an offset with two values, a value at two offsets;
- an op that polled what it sent itself, or what was sent behind its place (edges.py), so that every
  edge leads forward and no cycle passes through the key;
- a step that is out of order (neighbours.py). Between two ops the process may have given up the
  key, which only its assigns tell: such steps are returned one by one.

A file that one worker parses as a whole gets its first look in that worker (`suspects_of`); the
keys of longer files are brought together by Spark (`screened`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.grouping import by_key
from verifiers.cycles.arrays import Longs, changes, longs, numbered
from verifiers.cycles.row_groups import whole_groups
from verifiers.spark.columns import INT, LONG, TEXT, declared, struct

OK: Final = 0
INFO: Final = 1
FAIL: Final = 2
SEND: Final = 0
POLL: Final = 1

_TOGETHER = 500_000
_MOST_ROWS = 4_000_000
"""A key with more rows is suspected at once: a worker would have to hold it in memory."""
_MOST_STEPS = 1_000
"""A key with more steps out of order is suspected whatever the assigns say."""

_op_of = itemgetter("op")
KEY_SCHEMA = declared(run=INT, key=TEXT)
SUSPECT_SCHEMA = StructType(
    [*KEY_SCHEMA.fields, *struct(process=LONG, before_op=LONG, op=LONG).fields]
)
"""What `screened` yields."""


def screened(batches: Iterator[pa.RecordBatch], *, ww_deps: bool) -> Iterator[pa.RecordBatch]:
    """Yield the suspected keys; runs on the executors.

    Args:
        batches: the columns run, key, op, process, offset, value, place of the values that ops sent
            and polled, their position as `position`, the type as `type` (OK, INFO, FAIL) and the
            kind as `kind` (SEND, POLL); the rows of a key one behind the other.
        ww_deps: whether the writers of a key must stand in the order of its log, too.

    Returns:
        Of a key that is suspected for certain, one row of run and key, the rest null. Of others, a
        row for each step from one op of a process to another that is out of order unless the
        process gave up the key in between: process, before_op, op.
    """
    for table in whole_groups(batches, ("run", "key"), rows=_TOGETHER, most=_MOST_ROWS):
        if table.num_rows:
            found = _found(table, ww_deps=ww_deps)
            if found.num_rows:
                yield from found.to_batches()


def suspects_of(ops: pa.Table, mops: pa.Table) -> list[tuple[str, bool]]:
    """Return the suspected keys of one whole history.

    Args:
        ops: all its ops, in the columns of OPS_SCHEMA.
        mops: all values that they sent and polled, in the columns of MOPS_SCHEMA.

    Returns:
        Keys; and whether one is suspected only if the order of the log makes edges.
    """
    if not mops.num_rows:
        return []
    keys, group = _numbered(mops["key"])
    early = pc.or_(
        pc.equal(mops["f"], "send"),
        pc.and_(pc.equal(mops["f"], "txn"), pc.not_equal(mops["type"], "ok")),
    )
    coded = {
        "place": pc.if_else(early, mops["invoked"], mops["op"]),
        "type": pc.index_in(mops["type"], pa.array(["ok", "info", "fail"])),
        "kind": pc.index_in(mops["kind"], pa.array(["send", "poll"])),
    }
    plain = {name: mops[name] for name in ("op", "process", "offset", "value", "position")}
    look = _Look(pa.table({**plain, **coded}), group)
    suspected = look.suspected.copy()
    gives_up = pc.and_(
        pc.is_in(ops["f"], pa.array(["assign", "subscribe"])), pc.not_equal(ops["type"], "fail")
    )
    assigns = ops.filter(gives_up).select(["process", "op", "keys"]).sort_by("op").to_pylist()
    by_process = by_key(assigns, itemgetter("process"))
    names = keys.to_pylist()
    owner, steps = look.steps
    for at, process, before, op in zip(owner.tolist(), *steps.tolist(), strict=True):
        if suspected[at]:
            continue
        past = by_process.get(process, [])
        between = past[bisect_left(past, before, key=_op_of) : bisect_right(past, op, key=_op_of)]
        suspected[at] = all(names[at] in assign["keys"] for assign in between)
    by_themselves = [(names[at], False) for at in np.flatnonzero(suspected)]
    return by_themselves + [(names[at], True) for at in np.flatnonzero(look.against & ~suspected)]


def _numbered(texts: pa.ChunkedArray) -> tuple[pa.Array, Longs]:
    """Return the distinct texts, and per row the number of its text."""
    encoded = texts.combine_chunks().dictionary_encode()
    return encoded.dictionary, np.asarray(encoded.indices.to_numpy(), np.int64)


def _found(table: pa.Table, *, ww_deps: bool) -> pa.Table:
    _, key = _numbered(table["key"])
    begins = changes(longs(table, "run"), key)
    group = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    if table.num_rows >= _MOST_ROWS and len(first) == 1:
        suspected, steps = np.ones(1, np.bool_), np.empty((3, 0), np.int64)
        owner = np.empty(0, np.int64)
    else:
        look = _Look(table, np.asarray(group, np.int64))
        suspected = look.suspected | look.against if ww_deps else look.suspected
        owner, steps = look.steps
        owner, steps = owner[~suspected[owner]], steps[:, ~suspected[owner]]
    certain = np.flatnonzero(suspected)
    nulls = pa.nulls(len(certain), pa.int64())
    at = pa.array(np.concatenate([first[certain], first[owner]]))
    keys = table.select(["run", "key"]).take(at)
    columns = [pa.chunked_array([nulls, pa.array(column)]) for column in steps]
    return pa.table([*keys.columns, *columns], schema=to_arrow_schema(SUSPECT_SCHEMA))


class _Look:
    """The first look at some groups; each part can only add suspects.

    Args:
        rows: the values that ops sent and polled, in the columns that `screened` has.
        group: per row, its group; they are numbered from 0.

    Attributes:
        suspected: per group, whether it is suspected for certain.
        against: per group, whether writers stand in another order than in the log.
        steps: the steps between two ops of a process that may be out of order: per step its group,
            and per step the process, the op before, and the op.
    """

    def __init__(self, rows: pa.Table, group: Longs) -> None:
        self._group, self._op, self._place = group, longs(rows, "op"), longs(rows, "place")
        self._type = longs(rows, "type")
        groups = int(group.max()) + 1
        self.suspected = np.zeros(groups, np.bool_)
        self.against = np.zeros(groups, np.bool_)
        self._is_send = longs(rows, "kind") == SEND
        self._is_poll = ~self._is_send
        # Each value of a group has a number, `known`: ascending by group.
        self._known, self._by_value, first = numbered(longs(rows, "value"), group)
        self._group_of = group[first]
        self._writer = self._writers()
        index = self._indices(longs(rows, "offset"))
        self._look_at_outcomes(index)
        self._look_at_readers()
        self.steps = self._look_at_steps(index, longs(rows, "process"), longs(rows, "position"))

    def _writers(self) -> Longs:
        """Return per value the row of its send; an arbitrary row if it has several or none."""
        sent = self._known[self._is_send]
        sends = np.bincount(sent, minlength=len(self._group_of))
        self.suspected[self._group_of[sends != 1]] = True
        writer = np.zeros(len(self._group_of), np.int64)
        writer[sent] = np.flatnonzero(self._is_send)
        return writer

    def _indices(self, offsets: Longs) -> Longs:
        """Return per value its place in the log, ascending by group and offset; -1 if nowhere."""
        index = np.full(len(self._group_of), -1, np.int64)
        proof = self._is_poll | ((self._type != FAIL) & (offsets >= 0))
        shown = self._by_value[proof[self._by_value]]
        if not len(shown):
            return index
        known, offset = self._known[shown], offsets[shown]
        begins = np.flatnonzero(changes(known))
        lowest = np.minimum.reduceat(offset, begins)
        highest = np.maximum.reduceat(offset, begins)
        there = known[begins]
        self.suspected[self._group_of[there[lowest != highest]]] = True
        order = np.lexsort((lowest, self._group_of[there]))
        there, lowest = there[order], lowest[order]
        group = self._group_of[there]
        alike = group[1:] == group[:-1]
        self.suspected[group[1:][alike & (lowest[1:] == lowest[:-1])]] = True
        op, place = self._op[self._writer[there]], self._place[self._writer[there]]
        backward = (op[1:] != op[:-1]) & (place[1:] <= place[:-1])
        self.against[group[1:][alike & backward]] = True
        index[there] = np.arange(len(there))
        return index

    def _look_at_outcomes(self, index: Longs) -> None:
        polled = self._known[self._is_poll & (self._type == OK)]
        was_read = np.bincount(polled, minlength=len(self._group_of)) > 0
        outcome = self._type[self._writer]
        missing = ~was_read & ((outcome == OK) | ((outcome == INFO) & (index >= 0)))
        self.suspected[self._group_of[missing | (was_read & (outcome == FAIL))]] = True

    def _look_at_readers(self) -> None:
        polls = np.flatnonzero(self._is_poll)
        writer = self._writer[self._known[polls]]
        # An op's own value has the op's own place.
        wrong = self._place[writer] >= self._place[polls]
        self.suspected[self._group[polls[wrong | (self._op[writer] == self._op[polls])]]] = True

    def _look_at_steps(
        self, index: Longs, processes: Longs, positions: Longs
    ) -> tuple[Longs, npt.NDArray[np.int64]]:
        order = np.lexsort((positions, self._op, self._is_poll, processes, self._group))
        group, process, is_send = self._group[order], processes[order], self._is_send[order]
        op, place = self._op[order], index[self._known[order]]
        here = np.arange(len(order))
        begins = changes(group, process, is_send)
        begin = np.maximum.accumulate(np.where(begins, here, 0))
        inner = ~begins
        inner[1:] &= op[1:] == op[:-1]
        moves = (self._type[order] == OK) | (is_send & (self._type[order] == INFO))
        moved = np.maximum.accumulate(np.where(moves, here, -1))
        before = np.full(len(order), -1, np.int64)
        before[1:] = np.where(inner[1:], here[:-1], moved[:-1])
        compared = (before >= begin) & (place >= 0)
        compared &= place[before] >= 0
        delta = place - place[before]
        within = compared & inner & (delta != 1)
        self.suspected[group[within]] = True
        # Other processes may have sent to the key between two sends of a process.
        across = compared & ~inner & np.where(is_send, delta < 1, delta != 1)
        steps = np.flatnonzero(across)
        crowded = np.bincount(group[steps], minlength=len(self.suspected)) > _MOST_STEPS
        self.suspected |= crowded
        return group[steps], np.stack([process[steps], op[before[steps]], op[steps]])
