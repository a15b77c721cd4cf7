"""How long the search for cycles takes in a million sends and polls of an op history.

Run as a program: `python -m tests.bench.op_cycles [--records N] [--transactions] [--plant N]
[--ww-deps]`. It makes the frames of a history (as the reader of op histories gives them) from
simulated processes, searches them in a process of its own, and prints one JSON document: seconds
from the first task to the end, peak memory, and what was found. `--plant N` has N records polled
by an op that completed before they were sent.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

LIMIT_S = 20.0
KEYS = 6
PRODUCERS = 8
CONSUMERS = 4
IN_POLL = 20
CHILD = """
import json, resource, sys, time
from pathlib import Path
from pyspark import SparkContext
from verifiers.ops.cycles import cycles, empty_graphs, places_of_cycles
from verifiers.session import open_session, tuned
folder, ww_deps, records = Path(sys.argv[1]), sys.argv[2] == "1", int(sys.argv[3])
spark = open_session("local[2]")
spark.range(10).collect()
ops, mops, order = (spark.read.parquet(str(folder / n)) for n in ("ops", "mops", "order"))
process = Path("/proc", str(SparkContext._gateway.proc.pid))
def cpu():
    return sum(map(int, (process / "stat").read_text().rsplit(")", 1)[1].split()[11:15])) / 100
begin, used = time.monotonic(), cpu()
with tuned(spark, rows=records):
    order = order if ww_deps else None
    places = places_of_cycles(ops, mops, order).persist()
    blocks = places.count()
    proven = time.monotonic() - begin
    proven_cpu = cpu() - used
    rows = empty_graphs(ops, mops, order).groupBy("anomaly").count().collect()
    if blocks:
        found = cycles(ops, mops, places, order)
        rows += found.groupBy("anomaly").count().collect()
seconds, used = time.monotonic() - begin, cpu() - used
peak = int((process / "status").read_text().split("VmHWM:")[1].split()[0]) // 1024
print(json.dumps({"proven_s": round(proven, 2), "proven_cpu_s": round(proven_cpu, 2),
    "blocks": blocks, "seconds": round(seconds, 2), "jvm_cpu_s": round(used, 2),
    "jvm_peak_mib": peak, "found": {row["anomaly"]: row["count"] for row in rows}}))
