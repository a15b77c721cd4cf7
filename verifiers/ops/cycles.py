"""Dependency cycles of op histories, and histories without any dependency."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from verifiers.ops.arrow import map_in_arrow
from verifiers.ops.edges import placed, read_edges, stretches, within, write_edges
from verifiers.ops.search import MOST_EXAMPLES, REALTIME, Offence, Step, find_cycles, tangled

CYCLES_SCHEMA = StructType(
    [
        StructField("run", IntegerType(), nullable=False),
        StructField("anomaly", StringType(), nullable=False),
        StructField("op", LongType(), nullable=True),
        StructField("size", IntegerType(), nullable=False),
        StructField("detail", StringType(), nullable=True),
    ]
)
"""What is found in the graphs: one row per component and name.

`op` is the first op of the component, `size` how many it has with edges of wr or ww within it. An
`empty-transaction-graph` has neither. `detail` is a JSON object, given for at least the 8
smallest components of each name, and null for others:

- of G0, G1c and those with realtime: `cycle`, the ops of a short cycle, the first repeated last;
  `steps`, an object per edge: `type` (wr, ww, realtime), `from` and `to`; of wr and ww also `key`,
  `value`, `from_mop` and `to_mop`, and of ww the later value, `next_value`;
- of the companions (`…-cycle-exists`): `ops`, the first 32 of the component.
"""

EMPTY = "empty-transaction-graph"
_MOST_OPS = 32
_TOGETHER = 200_000
"""Edges of small stretches are searched together, so many at a time; a larger one by itself."""
_ARROW = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("anomaly", pa.string(), nullable=False),
        pa.field("op", pa.int64()),
        pa.field("size", pa.int32(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
_DEPENDING = ("send", "poll", "txn")


def places_of_cycles(ops: DataFrame, mops: DataFrame, order: DataFrame | None = None) -> DataFrame:
    """Return where in the histories a cycle can be; nowhere is the proof that there is none.

    It is as much work as all edges are, and returns little: keep it for `cycles`.

    Args:
        ops: one row per completed op, keyed by run.
        mops: one row per value that such an op sent or polled.
        order: the version order (run, key, index, value), if the log's order is to be taken for
            dependencies of writes (`ww-deps`); None if not.

    Returns:
        run, block, stretch: see `edges.stretches`.
    """
    return stretches(_all_edges(placed(ops, mops), order))


def cycles(
    ops: DataFrame, mops: DataFrame, places: DataFrame, order: DataFrame | None = None
) -> DataFrame:
    """Return the components of the transaction graphs that have a cycle.

    Args:
        ops: one row per completed op, keyed by run.
        mops: one row per value that such an op sent or polled.
        places: what `places_of_cycles` returned for the same frames.
        order: as for `places_of_cycles`.

    Returns:
        CYCLES_SCHEMA. Names: G0, G1c, G0-realtime, G1c-realtime with their companions
        PL-1-cycle-exists, PL-2-cycle-exists, strong-PL-1-cycle-exists and
        strong-PL-2-cycle-exists.

    Source: elle.txn's cycle search as jepsen.tests.kafka calls it.
    """
    suspects = within(_all_edges(placed(ops, mops), order, places), places)
    # All edges of one stretch meet in one task, one behind the other.
    together = suspects.repartition("run", "stretch").sortWithinPartitions("run", "stretch")
    return map_in_arrow(together, _search_stretches, CYCLES_SCHEMA)


def _all_edges(
    touched: DataFrame, order: DataFrame | None, places: DataFrame | None = None
) -> DataFrame:
    edges = read_edges(touched, places)
    return edges if order is None else edges.unionByName(write_edges(touched, order))


def empty_graphs(ops: DataFrame, mops: DataFrame, order: DataFrame | None = None) -> DataFrame:
    """Return the runs whose transaction graph has no edge, so that nothing is shown by it.

    Args:
        ops: as for `places_of_cycles`.
        mops: as for `places_of_cycles`.
        order: as for `places_of_cycles`.

    Returns:
        CYCLES_SCHEMA, of the name empty-transaction-graph. A run without any op is not in the
        frames, and so not here either.
    """
    acting = ops.where(F.col("f").isin(*_DEPENDING))
    # A realtime edge is there if and only if the first completion leads to the last invocation.
    concurrent = (
        acting.groupBy("run")
        .agg(
            F.min(F.when(F.col("type") == "ok", F.col("op"))).alias("completed"),
            F.max("invoked").alias("invoked"),
        )
        .where(F.coalesce(F.col("completed") >= F.col("invoked"), F.lit(True)))
        .select("run")
    )
    few = F.broadcast(concurrent)
    # Such runs are short: as many ops as processes. So their edges are made once more.
    order_of_few = None if order is None else order.join(few, "run", "left_semi")
    touched = placed(ops.join(few, "run", "left_semi"), mops.join(few, "run", "left_semi"))
    edges = _all_edges(touched, order_of_few)
    none = concurrent.join(edges.select("run").distinct(), "run", "left_anti")
    return none.select(
        "run",
        F.lit(EMPTY).alias("anomaly"),
        _null("long").alias("op"),
        F.lit(0).alias("size"),
        _null("string").alias("detail"),
    )


def _null(kind: str) -> Column:
    return F.lit(None).cast(kind)


def _search_stretches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what is found in the stretches of a task; runs where the executors are."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows < _TOGETHER:
            continue
        edges = pa.Table.from_batches(pending)
        whole = _whole_stretches(edges)
        yield from search_edges(edges.slice(0, whole)).to_batches()
        rest = edges.slice(whole)
        pending, rows = rest.to_batches(), rest.num_rows
    if pending:
        yield from search_edges(pa.Table.from_batches(pending)).to_batches()


def _whole_stretches(edges: pa.Table) -> int:
    """Return how many rows there are before the last stretch, which may go on."""
    last = edges.slice(edges.num_rows - 1)
    same = pc.and_(
        pc.equal(edges["run"], last["run"][0]), pc.equal(edges["stretch"], last["stretch"][0])
    )
    return int(pc.index(same, value=True).as_py())


def search_edges(edges: pa.Table) -> pa.Table:
    """Return what is found among some edges, in the columns of CYCLES_SCHEMA.

    Args:
        edges: the columns of `edges.read_edges`, of any runs, each stretch whole.
    """
    edges = tangled(edges)
    columns: dict[str, list[Any]] = {name: [] for name in _ARROW.names}
    shown: dict[tuple[int, str], int] = defaultdict(int)
    for offence in find_cycles(edges):
        for name, detail in _told(offence, edges, shown):
            columns["run"].append(offence.run)
            columns["anomaly"].append(name)
            columns["op"].append(offence.ops[0])
            columns["size"].append(len(offence.ops))
            columns["detail"].append(None if detail is None else json.dumps(detail))
    return pa.table(columns, schema=_ARROW)


def _told(
    offence: Offence, edges: pa.Table, shown: dict[tuple[int, str], int]
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    kind = offence.kind
    shown[offence.run, kind.companion] += 1
    yield kind.name, _cycle(offence.steps, edges) if offence.steps else None
    few = shown[offence.run, kind.companion] <= MOST_EXAMPLES
    yield kind.companion, {"ops": list(offence.ops[:_MOST_OPS])} if few else None


def _cycle(steps: tuple[Step, ...], edges: pa.Table) -> dict[str, Any]:
    ops = [step.source for step in steps]
    return {"cycle": [*ops, ops[0]], "steps": [_step(step, edges) for step in steps]}


def _step(step: Step, edges: pa.Table) -> dict[str, Any]:
    ends = {"from": step.source, "to": step.target}
    if step.row == REALTIME:
        return {"type": "realtime", **ends}
    (edge,) = edges.slice(step.row, 1).to_pylist()
    told = ("key", "value", "next_value", "from_mop", "to_mop")
    known = {name: edge[name] for name in told if edge[name] is not None}
    return {"type": edge["kind"], **ends, **known}
