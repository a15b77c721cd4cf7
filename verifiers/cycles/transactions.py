"""Cycles of transactions in run folders: transactions that read each other's records in a circle.

A node is a transaction. An edge of reading leads from the transaction that sent a record to another
one that was given it; an edge of realtime from one that was committed to every transaction begun
after that was known. Edges of writing are not made: Kafka does not isolate what transactions write.

Source: G1c in Adya's thesis; elle.txn's cycle search as jepsen.tests.kafka calls it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from verifiers.cycles.arrays import numbered
from verifiers.cycles.search import REALTIME, CyclicComponent, Step, find_cycles, tangled
from verifiers.cycles.stretches import search_stretches, stretches, within
from verifiers.frames.history import History
from verifiers.spark.columns import INT, LONG, TEXT, declared

_BLOCK_BITS = 26
"""Places are times in ns, so a block is 67 ms: an hour has 54,000 of them."""

TXN_CYCLES_SCHEMA = declared(
    "topic", "partition", "offset", "value", "cycle", "steps",
    anomaly=TEXT, process=INT, txn=LONG, time_ns=LONG, topic=TEXT, partition=INT, offset=LONG,
    value=LONG, transactions=INT, cycle=TEXT, steps=TEXT,
)  # fmt: skip
"""What is found: one row per strongly connected component and name, G1c or G1c-realtime.

`process` and `txn` are the transaction of the component that ended first, and `time_ns` when it
did; `transactions` is how many the component has. Of the smallest components, `cycle` names the
transactions of a short cycle, as process/number, and `steps` what leads from each to the next:
topic/partition@offset of a record that was sent by the one and read by the other, or "realtime";
topic, partition, offset and value are those of the first such record.
"""

_NODE = ("process", "txn", "invoke_ns", "complete_ns")


def backward_edges(txn_reads: DataFrame, history: History) -> DataFrame:
    """Return the reads that lead backward in time: without any there is no cycle (`cycles`)."""
    edges = _read_edges(txn_reads, history)
    return edges.where(F.col("from_place") >= F.col("to_place"))


def cycles(txn_reads: DataFrame, history: History) -> DataFrame:
    """Return the components of the transactions' graph that have a cycle (TXN_CYCLES_SCHEMA).

    Args:
        txn_reads: the records of transactions that transactions were given.
        history: their transactions.
    """
    edges = _read_edges(txn_reads, history)
    near = within(edges, stretches(edges, bits=_BLOCK_BITS), bits=_BLOCK_BITS)
    return search_stretches(near, partial(_found, span=history.span), TXN_CYCLES_SCHEMA)


def _read_edges(txn_reads: DataFrame, history: History) -> DataFrame:
    # A committed transaction becomes visible as the last thing that it does; one of unknown
    # outcome may have been committed long before its client gave up.
    place = F.when(F.col("type") == "ok", F.col("complete_ns")).otherwise(F.col("invoke_ns"))
    nodes = history.txns.select(*_NODE, (F.col("type") == "ok").alias("ok"), place.alias("place"))

    def ending(end: str) -> DataFrame:
        return nodes.select(*(F.col(name).alias(f"{end}_{name}") for name in nodes.columns))

    of_another = (F.col("process") != F.col("sent_by")) | (F.col("txn") != F.col("sent_in"))
    run = F.floor(F.col("process") / history.span).cast("int") if history.span else F.lit(0)
    return (
        txn_reads.where(of_another)
        .withColumns({"run": run, "kind": F.lit("wr")})
        .withColumnsRenamed(
            {
                "topic": "key", "process": "to_process", "txn": "to_txn", "sent_by": "from_process",
                "sent_in": "from_txn",
            }
        )
        .join(ending("from"), ["from_process", "from_txn"])
        .join(ending("to"), ["to_process", "to_txn"])
    )  # fmt: skip


def _found(edges: pa.Table, *, span: int) -> pa.Table:
    """Return the cycles among edges (`_read_edges`), each stretch whole; runs on the executors."""
    edges = tangled(_indexed(edges))
    nodes = {
        op: {name: edges[f"{end}_{name}"][row].as_py() for name in _NODE}
        for end in ("from", "to")
        for row, op in enumerate(edges[f"{end}_op"].to_pylist())
    }
    rows = [_row(component, nodes, edges, span) for component in find_cycles(edges)]
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(TXN_CYCLES_SCHEMA))


def _indexed(edges: pa.Table) -> pa.Table:
    """Return edges with the indices `op` and `invoked` of what they lead from and to.

    All beginnings and ends of transactions are numbered in their order in time; of those at the
    same moment beginnings come first, so that only what ended before another began precedes it.
    """
    rows = edges.num_rows
    node = {
        name: np.concatenate([edges[f"{end}_{name}"].to_numpy() for end in ("from", "to")])
        for name in _NODE
    }
    first, last = np.zeros(2 * rows, np.int64), np.ones(2 * rows, np.int64)
    index, _, _ = numbered(
        np.tile(node["txn"], 2),
        np.tile(node["process"], 2),
        np.concatenate([first, last]),
        np.concatenate([node["invoke_ns"], node["complete_ns"]]),
    )
    columns = {"invoked": index[: 2 * rows], "op": index[2 * rows :]}
    for name, numbers in columns.items():
        for end, half in (("from", slice(0, rows)), ("to", slice(rows, None))):
            edges = edges.append_column(f"{end}_{name}", pa.array(numbers[half]))
    return edges


def _row(
    component: CyclicComponent, nodes: Mapping[int, Mapping[str, int]], edges: pa.Table, span: int
) -> dict[str, Any]:
    def name(op: int) -> str:
        process = nodes[op]["process"]
        return f"{process % span if span else process}/{nodes[op]['txn']}"

    def step(one: Step) -> str:
        if one.row == REALTIME:
            return "realtime"
        (edge,) = edges.slice(one.row, 1).to_pylist()
        topic = edge["key"].partition("/")[2] if span else edge["key"]
        return f"{topic}/{edge['partition']}@{edge['offset']}"

    first = nodes[component.ops[0]]
    row = {
        "anomaly": component.kind.name,
        "process": first["process"],
        "txn": first["txn"],
        "time_ns": first["complete_ns"],
        "transactions": len(component.ops),
    }
    if not component.steps:
        return row
    record = next(one.row for one in component.steps if one.row != REALTIME)
    (edge,) = edges.slice(record, 1).to_pylist()
    around = [one.source for one in (*component.steps, component.steps[0])]
    return row | {
        **{name: edge[name] for name in ("partition", "offset", "value")},
        "topic": edge["key"],
        "cycle": " > ".join(map(name, around)),
        "steps": ", ".join(map(step, component.steps)),
    }
