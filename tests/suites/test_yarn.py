"""Judging on a YARN: a ResourceManager and a NodeManager, and runs on the HDFS beside them."""

import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.judging import RESULTS, stored
from tests.suites.hadoop import SPARK_JARS, Hdfs, hdfs, yarn

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hadoop")) as started, yarn(started):
        yield started


@pytest.fixture(scope="module")
def owned(cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of somebody who has set up Spark for YARN, and sends a Python along."""
    folder = tmp_path_factory.mktemp("conf")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(folder / "packed.tar.gz", "w:gz") as archive:
        archive.add(python, "bin/python")
    settings = {
        "spark.archives": f"file://{folder}/packed.tar.gz#packed",
        # Else every application uploads Spark.
        "spark.yarn.jars": f"local:{SPARK_JARS}/*",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.instances": "2",
        "spark.executor.memory": "600m",
        "spark.executor.memoryOverhead": "400m",
        "spark.yarn.am.memory": "400m",
        "spark.sql.shuffle.partitions": "2",
        # Attempts of one task that go on at the same time are what may meet.
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.interval": "50ms",
        "spark.speculation.minTaskRuntime": "0ms",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (folder / "spark-defaults.conf").write_text(lines)
    # There is such a path only where the archive was unpacked: in the containers of tasks.
    return cluster.environment(SPARK_CONF_DIR=str(folder), PYSPARK_PYTHON="./packed/bin/python")


def test_yarn_gives_the_verdict_that_this_machine_gives(
    cluster: Hdfs, owned: dict[str, str], tmp_path: Path
) -> None:
    runs = stored(tmp_path, cluster.uri, owned)

    runs.judge_again(owned, "--master", "yarn")

    # As Hadoop's own shell lists them.
    for run in runs.names[:2]:
        files = {file.removeprefix(f"{run}/") for file in cluster.list(run)}
        assert files.issuperset(RESULTS)
        assert not [file for file in files if file.startswith(".") or "/." in file]
    assert not [file for file in cluster.list(f"{cluster.uri}/ops") if "/." in file]