"""

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def write_history(folder: Path, *, records: int, transactions: bool, plant: int) -> None:
    """Write the frames of a history in good order, but for what is planted.

    Args:
        folder: where; ops, mops and order become Parquet files in it.
        records: values sent and polled, together.
        transactions: everything is done in transactions of two sends and a poll, whose records
            are seen from their commit on; else in plain sends and polls.
        plant: how many records are polled by an op that completed before they were sent.
    """
    draws = np.random.default_rng(1)
    each = records // 2
    per_op = 2 if transactions else 1
    senders = each // per_op
    begun, ended = _busy(draws, senders, PRODUCERS, mean=1.0)
    # A record is in the log, or its transaction is committed, a while before its sender hears it.
    visible = ended - draws.random(senders) * (0.2 if transactions else 0.9) * (ended - begun)
    by_sender = np.repeat(np.arange(senders), per_op)
    value = np.arange(each)
    key = value % KEYS
    log = np.lexsort((visible[by_sender], key))
    if transactions:
        poller = _polled_in(draws, begun, visible, by_sender)
        events = np.concatenate([begun, ended])
        f = ["txn"] * senders
        process = np.arange(senders) % PRODUCERS
    else:
        polls = each // IN_POLL
        poll_begun, poll_ended = _busy(draws, polls, CONSUMERS, mean=1.0 * senders / polls * 0.5)
        poll_ended = np.maximum.accumulate(np.sort(poll_ended))
        poll_begun = np.minimum(np.sort(poll_begun), poll_ended - 1e-6)
        poller = senders + np.minimum(np.searchsorted(poll_ended, visible[by_sender]), polls - 1)
        # The last poll goes on until there is nothing left.
        poll_ended[-1] = max(poll_ended[-1], float(visible.max()) + 1)
        events = np.concatenate([begun, poll_begun, ended, poll_ended])
        f = ["send"] * senders + ["poll"] * polls
        process = np.concatenate([np.arange(senders) % PRODUCERS, np.arange(polls) + 1000])
    if plant:
        chosen = draws.choice(np.flatnonzero(by_sender > senders // 2), plant, replace=False)
        poller[chosen] = poller[chosen // 4]
    index = np.empty(len(events), np.int64)
    index[np.argsort(events, kind="stable")] = np.arange(len(events))
    count = len(events) // 2
    _write_ops(folder, index[:count], index[count:], process, f)
    _write_mops(folder, index[count:], f, by_sender, poller, key, value)
    table = pa.table(
        {
            "run": pa.array(np.zeros(each), pa.int32()),
            "key": pa.array(key[log].astype(str)),
            "index": np.arange(each),
            "value": value[log],
        }
    )
    pq.write_table(table, folder / "order")


def _busy(
    draws: np.random.Generator, ops: int, processes: int, *, mean: float
) -> tuple[Floats, Floats]:
    """Return when ops begin and end, if each process does one after the other."""
    rows = -(-ops // processes)
    lengths = draws.gamma(2.0, mean / 2, (rows, processes))
    ends = np.cumsum(lengths + 0.01, axis=0)
    return (ends - lengths).ravel()[:ops], ends.ravel()[:ops]


def _polled_in(
    draws: np.random.Generator, begun: Floats, visible: Floats, by_sender: Longs
) -> Longs:
    """Return the transaction that polls each record: one that polls when it is to be seen."""
    polled = begun + draws.random(len(begun)) * (visible - begun)
    order = np.argsort(polled, kind="stable")
    first = np.searchsorted(polled[order], visible[by_sender])
    return np.asarray(np.where(first < len(order), order[np.minimum(first, len(order) - 1)], -1))


def _write_ops(folder: Path, invoked: Longs, op: Longs, process: Longs, f: list[str]) -> None:
    table = pa.table(
        {
            "run": pa.array(np.zeros(len(op)), pa.int32()),
            "op": op,
            "invoked": invoked,
            "process": process,
            "type": pa.repeat("ok", len(op)),
            "f": pa.array(f),
        }
    )
    pq.write_table(table, folder / "ops")


def _write_mops(
    folder: Path, op: Longs, f: list[str], sender: Longs, poller: Longs, key: Longs, value: Longs
) -> None:
    seen = np.flatnonzero(poller >= 0)
    by = np.concatenate([sender, poller[seen]])
    rows = len(by)
    table = pa.table(
        {
            "run": pa.array(np.zeros(rows), pa.int32()),
            "op": op[by],
            "process": np.zeros(rows, np.int64),
            "type": pa.repeat("ok", rows),
            "f": pa.array(f).take(pa.array(by)),
            "mop": pa.array(np.zeros(rows), pa.int32()),
            "position": pa.array(np.zeros(rows), pa.int32()),
            "kind": pa.concat_arrays([pa.repeat("send", len(value)), pa.repeat("poll", len(seen))]),
            "key": pa.array(np.concatenate([key, key[seen]]).astype(str)),
            "offset": pa.nulls(rows, pa.int64()),
            "value": np.concatenate([value, value[seen]]),
        }
    )
    pq.write_table(table, folder / "mops")


def main(arguments: list[str]) -> int:
    """Measure, print one JSON document, and return 0."""
    parser = argparse.ArgumentParser(prog="op_cycles", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--transactions", action="store_true")
    parser.add_argument("--plant", type=int, default=0)
    parser.add_argument("--ww-deps", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        folder = Path(scratch)
        write_history(
            folder, records=given.records, transactions=given.transactions, plant=given.plant
        )
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, scratch, str(int(given.ww_deps)), str(given.records)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        whole = time.monotonic() - begin
    if done.returncode != 0:
        raise SystemExit(f"The search ended with {done.returncode}: {done.stderr[-3000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    document = {**vars(given), "limit_s": LIMIT_S, "with_start_s": round(whole, 2), **told}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
