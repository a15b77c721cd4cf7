"""How long `verify` takes for many small op histories, or for one large one.

Run as a program: `kafka-chaos bench verify-ops [--histories N] [--ops N] [--keep DIR]`. It
writes histories in good order, of clients that send and poll in transactions, verifies them all in
a process of its own, and prints one JSON document: seconds from process start to exit, by step, the
values sent and polled, and the JVM's CPU time and peak memory. `--histories 1 --ops 90000` are
about a million sends and polls.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.bench._goals import Goal, exit_code

KEYS = 6
PROCESSES = 8
MOST_MOPS = 4
MOST_POLLED = 8
LIMIT_S = {True: 90.0, False: 20.0}
"""For many histories; for one, from the moment that Spark has started."""

CHILD = """
import json, sys
from pathlib import Path
from pyspark import SparkContext
from verifiers.ops.job import verify_histories
verdicts = verify_histories(sorted(Path(sys.argv[1]).glob("*.jsonl")))
process = Path("/proc", str(SparkContext._gateway.proc.pid))
status = (process / "status").read_text()
ticks = (process / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
counts = [one.to_json()["counts"] for one in verdicts]
print(json.dumps({
    "verdicts": {v: sum(one.verdict.name == v for one in verdicts)
                 for v in ("VALID", "UNKNOWN", "INVALID")},
    "values": sum(one["sends"] + one["read"] for one in counts),
    "timing_s": dict(verdicts[0].timing_s),
    "jvm_cpu_s": sum(map(int, ticks)) / 100,
    "jvm_peak_mib": int(status.split("VmHWM:")[1].split()[0]) // 1024}))
"""


def write_history(path: Path, *, ops: int, seed: int) -> None:
    """Write a history in good order: what was sent is polled, by all processes, to the end."""
    draw = random.Random(seed)
    logs: dict[int, list[list[int]]] = defaultdict(list)
    position: dict[tuple[int, int], int] = defaultdict(int)
    with path.open("w", encoding="utf-8") as file:
        for number in range(ops + PROCESSES):
            process = number % PROCESSES
            last = number >= ops
            invoked: list[list[object]] = []
            completed: list[list[object]] = []
            for _ in range(1 if last else draw.randint(1, MOST_MOPS)):
                if not last and draw.random() < 0.5:
                    key = draw.randrange(KEYS)
                    # Markers of transactions leave gaps.
                    place = [2 * len(logs[key]), len(logs[key])]
                    logs[key].append(place)
                    invoked.append(["send", key, place[1]])
                    completed.append(["send", key, place])
                    continue
                keys = range(KEYS) if last else (draw.randrange(KEYS),)
                polled = {}
                for key in keys:
                    begin = position[process, key]
                    # What an op has sent itself, it does not see.
                    sent = sum(mop[0] == "send" and mop[1] == key for mop in invoked)
                    end = len(logs[key]) - sent
                    got = logs[key][begin : end if last else min(end, begin + MOST_POLLED)]
                    position[process, key] = begin + len(got)
                    polled[str(key)] = got
                invoked.append(["poll"])
                completed.append(["poll", polled])
            for step, (kind, value) in enumerate((("invoke", invoked), ("ok", completed))):
                index = 2 * number + step
                event = {"index": index, "time": index * 1000, "process": process, "type": kind}
                file.write(json.dumps({**event, "f": "txn", "value": value}) + "\n")


def main(arguments: list[str]) -> int:
    """Measure and print one JSON document; return 1 if it took longer than the limit."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench verify-ops", description=__doc__)
    parser.add_argument("--histories", type=int, default=600)
    parser.add_argument("--ops", type=int, default=60)
    parser.add_argument("--keep", type=Path, default=None)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(given.histories):
            path = folder / f"{number:05}.jsonl"
            if not path.exists():
                write_history(path, ops=given.ops, seed=number)
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        begin = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(folder)], capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - begin
    if done.returncode != 0:
        raise SystemExit(f"The verifier ended with {done.returncode}: {done.stderr[-2000:]}")
    told = json.loads(done.stdout.splitlines()[-1])
    many = given.histories > 1
    timed = seconds if many else seconds - told["timing_s"]["verify: start Spark"]
    limit_s = LIMIT_S[many]
    document = {
        "histories": given.histories,
        "ops": given.ops,
        "size_mib": round(size / 1024**2, 1),
        "seconds": round(seconds, 2),
        "limit_s": limit_s,
        "ratio": round(timed / limit_s, 3),
        **told,
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return exit_code([Goal(name="seconds", measured=timed, at_most=limit_s)])
