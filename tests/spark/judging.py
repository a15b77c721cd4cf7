"""What `kafka-chaos` says in a process of its own, which has a Spark session of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark.everything import write_everything
from verifiers.planting.plant import PLANTS
from verifiers.planting.run_contents import RunContents
from verifiers.planting.run_copy import RunCopy
from verifiers.spark import storage

ROOT = Path(__file__).parents[2]
HISTORIES = ROOT / "tests" / "spark" / "histories"
DAMAGED = ("lost-write", "nonmonotonic-send", "replica-gap", "hw-regression", "zombie-commit")
"""Plants that leave each other alone; the gap is read by workers, record by record."""

RESULTS = ("verdict.json", "lanes.json", "report.html", "junit.xml", "summary.md")
VERIFY_S = 600


def damaged(path: Path) -> Path:
    """Write a run with some anomalies."""
    write_everything(path)
    copy = RunCopy(path, RunContents(path))
    for name in DAMAGED:
        PLANTS[name].apply(copy)
    copy.finish()
    return path


def kafka_chaos(
    *arguments: str | Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command and return how it ended."""
    return subprocess.run(
        command(*arguments),
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=VERIFY_S, check=False,
    )  # fmt: skip


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of a command."""
    return [sys.executable, "-m", "harness.cli.main", *map(str, arguments)]


def judged(
    names: Sequence[str | Path], environment: Mapping[str, str], *options: str
) -> list[dict[str, Any]]:
    """Return what `verify --json` says of each; some of them must be INVALID."""
    ended = kafka_chaos("verify", *names, "--json", *options, environment=environment)
    assert ended.returncode == 1, ended.stderr
    return documents(ended.stdout)


def documents(told: str) -> list[dict[str, Any]]:
    """Return the documents of `verify --json`, apart from how long it took."""
    parsed = json.loads(told)
    found: list[dict[str, Any]] = parsed if isinstance(parsed, list) else [parsed]
    for document in found:
        document.pop("timing_s", None)
    return found


def anomalies(run: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a run's `anomalies/`, in an order of their own."""
    folder = storage.join(str(run), "anomalies")
    files = [storage.join(folder, file) for file in storage.files_below(folder)]
    files = [file for file in files if file.endswith(".parquet")]
    rows = pa.concat_tables([storage.read_parquet(file) for file in files]).to_pylist()
    return sorted(rows, key=str)
