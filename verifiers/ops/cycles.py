"""Dependency cycles in op histories, and histories without dependencies."""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from verifiers.checking.details import columns
from verifiers.cycles.search import REALTIME, CyclicComponent, Step, find_cycles, tangled
from verifiers.cycles.stretches import search_stretches, stretches, within
from verifiers.ops.edges import BLOCK_BITS, placed, read_edges, write_edges
from verifiers.ops.schema import NAMED_ANOMALY_SCHEMA
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, in_columns, struct
from verifiers.spark.plans import union

CYCLES_SCHEMA = NAMED_ANOMALY_SCHEMA
"""What is found in the graphs: one row per component and name.

`op` is the first op of the component, `key` and `value` are null. `detail` says for at least the 8
smallest components of each name in a history, and for others not (`{}`):

- of G0, G1c and those with realtime: `cycle`, the ops of a short cycle, the first repeated last;
  `steps`, an object per edge: `type` (wr, ww, realtime), `from` and `to`; of wr and ww also `key`,
  `value`, `from-mop` and `to-mop`, and of ww the later value, `next-value`;
- of their companions (`…-cycle-exists`): `size`, how many ops of the component have edges of wr or
  ww within it, and `ops`, the first 32 of them.
"""

EMPTY = "empty-transaction-graph"
"""No op depends on another one: there is no anomaly, but nothing is proven."""
_MOST_OPS = 32
_DEPENDING = ("send", "poll", "txn")
_FEW_RUNS = 1_000
"""Not more runs are named in a condition."""
_ENDS = ("run", "from_place", "to_place")


def concurrent(ops: DataFrame) -> DataFrame:
    """Return the runs whose ops (OPS_SCHEMA) were all concurrent: run.

    They have no realtime edge. A run without any op is not among them.
    """
    acting = ops.where(F.col("f").isin(*_DEPENDING))
    completed = F.min(F.when(F.col("type") == "ok", F.col("op")))
    # There is a realtime edge if and only if one leads from the first completion to the last
    # invocation.
    return (
        acting.groupBy("run")
        .agg(completed.alias("completed"), F.max("invoked").alias("invoked"))
        .where(F.coalesce(F.col("completed") >= F.col("invoked"), F.lit(True)))
        .select("run")
    )


def places(by_name: Mapping[str, DataFrame], *, ww_deps: bool) -> DataFrame:
    """Return the stretches of the histories that can contain a cycle (`cycles.stretches`).

    The shared frame `backward` is what ops polled of writers behind them; with `ww_deps` the log's
    order makes edges as well.
    """
    edges = by_name["backward"].select(*_ENDS)
    if ww_deps:
        written = write_edges(placed(by_name["mops"]), by_name["log"])
        edges = edges.unionByName(written.select(*_ENDS))
    return stretches(edges, bits=BLOCK_BITS)


def dependencies(
    by_name: Mapping[str, DataFrame],
    *,
    tangled: Collection[int],
    lonely: Collection[int],
    ww_deps: bool,
) -> DataFrame:
    """Return the cycles of some histories, and the histories without any edge.

    Args:
        by_name: the shared frames, and the frame of `places` if any run is tangled.
        tangled: the runs of that frame.
        lonely: the runs of `concurrent`; they and `tangled` are not both empty. They are short, an
            op or so a process. One whose transaction graph has no edge proves nothing.
        ww_deps: whether the log's order makes edges as well.

    Returns:
        CYCLES_SCHEMA. Names: G0, G1c, G0-realtime, G1c-realtime with their companions
        PL-1-cycle-exists, PL-2-cycle-exists, strong-PL-1-cycle-exists and
        strong-PL-2-cycle-exists; and empty-transaction-graph.

    Source: elle.txn's cycle search as jepsen.tests.kafka calls it.
    """

    def frame_of_runs(runs: Collection[int]) -> DataFrame:
        return frame_of(by_name["mops"].sparkSession, [(run,) for run in runs], struct(run=INT))

    def edges_of(runs: Collection[int], stretches: DataFrame | None = None) -> DataFrame:
        def among(frame: DataFrame) -> DataFrame:
            if len(runs) <= _FEW_RUNS:
                return frame.where(F.col("run").isin(*runs))
            return frame.join(F.broadcast(frame_of_runs(runs)), "run", "left_semi")

        touched = placed(among(by_name["mops"]))
        edges = read_edges(touched, stretches)
        if not ww_deps:
            return edges
        return edges.unionByName(write_edges(touched, among(by_name["log"])))

    parts = []
    if tangled:
        where = by_name["places"]
        suspects = within(edges_of(tangled, where), where, bits=BLOCK_BITS)
        parts.append(search_stretches(suspects, search_edges, CYCLES_SCHEMA))
    if lonely:
        connected = edges_of(lonely).select("run").distinct()
        none = frame_of_runs(lonely).join(connected, "run", "left_anti")
        given = {"anomaly": F.lit(EMPTY), "detail": F.lit("{}")} | columns("run")
        parts.append(in_columns(none, CYCLES_SCHEMA, given))
    return union(parts)


def search_edges(edges: pa.Table) -> pa.Table:
    """Return the cycles among these edges, in the columns of CYCLES_SCHEMA.

    Args:
        edges: the columns of `edges.read_edges`, of any runs, each stretch whole.
    """
    edges = tangled(edges)
    rows = [
        {"anomaly": name, "run": found.run, "op": found.ops[0], "detail": json.dumps(detail)}
        for found in find_cycles(edges)
        for name, detail in _details(found, edges).items()
    ]
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(CYCLES_SCHEMA))


def _details(found: CyclicComponent, edges: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the details of a component by the names of its kind and of its companion."""
    if not found.steps:
        return {found.kind.name: {}, found.kind.companion: {}}
    ops = [step.source for step in found.steps]
    cycle = {"cycle": [*ops, ops[0]], "steps": [_step(step, edges) for step in found.steps]}
    component = {"size": len(found.ops), "ops": list(found.ops[:_MOST_OPS])}
    return {found.kind.name: cycle, found.kind.companion: component}


def _step(step: Step, edges: pa.Table) -> dict[str, Any]:
    ends = {"from": step.source, "to": step.target}
    if step.row == REALTIME:
        return {"type": "realtime", **ends}
    (edge,) = edges.slice(step.row, 1).to_pylist()
    names = ("key", "value", "next_value", "from_mop", "to_mop")
    known = {name.replace("_", "-"): edge[name] for name in names if edge[name] is not None}
    return {"type": edge["kind"], **ends, **known}
