"""How long `verify` takes for a million sends, as many polls and as many final reads.

Run as a program: `python -m tests.bench.verify [--sends N] [--lose N] [--keep DIR]`. It writes a
run folder (columns made by Arrow, no loop over rows), verifies it in a process of its own and
prints one JSON document: seconds from process start to exit, by step, and the JVM's peak memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PRODUCERS = 4
PARTITIONS = 6
CONSUMERS = 2
POLL_RECORDS = 500
SEND_NS = 20_000
LIMIT_S = 30.0
TOPIC = "orders"
CHILD = """
import json, sys, time
from pathlib import Path
from pyspark import SparkContext
from verifiers.job import verify, write_verdict
report = verify(Path(sys.argv[1]))
write_verdict(Path(sys.argv[1]), report)
process = Path("/proc", str(SparkContext._gateway.proc.pid))
status = (process / "status").read_text()
ticks = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
peak_kib = int(status.split("VmHWM:")[1].split()[0])
print(json.dumps({"verdict": report.verdict.name, "timing_s": dict(report.timing_s),
    "found": {name: finding.count for name, finding in report.anomalies.items()},
    "jvm_cpu_s": sum(map(int, ticks)) / 100, "jvm_peak_mib": peak_kib // 1024,
    "heap_limit_mib": 2048}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one verification cost.

    Attributes:
        sends: records sent, and as many polled and finally read.
        seconds: from process start to its end.
        told: what the process said of itself.
    """

    sends: int
    seconds: float
    told: dict[str, Any]


def write_run(path: Path, *, sends: int, lose: int = 0) -> None:
    """Write the folder of a run in good order.

    Args:
        path: where.
        sends: how many, divided among the producers.
        lose: so many of the last acknowledged records are neither polled nor finally read.
    """
    each = sends // PRODUCERS // PARTITIONS * PARTITIONS
    tables = [_sent(producer, each) for producer in range(PRODUCERS)]
    for producer, table in enumerate(tables):
        _save(path, "send", producer, table)
    log = pa.concat_tables(tables).select(["topic", "partition", "offset", "value", "complete_ns"])
    log = log.sort_by([("complete_ns", "ascending"), ("partition", "ascending")])
    log = log.slice(0, log.num_rows - lose)
    for consumer in range(CONSUMERS):
        mine = log.filter(pc.equal(_modulo(log["partition"], CONSUMERS), consumer))
        _save(path, "poll", 100 + consumer, _read(mine, 100 + consumer))
    final = log.sort_by([("partition", "ascending"), ("offset", "ascending")])
    _save(path, "final", 200, _read(final, 200))
    (path / "history" / "event").mkdir(parents=True)
    _describe(path, each * PRODUCERS)


def measure(path: Path, *, sends: int) -> Measurement:
    """Verify a run folder in a process of its own."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise SystemExit(f"The verifier ended with {done.returncode}: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Measurement(sends=sends, seconds=round(seconds, 2), told=told)


def _sent(producer: int, each: int) -> pa.Table:
    op = pa.arange(0, each)
    place = pc.divide(op, PARTITIONS)
    complete = pc.multiply(pc.add(pc.multiply(op, PRODUCERS), producer), SEND_NS)
    return pa.table(
        {
            "process": pa.repeat(pa.scalar(producer, pa.int32()), each),
            "op": op,
            "type": pa.repeat("ok", each),
            "topic": pa.repeat(TOPIC, each),
            "partition": _modulo(op, PARTITIONS).cast(pa.int32()),
            "offset": pc.add(pc.multiply(place, PRODUCERS), producer),
            "value": pc.add(op, producer << 40),
            "invoke_ns": pc.subtract(complete, 3_000_000),
            "complete_ns": complete,
            "error": pa.nulls(each, pa.string()),
        }
    )


def _read(log: pa.Table, process: int) -> pa.Table:
    rows = log.num_rows
    number = pa.arange(0, rows)
    return pa.table(
        {
            "process": pa.repeat(pa.scalar(process, pa.int32()), rows),
            "op": pc.divide(number, POLL_RECORDS),
            "position": _modulo(number, POLL_RECORDS).cast(pa.int32()),
            "topic": log["topic"],
            "partition": log["partition"],
            "offset": log["offset"],
            "value": log["value"],
            "time_ns": pc.multiply(pc.divide(number, POLL_RECORDS), SEND_NS * POLL_RECORDS),
            "problem": pa.nulls(rows, pa.string()),
        }
    )


def _modulo(numbers: pa.ChunkedArray, divisor: int) -> pa.ChunkedArray:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def _save(path: Path, dataset: str, process: int, table: pa.Table) -> None:
    folder = path / "history" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{process}.parquet", compression="zstd")


def _describe(path: Path, sends: int) -> None:
    run = {
        "schema": 1,
        "run": path.name,
        "scenario": "bench",
        "seed": 0,
        "kafka": "4.3.1",
        "origin_ns": 0,
        "ended_ns": sends * SEND_NS,
        "contract": {"acks": "all", "min_isr": 2, "replication_factor": 3},
        "topics": [{"name": TOPIC, "partitions": PARTITIONS, "replication_factor": 3}],
        "clients": [],
        "phases": [],
        "state": "complete",
        "reasons": [],
    }
    (path / "run.json").write_text(json.dumps(run))
    ends = [
        {"topic": TOPIC, "partition": p, "low": 0, "high": sends, "reached": sends,
         "complete": True}
        for p in range(PARTITIONS)
    ]  # fmt: skip
    (path / "history" / "ends.json").write_text(json.dumps(ends))
    evidence = {"observed": True, "details": {"pid": "changed"}}
    events = [
        {"id": "1", "event": "decided", "time_ns": 0, "fault": "broker_kill", "victims": [1]},
        {"id": "1", "event": "injected", "time_ns": 1, "evidence": evidence},
        {"id": "1", "event": "healed", "time_ns": 2, "evidence": evidence},
    ]
    (path / "faults.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def main(arguments: list[str]) -> int:
    """Measure, print one JSON document, and return 0."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench verify", description=__doc__)
    parser.add_argument("--sends", type=int, default=1_000_000)
    parser.add_argument("--lose", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=None)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        path = given.keep or Path(scratch) / "run"
        if not (path / "run.json").exists():
            write_run(path, sends=given.sends, lose=given.lose)
        measured = measure(path, sends=given.sends)
    sys.stdout.write(
        json.dumps(
            {
                "sends": measured.sends,
                "seconds": measured.seconds,
                "limit_s": LIMIT_S,
                "ratio": round(measured.seconds / LIMIT_S, 3),
                **measured.told,
            },
            indent=2,
        )
        + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
