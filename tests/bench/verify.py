"""What a verification costs, beside what DuckDB needs for a part of it on the same files.

Run as a program: `kafka-chaos bench verify [--records N] [--damaged N] [--cases NAME,…]`. It writes
run folders (columns made by Arrow, no loop over records), verifies each in a process of its own,
lets DuckDB find what is lost, duplicate and inconsistent in the same Parquet files, and nothing
else, and prints one JSON document. Cases:

clean       N acknowledged sends and as many final reads, in order.
damaged     the same with so many damaged records spread at random.
unanswered  the same as damaged, and one send in a thousand got no answer, though it was written.
polled      the same as clean, and consumers have read everything once.
tenth       clean with a tenth of the records: `growth` is how many times more the clean case costs.

Ratios are those of one run on one machine. Where other programs run beside it, `cpu_ratio`, of the
processor time of all threads, is the one that means something. Neither counts the start of the JVM,
which `first_task_s` tells (its processor time: `start_cpu_s`); both count what it compiles.
`start_up` is the median of the first as a part of what a session of PySpark's own settings needs.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench._goals import Goal, exit_code
from tests.bench._runs import Shape, run_child, write_run

CASES = ("clean", "damaged", "unanswered", "polled", "tenth")
REACH = {"clean": 1.5, "damaged": 3.0, "growth": 10.0, "start_up": 0.6, "peak_mib": 4096}
"""What is aimed at, as ratios to DuckDB but for the last three."""

PLAIN = """
import json, sys, time
from pyspark.sql import SparkSession
SparkSession.builder.master("local[*]").getOrCreate().range(1).count()
print(json.dumps({"seconds": time.monotonic() - float(sys.argv[1])}))
"""

VERIFY = """
import json, os, sys, time
from pathlib import Path
from verifiers.judging.job import verify, write_verdict
from verifiers.spark.session import open_session
def processes():
    # This one and all below it: the JVM and Spark's workers.
    known = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
            status = (stat.parent / "status").read_text()
        except OSError:
            continue
        peak_kib = int(status.split("VmHWM:")[1].split()[0]) if "VmHWM:" in status else 0
        ticks = sum(map(int, words[11:15]))
        known[int(stat.parent.name)] = (int(words[1]), ticks / 100, peak_kib)
    ours = {os.getpid()}
    while more := {one for one, (parent, *_) in known.items() if parent in ours} - ours:
        ours |= more
    return [known[one] for one in ours]
def spent():
    return sum(cpu_s for _, cpu_s, _ in processes())
