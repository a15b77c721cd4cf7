"""Runs and histories on an HDFS: a NameNode, two DataNodes, and Spark's own Hadoop client."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.core.wait import wait_until
from tests.bench._runs import Shape, write_run
from tests.spark.judging import (
    HISTORIES,
    RESULTS,
    ROOT,
    anomalies,
    command,
    damaged,
    documents,
    environment,
    judged,
    kafka_chaos,
)
from tests.suites.hadoop import Hdfs, hdfs
from verifiers.spark import storage

pytestmark = pytest.mark.nightly

_MANY = Shape(sends=600_000, damaged=30, polled=True)
"""So many rows that digests are compared first, by tasks that read row groups themselves."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hadoop")) as started:
        yield started


@dataclass(frozen=True)
class Judged:
    """What was judged on this machine alone: a run, op histories, and the verdicts on them."""

    run: Path
    histories: tuple[Path, ...]
    verdicts: list[dict[str, Any]]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    run = damaged(tmp_path_factory.mktemp("runs") / "one")
    histories = tuple(HISTORIES / f"{name}.jsonl" for name in ("G1a", "G1c-realtime"))
    return Judged(run, histories, judged([run, *histories], environment()))


def test_a_spark_whose_default_file_system_is_hdfs_judges_what_lies_here(
    cluster: Hdfs, local: Judged, tmp_path: Path
) -> None:
    here = shutil.copytree(local.run, tmp_path / "one")

    found = judged([here, *local.histories], cluster.environment())

    assert found == local.verdicts
    assert anomalies(here) == anomalies(local.run)


def test_a_run_is_archived_and_judged_there(cluster: Hdfs, local: Judged) -> None:
    store = f"{cluster.uri}/runs"
    ended = kafka_chaos("archive", local.run, store, environment=cluster.environment())
    assert ended.returncode == 0, ended.stderr
    run = f"{store}/one"
    for file in ("anomalies", "replicas", *RESULTS):
        storage.remove(f"{run}/{file}")
    copies = [f"{cluster.uri}/ops/{path.name}" for path in local.histories]
    for path, copy in zip(local.histories, copies, strict=True):
        storage.put(path, copy)

    found = judged([run, *copies], cluster.environment())

    names = [document.pop("history", None) for document in found]
    assert names == [None, *copies]
    for document in local.verdicts:
        document.pop("history", None)
    assert found == local.verdicts
    assert anomalies(run) == anomalies(local.run)
    # Hadoop's own shell is a witness that none of us wrote.
    there = {path.removeprefix(f"{cluster.uri}/") for path in cluster.list(f"{cluster.uri}/runs")}
    left = {path.rpartition("/")[2] for path in there}
    assert left.issuperset(RESULTS)
    assert not [path for path in there if "/." in path or path.endswith(".draft")]
    assert not [path for path in cluster.list(f"{cluster.uri}/ops") if "/." in path]


def test_a_half_copy_is_no_run_and_is_made_anew(cluster: Hdfs, local: Judged) -> None:
    store = f"{cluster.uri}/halves"
    assert (
        kafka_chaos("archive", local.run, store, environment=cluster.environment()).returncode == 0
    )
    storage.remove(f"{store}/one/run.json")

    half = kafka_chaos("verify", f"{store}/one", environment=cluster.environment())
    assert half.returncode == 2
    assert "it has no run.json" in half.stderr

    again = kafka_chaos("archive", local.run, store, environment=cluster.environment())
    assert again.returncode == 0, again.stderr
    twice = kafka_chaos("archive", local.run, store, environment=cluster.environment())
    assert (twice.returncode, "already" in twice.stderr) == (2, True)


def test_a_datanode_that_dies_on_the_way_changes_no_verdict(cluster: Hdfs, tmp_path: Path) -> None:
    run = tmp_path / "many"
    write_run(run, _MANY)
    archived = kafka_chaos("archive", run, f"{cluster.uri}/runs", environment=cluster.environment())
    assert archived.returncode == 0, archived.stderr
    here = kafka_chaos("verify", run, "--json", environment=environment())
    assert here.returncode == 1, here.stderr
    log = tmp_path / "stderr"

    with log.open("w") as told:
        going = subprocess.Popen(
            command("verify", f"{cluster.uri}/runs/many", "--json"),
            env=cluster.environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=told, text=True,
        )  # fmt: skip
        # Tasks read the history now, row group by row group.
        wait_until(
            lambda: "Comparing digests" in log.read_text() or going.poll() is not None,
            timeout_s=300, what="the first pass over the history",
        )  # fmt: skip
        cluster.datanodes[0].kill()
        stdout, _ = going.communicate(timeout=600)

    assert cluster.datanodes[0].wait(30) != 0
    assert going.returncode == 1, log.read_text()
    (there,), (alone,) = documents(stdout), documents(here.stdout)
    assert there == alone
    assert anomalies(f"{cluster.uri}/runs/many") == anomalies(run)


def test_what_cannot_be_read_is_said_in_one_sentence(cluster: Hdfs, tmp_path: Path) -> None:
    nowhere = kafka_chaos("verify", f"{cluster.uri}/nowhere", environment=cluster.environment())
    assert nowhere.returncode == 2
    assert f"There is no run folder {cluster.uri}/nowhere" in nowhere.stderr

    down = kafka_chaos("verify", "hdfs://127.0.0.1:1/runs/one", environment=environment())
    assert down.returncode == 4
    assert "hdfs://127.0.0.1:1 cannot be used" in down.stderr
    assert "Traceback" not in down.stderr

    going = damaged(tmp_path / "going")
    told = (going / "run.json").read_text()
    (going / "run.json").write_text(told.replace('"complete"', '"running"'))
    refused = kafka_chaos("archive", going, cluster.uri, environment=environment())
    assert (refused.returncode, "has not ended" in refused.stderr) == (2, True)
