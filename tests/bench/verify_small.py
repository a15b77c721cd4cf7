"""How long the verdict on a short run takes: cold, and in a session that has judged before.

Run as a program: `kafka-chaos bench verify-small [--records N,…] [--repeats N] [--run FOLDER …]`.
It writes run folders with replicas on three disks and all the evidence that a VALID rests on, of
so many acknowledged sends, which a consumer and the final read were given; `--run` measures
recorded runs besides. `cold_s` is the time of `kafka-chaos verify` from its start to its end, the
report included; `warm_s` the median of some verifications in a process that has verified another
run before, `warm_cpu_s` the processor time of that one with its JVM and workers.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench._goals import Goal, exit_code
from tests.bench._runs import run_child
from tests.spark.ops import Folder, Rec, final, ok, poll

COLD_S = {100_000: 10.0}
WARM_S = {200: 2.5, 10_000: 2.5, 100_000: 4.0}
"""What is aimed at, by the number of records."""
_POLLED_AT_ONCE = 500
_STEP_NS = 20_000_000

WARM = """
import json, os, statistics, sys, time
from pathlib import Path
from verifiers.judging.job import verify, write_verdict
def spent():
    ours, known = {os.getpid()}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        known[int(stat.parent.name)] = (int(words[1]), sum(map(int, words[11:15])) / 100)
    while more := {one for one, (parent, _) in known.items() if parent in ours} - ours:
        ours |= more
    return sum(known[one][1] for one in ours)
first, *others = map(Path, sys.argv[1:])
verify(first)
seconds, cpu, phases = [], [], []
for path in others:
    begin, begin_cpu = time.monotonic(), spent()
    report = verify(path)
    write_verdict(path, report)
    seconds.append(time.monotonic() - begin)
    cpu.append(spent() - begin_cpu)
    phases.append({k: v for k, v in report.timing_s.items() if k.startswith("verify")})
print(json.dumps({"verdict": report.verdict.name, "each_s": [round(s, 2) for s in seconds],
    "warm_s": round(statistics.median(seconds), 2),
    "warm_cpu_s": round(statistics.median(cpu), 2), "last_timing_s": phases[-1]}))
"""


def write_run(path: Path, *, records: int) -> Path:
    """Write the folder of a run in which so many records were sent, polled and finally read."""
    lying = [Rec(1, number, number) for number in range(records)]
    polls = [
        poll(9, number, *lying[begin : begin + _POLLED_AT_ONCE])
        for number, begin in enumerate(range(0, records, _POLLED_AT_ONCE))
    ]
    sends = [ok(1, number, number) for number in range(records)]
    ops = [*sends, *polls, final(*lying)]
    return Folder(ops, whole=True, step_ns=_STEP_NS).write(path)


def measure(run: Path, scratch: Path, *, repeats: int) -> dict[str, Any]:
    """Return what the first and the later verifications of copies of a run needed."""
    copies = [
        Path(shutil.copytree(run, scratch / f"{run.name}-{number}", symlinks=True))
        for number in range(repeats + 2)
    ]
    command = [sys.executable, "-m", "kafka_chaos", "verify", str(copies[0]), "--json"]
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cold_s = time.monotonic() - begin
    warm = run_child(WARM, *map(str, copies[1:]))
    for copy in copies:
        shutil.rmtree(copy)
    return {"cold_s": round(cold_s, 2), "exit": done.returncode, **warm}


def main(arguments: list[str]) -> int:
    """Measure and print one JSON document; return 1 for a missed goal."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench verify-small", description=__doc__)
    parser.add_argument("--records", default="200,10000,100000", help="sizes, comma between")
    parser.add_argument("--repeats", type=int, default=3, help="warm verifications of each size")
    parser.add_argument("--run", type=Path, action="append", default=[], help="a recorded run")
    given = parser.parse_args(arguments)
    sizes = [int(size) for size in given.records.split(",") if size]
    made: dict[str, Any] = {}
    goals = []
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as folder:
        scratch = Path(folder)
        for size in sizes:
            run = write_run(scratch / f"records-{size}", records=size)
            figures = measure(run, scratch, repeats=given.repeats)
            made[str(size)] = figures
            for name, bounds in (("cold_s", COLD_S), ("warm_s", WARM_S)):
                if size in bounds:
                    goals.append(
                        Goal(
                            name=f"{name} of {size} records",
                            measured=figures[name],
                            at_most=bounds[size],
                        )
                    )
        recorded = {run.name: measure(run, scratch, repeats=given.repeats) for run in given.run}
    sys.stdout.write(json.dumps({"made": made, "recorded": recorded}, indent=2) + "\n")
    return exit_code(goals)
