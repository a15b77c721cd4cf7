"""Run folders of any length, made of columns: no loop over records, no cluster."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.op import value_of

PRODUCERS = 4
PARTITIONS = 6
CONSUMERS = 2
POLL_RECORDS = 500
SEND_NS = 20_000
TOPIC = "orders"
STRANGER = 99
"""A producer that the history does not know: what it is said to have written is inconsistent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a run folder holds.

    Attributes:
        sends: so many are acknowledged; rounded down to whole rounds of producers and partitions.
        damaged: so many records, spread at random, that the final read lacks, gives twice, or gives
            with another value: a third each.
        unanswered: one send in so many got no answer, though its record is there; 0 is none.
        polled: whether consumers read everything once, before the final read does.
        seed: of the damage.
    """

    sends: int
    damaged: int = 0
    unanswered: int = 0
    polled: bool = False
    seed: int = 0

    @property
    def each(self) -> int:
        """Sends of one producer to one partition."""
        return self.sends // (PRODUCERS * PARTITIONS)

    @property
    def high(self) -> int:
        """Where the log of each partition ends, but for what is there twice."""
        return self.each * PRODUCERS


def run_child(program: str, *arguments: str) -> dict[str, Any]:
    """Run a Python program in a process of its own; return the JSON of its last line.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"It ended with {done.returncode}: {done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def write_run(path: Path, shape: Shape) -> None:
    """Write the folder of a run, as a seal would leave it."""
    for producer in range(PRODUCERS):
        _save(path, "send", producer, _sent(producer, shape))
    harm = _harm(shape)
    _save_all(path, "final", 200, (_finally(p, shape, harm[p]) for p in range(PARTITIONS)))
    if shape.polled:
        for consumer in range(CONSUMERS):
            _save(path, "poll", 100 + consumer, _polled(consumer, shape))
    _describe(path, shape)


def _sent(producer: int, shape: Shape) -> pa.Table:
    rows = shape.each * PARTITIONS
    op = pa.arange(0, rows)
    complete = pc.multiply(pc.add(pc.multiply(op, PRODUCERS), producer), SEND_NS)
    offset = pc.add(pc.multiply(pc.divide(op, PARTITIONS), PRODUCERS), producer)
    kind = pa.repeat("ok", rows)
    if shape.unanswered:
        answered = pc.greater(_modulo(op, shape.unanswered), 0)
        kind = pc.if_else(answered, "ok", "info")
        offset = pc.if_else(answered, offset, None)
    return pa.table(
        {
            "process": pa.repeat(pa.scalar(producer, pa.int32()), rows),
            "op": op,
            "type": kind,
            "topic": pa.repeat(TOPIC, rows),
            "partition": _modulo(op, PARTITIONS).cast(pa.int32()),
            "offset": offset,
            "value": pc.add(op, value_of(producer, 0)),
            "invoke_ns": pc.subtract(complete, 3_000_000),
            "complete_ns": complete,
            "error": pa.nulls(rows, pa.string()),
            "txn": pa.nulls(rows, pa.int64()),
        }
    )


def _values(offset: pa.Array, partition: int) -> pa.Array:
    """Return what lies at some offsets of a partition."""
    producer = _modulo(offset, PRODUCERS)
    op = pc.add(pc.multiply(pc.divide(offset, PRODUCERS), PARTITIONS), partition)
    return pc.add(pc.shift_left(producer, 40), op)


