"""What `kafka-chaos` says in a process of its own, which has a Spark session of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.bench._runs import Shape, write_run
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


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a program that imports our packages."""
    return {
        **os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, **more,
    }  # fmt: skip


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


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A short run, a long one and an op history, here and at a storage.

    Attributes:
        here: the run folders on this machine.
        names: the runs and the op history at the storage.
        local: what `verify --json` says of them here.
    """

    here: Sequence[Path]
    names: Sequence[str]
    local: Sequence[Mapping[str, Any]]

    def judge_again(self, environment: Mapping[str, str], *options: str) -> None:
        """Remove what `verify` left at the storage, and demand that it finds the same again."""
        *runs, history = self.names
        for run in runs:
            for file in ("anomalies", "replicas", *RESULTS):
                storage.remove(storage.join(run, file))

        found = _unnamed(judged(self.names, environment, *options))

        assert found == self.local
        assert set(DAMAGED) <= set(found[0]["anomalies"])
        assert "crashed" not in found[0]["checkers"].values()
        for folder, run in zip(self.here, runs, strict=True):
            assert anomalies(run) == anomalies(folder)
            files = storage.files_below(run)
            assert files.keys() >= set(RESULTS)
            assert _without_scratch(files)
        assert "replicas/batches/part-0.parquet" in storage.files_below(runs[0])
        assert list(storage.files_below(history.rpartition("/")[0])) == ["G1a.jsonl"]


def stored(path: Path, root: str, owned: Mapping[str, str]) -> Stored:
    """Write two runs and an op history, judge them here, and archive them below a URI.

    `owned` is the environment of somebody who may write there.
    """
    here = [damaged(path / "one"), path / "many"]
    write_run(here[1], Shape(sends=480_000, damaged=30, polled=True))
    history = HISTORIES / "G1a.jsonl"
    local = _unnamed(judged([*here, history], environment()))
    archived = kafka_chaos("archive", *here, f"{root}/runs", environment=owned)
    assert archived.returncode == 0, archived.stderr
    storage.put(history, f"{root}/ops/G1a.jsonl")
    names = [f"{root}/runs/one", f"{root}/runs/many", f"{root}/ops/G1a.jsonl"]
    return Stored(here=here, names=names, local=local)


def _unnamed(told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: said for key, said in one.items() if key != "history"} for one in told]


def _without_scratch(files: Iterable[str]) -> bool:
    return not [file for file in files if file.startswith(".") or "/." in file]
