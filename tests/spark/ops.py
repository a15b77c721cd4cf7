"""Short histories, written by hand: a list of what happened, in order."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import BooleanType, DataType, IntegerType, LongType, StructType

from harness.core.op import value_of
from tests.spark.evidence import add_evidence
from verifiers.run_folder.schema import HISTORY_SCHEMAS

TOPIC = "orders"
STEP_NS = 1_000_000_000


@dataclass(frozen=True)
class Op:
    """One thing that happened; `rows` are what it leaves in one dataset of the history."""

    dataset: str
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Rec:
    """A record as a reader was given it."""

    producer: int
    sequence: int
    offset: int
    partition: int = 0
    problem: str | None = None
    value: int | None = field(default=None)

    def row(self, process: int, op: int, position: int) -> dict[str, Any]:
        value = value_of(self.producer, self.sequence)
        return {
            "process": process,
            "op": op,
            "position": position,
            "topic": TOPIC,
            "partition": self.partition,
            "offset": self.offset,
            "value": None if self.problem == "format" else value,
            "problem": self.problem,
            "txn": None,
        }


def _send(kind: str, producer: int, sequence: int, offset: int | None, **other: Any) -> Op:
    row = {
        "process": producer,
        "op": sequence,
        "type": kind,
        "topic": TOPIC,
        "partition": 0,
        "offset": offset,
        "value": value_of(producer, sequence),
        "error": None,
        "txn": None,
    }
    return Op("send", ({**row, **other},))


def ok(
    producer: int,
    sequence: int,
    offset: int | None,
    *,
    partition: int | None = 0,
    txn: int | None = None,
) -> Op:
    return _send("ok", producer, sequence, offset, partition=partition, txn=txn)


def info(
    producer: int,
    sequence: int,
    offset: int | None = None,
    *,
    partition: int | None = 0,
    txn: int | None = None,
) -> Op:
    return _send("info", producer, sequence, offset, partition=partition, txn=txn)


def fail(producer: int, sequence: int, *, txn: int | None = None) -> Op:
    return _send("fail", producer, sequence, None, txn=txn)


def txn(kind: str, process: int, number: int, *, committing: bool = True) -> Op:
    row = {"process": process, "txn": number, "type": kind, "committing": committing}
    return Op("txn", ({**row, "error": None},))


def poll(process: int, op: int, *records: Rec, txn: int | None = None) -> Op:
    return Op("poll", tuple({**r.row(process, op, n), "txn": txn} for n, r in enumerate(records)))


def final(*records: Rec) -> Op:
    return Op("final", tuple(r.row(900, 0, n) for n, r in enumerate(records)))


def event(process: int, f: str, **other: Any) -> Op:
    row = {"process": process, "op": None, "f": f, "topic": None, "partition": None}
    return Op("event", ({**row, "offset": None, "detail": None, **other},))


def rows_of(ops: Sequence[Op], step_ns: int = STEP_NS) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each dataset; sends complete half way through their step."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in HISTORY_SCHEMAS}
    for number, op in enumerate(ops):
        now = number * step_ns
        for row in op.rows:
            times = (
                {"invoke_ns": now, "complete_ns": now + step_ns // 2}
                if op.dataset in ("send", "txn")
                else {"time_ns": now}
            )
            rows[op.dataset].append({**times, **row})
    return rows


def filler(count: int, *, producer: int = 50, partition: int = 1) -> list[Op]:
    """Return so many sends in good order, with the final read of them."""
    sends = [ok(producer, n, n, partition=partition) for n in range(count)]
    return [*sends, final(*(Rec(producer, n, n, partition) for n in range(count)))]


def end(*, partition: int = 0, high: int = 100, reached: int | None = None) -> dict[str, Any]:
    """Return how far the final read of one partition got; to its end, if not said otherwise."""
    return {
        "topic": TOPIC,
        "partition": partition,
        "low": 0,
        "high": high,
        "reached": high if reached is None else reached,
        "complete": reached is None,
    }


@dataclass(frozen=True)
class Folder:
    """What is to stand in a run folder; change it with `dataclasses.replace`.

    If it is to be `whole`, it holds all the evidence that a VALID rests on: the final read has all
    that the log has, and clients, leaders and high watermarks are known. An op takes `step_ns`.
    """

    ops: Sequence[Op]
    meta: dict[str, Any] = field(default_factory=dict)
    contract: dict[str, Any] = field(default_factory=dict)
    faults: Sequence[dict[str, Any]] | None = None
    ends: Sequence[dict[str, Any]] | None = None
    whole: bool = False
    step_ns: int = STEP_NS

    def but(self, **changes: Any) -> "Folder":
        return replace(self, **changes)

    def write(self, path: Path, *, disks: bool = True) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        contract = {"acks": "all", "min_isr": 2, "replication_factor": 3, **self.contract}
        meta = {
            "schema": 1,
            "run": path.name,
            "scenario": "by_hand",
            "seed": 7,
            "kafka": "4.3.1",
            "origin_ns": 0,
            "contract": contract,
            "topics": [{"name": TOPIC, "partitions": 2, "replication_factor": 3}],
            "clients": [],
            "phases": [{"name": "start", "from_ns": 0, "to_ns": 5 * STEP_NS}],
            "state": "complete",
            "reasons": [],
            "provokes": [],
            **self.meta,
        }
        (path / "run.json").write_text(json.dumps(meta))
        faults = PROVEN if self.faults is None else self.faults
        (path / "faults.jsonl").write_text("".join(json.dumps(f) + "\n" for f in faults))
        for dataset, rows in rows_of(self.ops, self.step_ns).items():
            folder = path / "history" / dataset
            folder.mkdir(parents=True, exist_ok=True)
            schema = _arrow(HISTORY_SCHEMAS[dataset])
            for process in sorted({row["process"] for row in rows}):
                mine = [row for row in rows if row["process"] == process]
                table = pa.Table.from_pylist(mine, schema=schema)
                pq.write_table(table, folder / f"{process}.parquet")
        ends = self._ends() if self.ends is None else self.ends
        (path / "history").mkdir(exist_ok=True)
        (path / "history" / "ends.json").write_text(json.dumps(list(ends)))
        if disks:
            self._write_disks(path, ends)
        if self.whole:
            add_evidence(path, len(self.ops) * self.step_ns // STEP_NS)
        return path

    def _ends(self) -> list[dict[str, Any]]:
        if not self.whole:
            return [end(partition=p) for p in (0, 1)]
        final = rows_of(self.ops)["final"]
        high = {p: [row["offset"] + 1 for row in final if row["partition"] == p] for p in (0, 1)}
        return [end(partition=p, high=max(high[p], default=0)) for p in (0, 1)]

    def _write_disks(self, path: Path, ends: Sequence[dict[str, Any]]) -> None:
        """Give every broker the same logs, as long as the final read says that they are."""
        from tests.spark.disks import Disk, alike, whole, write_disks

        highs = {0: 0, 1: 0} | {e["partition"]: e["high"] for e in ends}
        disks: dict[tuple[int, int], Disk] = {}
        for partition, high in highs.items():
            disks |= alike(whole(high, partition=partition), partition=partition)
        write_disks(path, disks)


def fault(number: int, event: str, **other: Any) -> dict[str, Any]:
    """Return one line of the journal of faults."""
    return {"id": str(number), "event": event, "time_ns": number * STEP_NS, **other}


def witnessed(
    number: int, *, name: str = "broker_kill", victims: Sequence[int] = (2,)
) -> list[Any]:
    """Return the lines of a fault that was seen to strike and to heal."""
    seen = {"observed": True, "details": {"pid": "changed"}}
    return [
        fault(number, "decided", fault=name, victims=list(victims), target="random"),
        fault(number, "injected", evidence={"phase": "inject", **seen}),
        fault(number, "healed", evidence={"phase": "heal", **seen}),
    ]


PROVEN = witnessed(1)


def _arrow(schema: StructType) -> pa.Schema:
    kinds: dict[DataType, pa.DataType] = {
        IntegerType(): pa.int32(), LongType(): pa.int64(), BooleanType(): pa.bool_(),
    }  # fmt: skip
    return pa.schema(
        [
            pa.field(column.name, kinds.get(column.dataType, pa.string()), column.nullable)
            for column in schema.fields
        ]
    )
