"""What many short runs cost in one job, beside one job for each.

Run as a program: `kafka-chaos bench verify-runs [--runs N] [--ops N] [--alone N]`. It writes the
folders of short runs with replicas on three disks, every tenth of which has lost a record, verifies
all of them together in a process of its own, and some of them one by one in another, and prints one
JSON document: seconds from the start of Spark to the last verdict, and the ratio of both by run.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.bench._goals import Goal, exit_code
from tests.bench._runs import run_child
from tests.spark.ops import Folder, Rec, end, final, ok, poll

REACH_S = 90.0
"""For 600 runs of 60 operations."""
_EACH_LOSES = 10

CHILD = """
import json, sys, time
from pathlib import Path
from verifiers.judging.job import verify_all, write_verdict
from verifiers.spark.session import open_session
paths = sorted(Path(sys.argv[1]).iterdir())
shares = [paths] if sys.argv[2] == "together" else [[path] for path in paths[:int(sys.argv[2])]]
open_session().range(1).count()
begin = time.monotonic()
reports = []
for share in shares:
    for path, report in zip(share, verify_all(share), strict=True):
        write_verdict(path, report)
        reports.append(report)
print(json.dumps({
    "runs": len(reports),
    "seconds": round(time.monotonic() - begin, 2),
    "lossy": sum("lost-write" in report.anomalies for report in reports),
    "timing_s": {k: v for k, v in reports[0].timing_s.items() if k.startswith("verify")}}))
"""


def write_runs(path: Path, *, runs: int, ops: int) -> None:
    """Write the folders of so many runs, of so many operations each."""
    sends = max(2, ops * 2 // 3)
    for number in range(runs):
        lost = number % _EACH_LOSES == 0
        kept = range(sends - 1 if lost else sends)
        records = [Rec(1, n, n) for n in range(sends)]
        polls = [poll(9, n, records[n]) for n in range(0, ops - sends)]
        Folder(
            [*(ok(1, n, n) for n in range(sends)), *polls, final(*(records[n] for n in kept))],
            ends=[end(partition=0, high=sends), end(partition=1, high=0)],
            meta={"fewest_acked": 1},
        ).write(path / f"run-{number:04}")


def main(arguments: list[str]) -> int:
    """Measure and print one JSON document; return 1 if it took too long or missed a loss."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench verify-runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--ops", type=int, default=60)
    parser.add_argument("--alone", type=int, default=10, help="so many of them one by one as well")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
        begin = time.monotonic()
        write_runs(Path(scratch), runs=given.runs, ops=given.ops)
        written_s = round(time.monotonic() - begin, 1)
        together = run_child(CHILD, scratch, "together")
        alone = run_child(CHILD, scratch, str(given.alone))
    each = [one["seconds"] / one["runs"] for one in (together, alone)]
    document = {
        "ops": given.ops,
        "reach_s": REACH_S,
        "written_s": written_s,
        "together": together,
        "alone": alone,
        "ratio": round(each[0] / each[1], 4),
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    losses = -(-given.runs // _EACH_LOSES)
    return exit_code(
        [
            Goal(name="together, s", measured=together["seconds"], at_most=REACH_S),
            Goal(
                name="runs with a loss", measured=together["lossy"], at_least=losses, at_most=losses
            ),
        ]
    )
