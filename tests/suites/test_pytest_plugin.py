"""The pytest plug-in behind a suite of somebody else: one cluster for all workers, being broken."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import docker
import pytest

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

SUITE = """
import time
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "of-theirs-{number}"

def test_records_arrive_for_half_a_minute(kafka_bootstrap):
    admin = AdminClient({{"bootstrap.servers": kafka_bootstrap}})
    made = admin.create_topics([NewTopic(TOPIC, 1, 3)], request_timeout=60)
    made[TOPIC].result(60)
    producer = Producer({{"bootstrap.servers": kafka_bootstrap, "acks": "all"}})
    acked = []
    end = time.monotonic() + 40
    while time.monotonic() < end:
        producer.produce(TOPIC, b"x", on_delivery=lambda e, _: acked.append(1) if not e else None)
        producer.poll(0.1)
    assert producer.flush(120) == 0
    assert len(acked) > 50
    print("BOOTSTRAP", kafka_bootstrap)

def test_that_fails(kafka_bootstrap):
    assert False, "BOOTSTRAP " + kafka_bootstrap
"""

SHARED = """
import pytest
from kafka_chaos import BrokerOfId

@pytest.mark.chaos(brokers=1, scope="module")
@pytest.mark.parametrize("number", [1, 2])
def test_two_share_a_cluster(kafka_cluster, chaos, number):
    with chaos("broker_pause", BrokerOfId(1), hold_s=5):
        pass
    print("BOOTSTRAP", kafka_cluster.bootstrap)
"""


def run_suite(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *words],
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "CI": "1"},
    )  # fmt: skip


def test_all_workers_share_one_cluster_that_is_broken_behind_them(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"test_theirs_{number}.py").write_text(SUITE.format(number=number))

    done = run_suite(
        tmp_path, "-n", "2", "--dist", "loadfile", "--chaos=broker_kill,partition",
        "--chaos-seed=3", "--chaos-store=kept",
    )  # fmt: skip

    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert len(set(re.findall(r"BOOTSTRAP (127\S+)", done.stdout))) == 1
    (folder,) = (tmp_path / "kept").glob("*-up-3")
    assert f"run: {folder.resolve()}" in done.stdout
    assert "--chaos-seed=3 --chaos=broker_kill,partition" in done.stdout
    with (folder / "faults.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    injected = [row for row in rows if row["event"] == "injected"]
    assert injected
    assert {row["observed"] for row in injected} == {"yes"}
    assert left(folder.name) == []


def test_the_tests_of_a_module_share_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(SHARED)

    done = run_suite(tmp_path)

    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert len(set(re.findall(r"BOOTSTRAP (127\S+)", done.stdout))) == 1


def left(run: str) -> list[str]:
    """The containers of a run that are still there."""
    labels: dict[str, str | list[str] | bool] = {"label": f"kafka-chaos.run={run}"}
    return [str(each.name) for each in docker.from_env().containers.list(all=True, filters=labels)]
