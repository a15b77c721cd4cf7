"""How far polls lag behind the log: the worst lag of each process and key.

One worker computes it in arrays for a history that it holds as a whole (`worst_lags_of`), Spark for
histories of any size (`realtime_lags`).

Source: `realtime-lag` of jepsen.tests.kafka.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from verifiers.cycles.arrays import Flags, Longs, changes, longs
from verifiers.ops.schema import LAG

Worst = tuple[int, str, int, int, int]
"""A process and key; the largest lag of its polls (ns), when that was invoked (ns), and its op."""

_NEVER = np.iinfo(np.int64).max
_NOWHERE = -2
"""Stands for no position; an assign begins at -1."""


def realtime_lags(ops: DataFrame, mops: DataFrame) -> DataFrame:
    """Return the worst lag of each process, by key.

    The lag of a poll is a lower bound: for so long, when it was invoked, a record had been known to
    lie above the highest one that the process was given of the key, this poll included. A process
    has the keys of its last OK assign, and those that its OK polls and transactions touched since
    its last assign or subscribe; a key that an assign names again keeps its position. Known to lie
    at an offset is a record from the moment that an OK or INFO op which sent or polled it, or one
    above it, completed.

    As long as a position stays the same, its lag only grows: the last OK poll or transaction before
    it changes, or before the next assign or subscribe, is the only one that is measured. Ops
    without times are skipped; the times of a process must not go back.

    Returns:
        run, process, key, worst: a struct of lag (ns), after (minus the time), time (of the
        invocation, ns) and op (index of the completion).
    """
    worst = F.max(_ranked()).alias("worst")
    return stands(ops, mops).groupBy("run", "process", "key").agg(worst)


def watched_lags(parsed: DataFrame) -> DataFrame:
    """Return the worst lags that were found while histories (PARSED_SCHEMA) were parsed."""
    rows = parsed.where(F.col("row") == LAG).select(
        "run", "process", "key", "op", F.col("value").alias("lag"), F.col("invoke_ns").alias("time")
    )
    return rows.select("run", "process", "key", _ranked().alias("worst"))


def _ranked() -> Column:
    after = F.try_subtract(F.lit(0), F.col("time")).alias("after")
    return F.struct("lag", after, "time", "op")


def stands(ops: DataFrame, mops: DataFrame) -> DataFrame:
    """Return the lag of each process at the last poll of each of its positions.

    Returns:
        run, process, key, lag, time, op as above; from_ns (when the op that led to the position
        completed) and since (when a record was first known to lie above it; null if none was). A
        lag that is not 0 grew from the later of the two on, by a second each second.
    """
    # Each shared frame is used only once: Spark would compute it for each use.
    stood = _positions(_touched(ops, mops).join(_in_epochs(ops), ["run", "op"]))
    # A record lies above a position if the offset before its own does not lie below.
    none = F.lit(None)
    known = F.struct(
        (F.col("high") - 1).alias("offset"),
        F.col("complete_ns").alias("known_ns"),
        none.cast("struct<op:bigint,time:bigint,from_ns:bigint>").alias("poll"),
    )
    asked = F.struct(
        F.col("position").alias("offset"), none.cast("long").alias("known_ns"), F.col("poll")
    )
    both = stood.select("run", "process", "key", F.explode(F.array(known, asked)).alias("one"))
    # A record at a higher offset proves that there is one above this position; peers count too.
    at_or_above = Window.partitionBy("run", "key").orderBy(F.desc("offset"))
    time = F.col("poll.time")
    # Times may be any 64-bit integers.
    lag = F.greatest(F.coalesce(F.try_subtract(time, "since"), F.lit(0)), F.lit(0)).cast("long")
    return (
        both.select("run", "process", "key", "one.*")
        .where(F.col("known_ns").isNotNull() | F.col("poll").isNotNull())
        .withColumn("since", F.min("known_ns").over(at_or_above))
        .where(F.col("poll").isNotNull())
        .select("run", "process", "key", "poll.*", "since", lag.alias("lag"))
    )


def _touched(ops: DataFrame, mops: DataFrame) -> DataFrame:
    """Return what each op sent or polled of each key, or was assigned.

    Columns: run, op, key, high (the highest offset; -1 of an assign), assigned (bool).
    """
    offsets = mops.where(F.col("type").isin("ok", "info") & F.col("offset").isNotNull())
    highest = offsets.groupBy("run", "op", "key").agg(F.max("offset").alias("high"))
    assigns = ops.where((F.col("type") == "ok") & (F.col("f") == "assign"))
    keys = assigns.select("run", "op", F.explode(F.array_distinct("keys")).alias("key"))
    return highest.withColumn("assigned", F.lit(False)).unionByName(
        keys.withColumns({"high": F.lit(-1).cast("long"), "assigned": F.lit(True)})
    )


def _in_epochs(ops: DataFrame) -> DataFrame:
    """Return OK and INFO ops with what each process had polled before, and until its next assign.

    Columns: run, op, process, complete_ns; polls (whether it may move a position); epoch (how many
    assigns and subscribes of the process lie behind, this op included); before, last (structs of op
    and time: the last measured poll before the op, and that of its epoch; null if there is none).
    """
    ok, f = F.col("type") == "ok", F.col("f")
    polls = ok & f.isin("poll", "txn")
    poll = F.struct("op", F.col("invoke_ns").alias("time"))
    so_far = Window.partitionBy("run", "process").orderBy("op")
    behind = so_far.rowsBetween(Window.unboundedPreceding, -1)
    return (
        ops.where(F.col("type").isin("ok", "info"))
        .select(
            "run",
            "op",
            "process",
            "complete_ns",
            polls.alias("polls"),
            (ok & f.isin("assign", "subscribe")).cast("int").alias("begins"),
            F.when(polls & F.col("invoke_ns").isNotNull(), poll).alias("poll"),
        )
        .withColumn("epoch", F.sum("begins").over(so_far))
        .withColumn("before", F.last("poll", ignorenulls=True).over(behind))
        .withColumn("last", F.max("poll").over(Window.partitionBy("run", "process", "epoch")))
        .drop("begins", "poll")
    )


def _positions(touched: DataFrame) -> DataFrame:
    """Return the position of each process in each key after its ops, and the last poll there.

    Args:
        touched: what `_touched` returns, with what `_in_epochs` knows of the ops.

    Returns:
        run, process, key, high, complete_ns (null of an assign); position (the highest offset since
        the process has had the key), poll (a struct of op, time and from_ns, the completion of the
        op that led there; null if it was not polled from there, or the process does not have the
        key).
    """
    along = Window.partitionBy("run", "process", "key").orderBy("op")
    before = F.lag("epoch").over(along)
    # An assign has a row here if it names the key: then the process keeps its position.
    still = (before == F.col("epoch")) | (F.col("assigned") & (before + 1 == F.col("epoch")))
    following = F.lead("epoch").over(along) == F.col("epoch")
    tenure = Window.partitionBy("run", "process", "key", "tenure").orderBy("op")
    moves = F.col("assigned") | F.col("polls")
    # Of all ops that led to the position the first counts: 0 minus its time is the largest.
    sooner = F.try_subtract(F.lit(0), F.col("complete_ns")).alias("sooner")
    from_ns = F.try_subtract(F.lit(0), F.col("stand.sooner"))
    from_there = (F.col("poll.op") >= F.col("op")) & F.col("position").isNotNull()
    return (
        touched.withColumn("fresh", (~F.coalesce(still, F.lit(False))).cast("int"))
        .withColumn(
            "poll", F.when(following, F.lead("before").over(along)).otherwise(F.col("last"))
        )
        .withColumn("tenure", F.sum("fresh").over(along))
        .withColumn("stand", F.max(F.when(moves, F.struct("high", sooner))).over(tenure))
        .withColumn("position", F.col("stand.high"))
        .select(
            "run",
            "process",
            "key",
            "high",
            F.when(~F.col("assigned"), F.col("complete_ns")).alias("complete_ns"),
            "position",
            F.when(from_there, F.struct("poll.op", "poll.time", from_ns.alias("from_ns"))).alias(
                "poll"
            ),
        )
    )


def worst_lags_of(ops: pa.Table, mops: pa.Table) -> list[Worst]:
    """Return the worst lag of each process and key of one history, as `realtime_lags` defines it.

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

    row, key, high, assigned, names = _touched_rows(ops, mops)
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


def _touched_rows(ops: pa.Table, mops: pa.Table) -> tuple[Longs, Longs, Longs, Flags, pa.Array]:
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
