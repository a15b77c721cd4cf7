"""A real Spark cluster, a master and two workers here, gives the verdict of `local[*]`."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from harness.core.wait import wait_until
from tests.spark.everything import write_everything
from verifiers.planting.plant import PLANTS
from verifiers.planting.run_contents import RunContents
from verifiers.planting.run_copy import RunCopy
from verifiers.spark.session import find_java

# What a cluster adds to local[*], shipping and settings, changes with verifiers/spark alone.
pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
HISTORIES = Path(__file__).parent / "histories"
DAMAGED = ("lost-write", "nonmonotonic-send", "replica-gap", "hw-regression", "zombie-commit")
"""Plants that leave each other alone; the gap is read by workers, record by record."""

_START_S = 300
_VERIFY_S = 600


class Node:
    """A master or a worker, in a process of its own that knows nothing of our packages."""

    def __init__(self, home: Path, name: str, *arguments: str) -> None:
        self._log = home / f"{name}.log"
        spark = Path(pyspark.__file__).parent
        environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(find_java().parents[1]),
            "SPARK_HOME": str(spark),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                cwd=home, env=environment, stdout=log, stderr=log,
            )  # fmt: skip

    def await_words(self, words: str) -> re.Match[str]:
        """Wait until it has said what the pattern matches."""

        def said() -> re.Match[str] | None:
            assert self._process.poll() is None, self._log.read_text()
            return re.search(words, self._log.read_text())

        return wait_until(said, timeout_s=_START_S, what=f"{self._log.stem} to say {words!r}")

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster whose owner has settings of his own."""
    home = tmp_path_factory.mktemp("cluster")
    nodes = []
    try:
        at = ("--host", "127.0.0.1", "--webui-port", "0")
        # It takes a port that is free, and says which: one that we found free may be taken by then.
        nodes.append(Node(home, "master.Master", *at, "--port", "0"))
        address = nodes[0].await_words(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)\s")[1]
        nodes[0].await_words("I have been elected leader")
        for number in (1, 2):
            place = home / f"worker-{number}"
            place.mkdir()
            size = ("--cores", "1", "--memory", "700m", "--work-dir", str(place))
            nodes.append(Node(place, "worker.Worker", *at, *size, address))
        for worker in nodes[1:]:
            worker.await_words("Successfully registered with master")
        yield address
    finally:
        for node in reversed(nodes):
            node.end()


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody who has set up Spark for himself."""
    folder = tmp_path_factory.mktemp("conf")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "600m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "2",
        # Compiling plans takes longer than running them on a few hundred rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Downer=me",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    (folder / "spark-defaults.conf").write_text(
        "".join(f"{key} {value}\n" for key, value in settings.items())
    )
    return {
        **os.environ,
        "SPARK_CONF_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }


def damaged(path: Path) -> Path:
    """Write a run with some anomalies."""
    write_everything(path)
    copy = RunCopy(path, RunContents(path))
    for name in DAMAGED:
        PLANTS[name].apply(copy)
    copy.finish()
    return path


def judged(paths: list[Path], environment: dict[str, str], *options: str) -> list[dict[str, Any]]:
    """Return what `kafka-chaos verify --json` says, apart from how long it took."""
    ended = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "verify", *map(str, paths), "--json", *options],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=_VERIFY_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr
    documents: list[dict[str, Any]] = json.loads(ended.stdout)
    for document in documents:
        document.pop("timing_s", None)
    return documents


def test_a_cluster_gives_the_same_verdict(
    tmp_path: Path, master: str, owned: dict[str, str]
) -> None:
    here = damaged(tmp_path / "here" / "run")
    there = tmp_path / "there" / "run"
    shutil.copytree(here, there)
    histories = [HISTORIES / f"{name}.jsonl" for name in ("G1a", "G1c-realtime")]
    alone = {**os.environ, "PYTHONPATH": str(ROOT)}

    local = judged([here, *histories], alone)
    remote = judged([there, *histories], owned, "--master", master)

    assert remote == local
    assert set(DAMAGED) <= set(local[0]["anomalies"])
    assert "crashed" not in local[0]["checkers"].values()
    assert any(document["anomalies"] for document in local[1:])


PROGRAM = """
import sys
from verifiers.spark.session import open_session

spark = open_session(sys.argv[1])
context = spark.sparkContext
module = "verifiers.scanning.presorted"
(seen,) = context.parallelize([0], 1).map(lambda _: __import__(module).__file__).collect()
print(seen)
for key in sys.argv[2:]:
    print(context.getConf().get(key))
"""


def test_workers_are_sent_our_code_and_the_owners_settings_hold(
    master: str, owned: dict[str, str]
) -> None:
    keys = ("spark.sql.shuffle.partitions", "spark.driver.extraJavaOptions", "spark.driver.memory")

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, master, *keys],
        env=owned, cwd=ROOT, capture_output=True, text=True, timeout=_VERIFY_S, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    seen, *told = ended.stdout.split("\n")[:-1]
    assert "kafka-chaos.zip" in seen
    assert [told[0], told[2]] == ["2", "700m"]
    assert told[1].endswith("-Downer=me")
