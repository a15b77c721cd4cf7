"""`kafka-chaos up` on a real cluster: others use it while it is broken; Ctrl-C leaves nothing."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest
from confluent_kafka import Producer

from harness.core.wait import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.nightly]


def rows(folder: Path) -> list[dict[str, str]]:
    path = folder / "faults.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_cluster_for_others_is_broken_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with (tmp_path / "err").open("wb") as err:
        up = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", "up", "--faults", "broker_kill,partition",
             "--seed", "3", "--brokers", "3", "--topic", "payments", "--print-bootstrap",
             "--store", str(tmp_path / "runs")],
            stdout=subprocess.PIPE, stderr=err, env={**os.environ, "CI": "1"}, text=True,
        )  # fmt: skip
    try:
        assert up.stdout is not None
        bootstrap = up.stdout.readline().strip()
        assert bootstrap.count(":") == 3, (tmp_path / "err").read_text()
        acked: list[object] = []

        def answered(error: object, message: object) -> None:
            if error is None:
                acked.append(message)

        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        folder = (tmp_path / "runs" / "latest").resolve()

        def is_broken_twice_under_load() -> bool:
            assert up.poll() is None, (tmp_path / "err").read_text()
            producer.produce("payments", b"x", on_delivery=answered)
            producer.poll(0.05)
            return len([row for row in rows(folder) if row["event"] == "healed"]) >= 2

        wait_until(is_broken_twice_under_load, timeout_s=300, what="two faults to be healed")
        assert producer.flush(60) == 0
        up.send_signal(signal.SIGINT)
        assert up.wait(180) == 0, (tmp_path / "err").read_text()
    finally:
        up.kill()
        up.communicate(timeout=30)

    assert len(acked) > 100
    told = rows(folder)
    seen = [row["observed"] for row in told if row["event"] in ("injected", "healed")]
    assert "no" not in seen
    injected = {row["id"] for row in told if row["event"] == "injected"}
    assert injected == {row["id"] for row in told if row["event"] == "healed"}
    labels: dict[str, str | list[str] | bool] = {"label": f"kafka-chaos.run={folder.name}"}
    engine = docker.from_env()
    assert not engine.containers.list(all=True, filters=labels)
    assert not engine.networks.list(filters=labels)
