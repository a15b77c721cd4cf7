"""How far polls lag behind the log, in the arrays of a history that one worker holds as a whole.

`lags.realtime_lags` has the definition, and computes the same for histories of any size.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from verifiers.cycles.graph import Flags, Longs, changes, longs

Worst = tuple[int, str, int, int, int]
"""A process and key; the largest lag of its polls (ns), when that was invoked (ns), and its op."""

_NEVER = np.iinfo(np.int64).max
_NOWHERE = -2
"""Stands for no position; an assign begins at -1."""


def worst_lags_of(ops: pa.Table, mops: pa.Table) -> list[Worst]:
    """Return the worst lag of each process and key of one history.

    Args:
        ops: all its ops, in the columns of OPS_SCHEMA.
        mops: all values that they sent and polled, in the columns of MOPS_SCHEMA.
    """
    happened = pa.array(["ok", "info"])
    ops = ops.filter(pc.is_in(ops["type"], happened)).sort_by(
        [("process", "ascending"), ("op", "ascending")]
    )
    op, process, invoke_ns = (longs(ops, name) for name in ("op", "process", "invoke_ns"))
    ok = pc.equal(ops["type"], "ok")
    polls = pc.and_(ok, pc.is_in(ops["f"], pa.array(["poll", "txn"]))).to_numpy()
    begins = pc.and_(ok, pc.is_in(ops["f"], pa.array(["assign", "subscribe"]))).to_numpy()
    timed = polls & ops["invoke_ns"].is_valid().to_numpy()
    last_poll = np.maximum.accumulate(np.where(timed, np.arange(len(op)), -1))
    # An epoch of a process ends with its next assign or subscribe.
    epoch = np.cumsum(begins | changes(process))
    epoch_end = np.searchsorted(epoch, epoch, side="right") - 1

    row, key, high, assigned, names = _touched(ops, mops)
    first = changes(key, process[row])
    same_epoch = ~first[1:] & (epoch[row][1:] == epoch[row][:-1])
    following = ~first[1:] & assigned[1:] & (epoch[row][1:] == epoch[row][:-1] + 1)
    tenure = np.cumsum(np.append(True, ~(same_epoch | following))) if len(row) else row
    until = epoch_end[row]
    until[:-1][same_epoch] = row[1:][same_epoch] - 1
    poll = last_poll[until]
    position = _highest_so_far(tenure, high, assigned | polls[row])
    asks = (position > _NOWHERE) & (poll >= row)
    if not asks.any():
        return []

    completed = ops["complete_ns"].is_valid().to_numpy()[row] & ~assigned
    known = key[completed], high[completed], longs(ops, "complete_ns")[row[completed]]
    since = _known_since(known, key[asks], position[asks])
    time = invoke_ns[poll[asks]]
    # Times may be any integers of 64 bits: a difference beyond is none.
    lag = np.maximum(np.where(since < time, time - since, 0), 0)
    process, key, asked_by = process[row[asks]], key[asks], op[poll[asks]]
    # Of equal lags the first counts.
    order = np.lexsort((asked_by, time, -time, lag, process, key))
    worst = order[np.append(changes(key, process)[1:], True)]
    numbers = [column[worst].tolist() for column in (lag, time, asked_by)]
    return list(
        zip(process[worst].tolist(), names.take(key[worst]).to_pylist(), *numbers, strict=True)
    )


def _touched(ops: pa.Table, mops: pa.Table) -> tuple[Longs, Longs, Longs, Flags, pa.Array]:
    """Return what each OK or INFO op sent or polled of each key, or was assigned, key by key.

    Returns:
        Per op and key: the row of the op, the number of the key, the highest offset (-1 of an
        assign), whether it is an assign; and the names of the keys.
    """
    placed = pc.and_(pc.not_equal(mops["type"], "fail"), mops["offset"].is_valid())
    touched = mops.filter(placed).group_by(["op", "key"]).aggregate([("offset", "max")])
    assigns = ops.filter(pc.and_(pc.equal(ops["type"], "ok"), pc.equal(ops["f"], "assign")))
    kept = [
        (of, key)
        for of, keys in zip(*(assigns[name].to_pylist() for name in ("op", "keys")), strict=True)
        for key in dict.fromkeys(keys)
    ]
    names = [*touched["key"].chunks, pa.array([key for _, key in kept], pa.string())]
    keys = pa.chunked_array(names).combine_chunks().dictionary_encode()
    op = longs(ops, "op")
    by_op = np.argsort(op)
    touching = np.append(longs(touched, "op"), np.array([of for of, _ in kept], np.int64))
    row = by_op[np.searchsorted(op, touching, sorter=by_op)]
    key = np.asarray(keys.indices.to_numpy(), np.int64)
    order = np.lexsort((row, key))
    high = np.append(longs(touched, "offset_max"), np.full(len(kept), -1))
    return row[order], key[order], high[order], order >= touched.num_rows, keys.dictionary


def _highest_so_far(group: Longs, number: Longs, counts: Flags) -> Longs:
    """Return per row the highest number of the rows so far of its group that count."""
    distinct, rank = np.unique(number, return_inverse=True)
    ranked = group * (len(distinct) + 1) + np.where(counts, rank + 1, 0)
    highest = np.maximum.accumulate(ranked) - group * (len(distinct) + 1)
    return np.append(_NOWHERE, distinct)[highest]


def _known_since(known: tuple[Longs, Longs, Longs], key: Longs, position: Longs) -> Longs:
    """Return since when a record was known to lie above each position of a key.

    `known` are keys, offsets and times; all keys ascend.
    """
    known_key, offset, time = known
    since = np.full(len(key), _NEVER)
    for of_key in np.unique(key).tolist():
        mine = slice(*np.searchsorted(known_key, [of_key, of_key + 1]))
        asking = slice(*np.searchsorted(key, [of_key, of_key + 1]))
        order = np.argsort(offset[mine])
        # A record at a higher offset proves that there is one above this position.
        soonest = np.minimum.accumulate(time[mine][order][::-1])[::-1]
        above = np.searchsorted(offset[mine], position[asking], side="right", sorter=order)
        since[asking] = np.append(soonest, _NEVER)[above]
    return since