started = float(sys.argv[2])
open_session().range(1).count()
first_task_s = time.monotonic() - started
begin, start_cpu_s = time.monotonic(), spent()
report = verify(Path(sys.argv[1]), exact=sys.argv[3] == "exact")
write_verdict(Path(sys.argv[1]), report)
seconds = time.monotonic() - begin
peak_kib = sum(peak_kib for *_, peak_kib in processes())
print(json.dumps({"verdict": report.verdict.name, "timing_s": dict(report.timing_s),
    "found": {name: finding.count for name, finding in report.anomalies.items()},
    "first_task_s": round(first_task_s, 2), "seconds": round(seconds, 2),
    "start_cpu_s": round(start_cpu_s, 2), "cpu_s": round(spent() - start_cpu_s, 2),
    "peak_mib": peak_kib // 1024}))
"""

DUCKDB = """
import json, resource, sys, time
import duckdb
begin = time.monotonic()
path = sys.argv[1] + "/history"
sends = f"(select * from '{path}/send/*.parquet' where type = 'ok')"
final = f"(select * from '{path}/final/*.parquet')"
questions = {
    "lost": f"select count(*) from {sends} s anti join {final} f using (topic, value)",
    "duplicate": f"select count(*) from (select 1 from {final} group by topic, value "
        "having min((partition, \\"offset\\")) < max((partition, \\"offset\\")))",
    "inconsistent": "select count(*) from (select 1 from "
        f"(select topic, partition, \\"offset\\", value from {sends} union all "
        f"select topic, partition, \\"offset\\", value from {final}) "
        "group by topic, partition, \\"offset\\" having min(value) < max(value))",
}
database = duckdb.connect()
database.execute("set enable_progress_bar = false")
found = {name: database.execute(question).fetchone()[0] for name, question in questions.items()}
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"found": found, "seconds": round(time.monotonic() - begin, 2),
    "cpu_s": round(own.ru_utime + own.ru_stime, 2), "peak_mib": own.ru_maxrss // 1024}))
"""


_ASKED = {"lost": "lost-write", "duplicate": "duplicate", "inconsistent": "inconsistent-offsets"}
"""The verifier's anomaly for each of DuckDB's questions."""


def agree(verified: Mapping[str, int], queried: Mapping[str, int]) -> bool:
    """Return whether the verifier counts of each anomaly what DuckDB counts."""
    return all(
        verified.get(anomaly, 0) == queried[question] for question, anomaly in _ASKED.items()
    )


def goals_of(document: Mapping[str, Any]) -> list[Goal]:
    """Return what was measured beside what is aimed at."""
    cases: Mapping[str, Any] = document["cases"]
    goals = [
        Goal(name=f"{name}, ratio to DuckDB", measured=case["ratio"], at_most=REACH[name])
        for name, case in cases.items()
        if name in REACH
    ]
    worst = max(case["verify"]["peak_mib"] for case in cases.values())
    figures = {"peak_mib": worst, "start_up": document["start_up"]}
    if "growth" in document:
        figures["growth"] = document["growth"]
    return goals + [
        Goal(name=name, measured=figure, at_most=REACH[name]) for name, figure in figures.items()
    ]


def measure(path: Path, *, exact: bool) -> dict[str, Any]:
    """Return what the verifier and DuckDB say of one run folder, and what either needed."""
    how = "exact" if exact else "digest"
    verified = run_child(VERIFY, str(path), str(time.monotonic()), how)
    queried = run_child(DUCKDB, str(path))
    return {
        "verify": verified,
        "duckdb": queried,
        "agree": agree(verified["found"], queried["found"]),
        "ratio": round(verified["seconds"] / queried["seconds"], 2),
        "cpu_ratio": round(verified["cpu_s"] / queried["cpu_s"], 2),
    }


def main(arguments: list[str]) -> int:
    """Measure and print one JSON document; return 1 for a missed goal, or if the two disagree."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench verify", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--damaged", type=int, default=1000)
    parser.add_argument("--cases", default="clean,damaged,tenth")
    parser.add_argument("--exact", action="store_true", help="look at every record")
    given = parser.parse_args(arguments)
    cases = given.cases.split(",")
    if strange := set(cases) - set(CASES):
        parser.error(f"no case {', '.join(sorted(strange))}: choose from {', '.join(CASES)}")
    shapes = {
        "clean": Shape(sends=given.records),
        "damaged": Shape(sends=given.records, damaged=given.damaged),
        "unanswered": Shape(sends=given.records, damaged=given.damaged, unanswered=1000),
        "polled": Shape(sends=given.records, polled=True),
        "tenth": Shape(sends=given.records // 10),
    }
    measured: dict[str, Any] = {}
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-bench-") as scratch:
            write_run(Path(scratch, "run"), shapes[case])
            measured[case] = measure(Path(scratch, "run"), exact=given.exact)
    starts = [case["verify"]["first_task_s"] for case in measured.values()]
    plain_s = round(run_child(PLAIN, str(time.monotonic()))["seconds"], 2)
    document = {
        "records": given.records,
        "reach": REACH,
        "cases": measured,
        "plain_first_task_s": plain_s,
        "start_up": round(median(starts) / plain_s, 2),
    }
    if "clean" in measured and "tenth" in measured:
        few, many = (measured[case]["verify"] for case in ("tenth", "clean"))
        document["growth"] = round(many["seconds"] / few["seconds"], 2)
        document["cpu_growth"] = round(many["cpu_s"] / few["cpu_s"], 2)
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    disagreed = [name for name, case in measured.items() if not case["agree"]]
    if disagreed:
        sys.stderr.write(f"The verifier and DuckDB disagree: {', '.join(disagreed)}\n")
    return max(exit_code(goals_of(document)), int(bool(disagreed)))