def _harm(shape: Shape) -> list[list[int]]:
    """Return the offsets to damage, by partition."""
    chance = random.Random(shape.seed)
    harm: list[list[int]] = [[] for _ in range(PARTITIONS)]
    for place in chance.sample(range(shape.high * PARTITIONS), shape.damaged):
        harm[place % PARTITIONS].append(place // PARTITIONS)
    return harm


def _finally(partition: int, shape: Shape, harm: list[int]) -> pa.Table:
    offset = pa.arange(0, shape.high)
    value = _values(offset, partition)
    lost, twice, other = harm[::3], harm[1::3], harm[2::3]
    strange = pc.is_in(offset, pa.array(other, pa.int64()))
    value = pc.if_else(strange, pc.add(offset, value_of(STRANGER, partition << 32)), value)
    kept = pc.invert(pc.is_in(offset, pa.array(lost, pa.int64())))
    again = pa.array(twice, pa.int64())
    offset = pa.concat_arrays([offset.filter(kept), pa.arange(shape.high, shape.high + len(twice))])
    value = pa.concat_arrays([value.filter(kept), _values(again, partition)])
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), len(offset))
    begin = shape.sends * SEND_NS * (partition + 2)
    return _read(200, partitions, offset, value, begin)


def _polled(consumer: int, shape: Shape) -> pa.Table:
    mine = PARTITIONS // CONSUMERS
    number = pa.arange(0, shape.high * mine)
    partition = pc.add(pc.multiply(_modulo(number, mine), CONSUMERS), consumer)
    offset = pc.divide(number, mine)
    producer = _modulo(offset, PRODUCERS)
    op = pc.add(pc.multiply(pc.divide(offset, PRODUCERS), PARTITIONS), partition)
    value = pc.add(pc.shift_left(producer, 40), op)
    return _read(100 + consumer, partition.cast(pa.int32()), offset, value, SEND_NS)


def _read(
    process: int, partition: pa.Array, offset: pa.Array, value: pa.Array, begin_ns: int
) -> pa.Table:
    rows = len(offset)
    number = pa.arange(0, rows)
    poll = pc.divide(number, POLL_RECORDS)
    return pa.table(
        {
            "process": pa.repeat(pa.scalar(process, pa.int32()), rows),
            "op": pc.add(poll, begin_ns),
            "position": _modulo(number, POLL_RECORDS).cast(pa.int32()),
            "topic": pa.repeat(TOPIC, rows),
            "partition": partition,
            "offset": offset,
            "value": value,
            "time_ns": pc.add(pc.multiply(poll, SEND_NS * POLL_RECORDS), begin_ns),
            "problem": pa.nulls(rows, pa.string()),
            "txn": pa.nulls(rows, pa.int64()),
        }
    )


def _modulo(numbers: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def _save(path: Path, dataset: str, process: int, table: pa.Table) -> None:
    _save_all(path, dataset, process, iter([table]))


def _save_all(path: Path, dataset: str, process: int, tables: Iterator[pa.Table]) -> None:
    folder = path / "history" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    first = next(tables)
    with pq.ParquetWriter(
        folder / f"{process}.parquet", first.schema, compression="zstd", compression_level=1
    ) as writer:
        writer.write_table(first, row_group_size=1_000_000)
        for table in tables:
            writer.write_table(table, row_group_size=1_000_000)


def _describe(path: Path, shape: Shape) -> None:
    run = {
        "schema": 1,
        "run": path.name,
        "scenario": "bench",
        "seed": shape.seed,
        "kafka": "4.3.1",
        "origin_ns": 0,
        "ended_ns": shape.sends * SEND_NS,
        "contract": {"acks": "all", "min_isr": 2, "replication_factor": 3},
        "topics": [{"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3}],
        "clients": [],
        "phases": [],
        "state": "complete",
        "reasons": [],
    }
    (path / "run.json").write_text(json.dumps(run))
    end = shape.high + shape.damaged
    ends = [
        {"topic": TOPIC, "partition": p, "low": 0, "high": end, "reached": end, "complete": True}
        for p in range(PARTITIONS)
    ]
    (path / "history" / "ends.json").write_text(json.dumps(ends))
    evidence = {"observed": True, "details": {"pid": "changed"}}
    events = [
        {"id": "1", "event": "decided", "time_ns": 0, "fault": "broker_kill", "victims": [1]},
        {"id": "1", "event": "injected", "time_ns": 1, "evidence": evidence},
        {"id": "1", "event": "healed", "time_ns": 2, "evidence": evidence},
    ]
    (path / "faults.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
