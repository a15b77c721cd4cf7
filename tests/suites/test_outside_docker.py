"""Brokers that are not ours: a cluster that somebody else has started, broken by commands."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.docker_cluster import DockerCluster
from harness.core.wait import wait_until
from kafka_chaos import ClusterSpec, launch

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

FLAGS = ("--rate", "200", "--seed", "5", "--json")
FREEZE, THAW = "for id; do kill -STOP $(cat pid-$id) || exit 1; done", "kill -CONT $(cat pid-*)"
LOOK = "for id; do grep '^State:.*stopped' /proc/$(cat pid-$id)/status || exit 1; done"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    with launch(ClusterSpec(brokers=3)) as cluster:
        yield cluster


@pytest.fixture
def commands(cluster: DockerCluster, tmp_path: Path) -> str:
    """Return a fault that freezes brokers, as somebody would write it who knows their pids."""
    for broker in cluster.brokers:
        process = cluster.process_of(broker)
        assert process is not None
        (tmp_path / f"pid-{broker.node_id}").write_text(f"{process.pid}\n", encoding="utf-8")
    return _fault(tmp_path, FREEZE, THAW, LOOK)


def _fault(folder: Path, *lines: str) -> str:
    paths = []
    for name, line in zip(("break", "heal", "look"), lines, strict=True):
        path = folder / f"{name}.sh"
        path.write_text(f"#!/bin/sh\ncd {folder}\n{line}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        paths.append(str(path))
    return f"own_command({', '.join(paths)}, like=broker_pause)"


def _command(cluster: DockerCluster, store: Path, *flags: str) -> list[str]:
    return [
        *(sys.executable, "-m", "harness.cli.main", "run", "--bootstrap", cluster.bootstrap),
        *(*flags, *FLAGS, "--store", str(store)),
    ]


def _run(cluster: DockerCluster, store: Path, *flags: str) -> dict[str, Any]:
    done = subprocess.run(
        _command(cluster, store, *flags),
        capture_output=True, text=True, timeout=900, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert done.stdout, done.stderr[-3000:]
    verdict: dict[str, Any] = json.loads(done.stdout)
    return verdict


def test_faults_by_commands_are_proven_and_felt(
    cluster: DockerCluster, commands: str, tmp_path: Path
) -> None:
    flags = ("--faults", commands, "--targets", "leader_of", "--hold", "4s-8s")

    verdict = _run(cluster, tmp_path / "runs", *flags, "--duration", "30s")

    assert verdict["verdict"] == "UNKNOWN"
    assert any("replicas are not compared" in reason for reason in verdict["reasons"])
    assert verdict["counts"]["acked"] > 1000
    faults = verdict["faults"]
    assert faults
    assert all(fault["proven"] and fault["felt"] == "felt" for fault in faults), faults
    # What was made there is gone again.
    assert not cluster.partition_count("kafka-chaos-orders")


def test_what_is_lost_is_found(cluster: DockerCluster, tmp_path: Path) -> None:
    script, flag = tmp_path / "replace_topic.py", tmp_path / "flag"
    script.write_text(
        "from kafka_chaos import TopicSpec\n"
        "from harness.cluster.admin import Admin\n"
        "from harness.core.access import Access\n"
        "from harness.core.wait import wait_until\n"
        f"admin = Admin(Access({cluster.bootstrap!r}))\n"
        "admin.delete_topics(['kafka-chaos-orders'])\n"
        "wait_until(lambda: not admin.partitions('kafka-chaos-orders'), timeout_s=30, what='end')\n"
        "admin.create_topic(TopicSpec(name='kafka-chaos-orders', partitions=9,\n"
        "    replication_factor=3, config=(('min.insync.replicas', '2'),)))\n",
        encoding="utf-8",
    )
    lines = f"{sys.executable} {script} && touch {flag}", f"rm -f {flag}", f"test -e {flag}"
    fault = _fault(tmp_path, *lines)

    verdict = _run(
        cluster, tmp_path / "runs", "--faults", fault, "--hold", "3s-4s", "--duration", "10s"
    )

    assert verdict["verdict"] == "INVALID"
    assert verdict["anomalies"]["lost-write"]["count"] > 0


def test_a_killed_harness_leaves_no_broker_frozen(
    cluster: DockerCluster, commands: str, tmp_path: Path
) -> None:
    store = tmp_path / "runs"
    flags = ("--faults", commands, "--hold", "60s-61s", "--duration", "90s")
    with subprocess.Popen(
        _command(cluster, store, *flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        wait_until(lambda: bool(_frozen(cluster)), timeout_s=120, what="a broker to be frozen")
        os.kill(child.pid, signal.SIGKILL)

    wait_until(lambda: not _frozen(cluster), timeout_s=30, what="the guard to heal")
    cluster.admin.delete_topics(["kafka-chaos-orders"])


def _frozen(cluster: DockerCluster) -> list[int]:
    states = {broker.node_id: cluster.process_of(broker) for broker in cluster.brokers}
    return [node_id for node_id, process in states.items() if process and process.state == "T"]
