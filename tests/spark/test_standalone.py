"""A real Spark cluster, a master and two workers here, gives the verdict of `local[*]`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.judging import DAMAGED, HISTORIES, ROOT, VERIFY_S, damaged, judged
from tests.spark.standalone import standalone

# What a cluster adds to local[*], shipping and settings, changes with verifiers/spark alone.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster whose owner has settings of his own."""
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


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
        env=owned, cwd=ROOT, capture_output=True, text=True, timeout=VERIFY_S, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    seen, *told = ended.stdout.split("\n")[:-1]
    assert "kafka-chaos.zip" in seen
    assert [told[0], told[2]] == ["2", "700m"]
    assert told[1].endswith("-Downer=me")
