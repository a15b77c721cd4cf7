"""The harness dies in the middle of a fault: the brokers heal, the history lives, nothing stays."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from harness.core.wait import wait_until

pytestmark = pytest.mark.docker

CLI = [sys.executable, "-m", "harness.cli.main"]


@pytest.fixture
def killed_run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run whose harness was killed while a broker was cut off."""
    with (tmp_path / "stderr").open("wb") as words:
        harness = subprocess.Popen(
            [*CLI, "run", "--faults", "partition", "--duration", "40s", "--seed", "7",
             "--lease-margin", "5s", "--store", str(tmp_path)],
            stderr=words,
        )  # fmt: skip
    journal = tmp_path / "latest" / "faults.jsonl"

    def is_in_force() -> bool:
        assert harness.poll() is None, (tmp_path / "stderr").read_text()
        return journal.exists() and '"injected"' in journal.read_text()

    try:
        wait_until(is_in_force, timeout_s=300, what="a fault in force")
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait(timeout=30)
    yield (tmp_path / "latest").resolve()
    subprocess.run([*CLI, "clean"], check=False, timeout=300)


def test_leases_heal_the_history_is_judged_and_clean_leaves_nothing(killed_run: Path) -> None:
    engine = docker.from_env()
    run_label = f"kafka-chaos.run={killed_run.name}"
    labelled: dict[str, str | list[str] | bool] = {"label": run_label}
    (agent,) = engine.containers.list(filters={"label": [run_label, "kafka-chaos.agent"]})

    def leases() -> list[object]:
        return list(json.loads(_ask(agent, ["agent.py", "leases"]))["leases"])

    journal = (killed_run / "faults.jsonl").read_text()
    assert '"healed"' not in journal, "the harness died before it healed"
    clients = [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and str(killed_run).encode() in _command_line(path)
    ]
    wait_until(lambda: not leases(), timeout_s=180, what="the leases to end", interval_s=1)
    healed = _ask(agent, ["cat", "/run/kafka-chaos/healed.jsonl"]).splitlines()
    assert "mend" in {json.loads(line)["action"].split()[0] for line in healed}
    for broker in engine.containers.list(filters=labelled):
        if broker.id != agent.id:
            rules = _rules(agent, broker.attrs["State"]["Pid"])
            assert "KC-" not in rules, rules
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in clients),
        timeout_s=180,
        what="the clients to notice that they are alone",
    )

    verified = subprocess.run(
        [*CLI, "verify", str(killed_run), "--json"],
        capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert verified.returncode == 3, verified.stderr
    verdict = json.loads(verified.stdout)
    assert verdict["verdict"] == "UNKNOWN"
    assert verdict["counts"]["acked"] > 1000
    assert "phantom" not in verdict["anomalies"]

    cleaned = subprocess.run([*CLI, "clean"], check=False, timeout=300)
    assert cleaned.returncode == 0
    assert engine.containers.list(all=True, filters=labelled) == []
    assert engine.networks.list(filters=labelled) == []
    assert engine.volumes.list(filters=labelled) == []


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def _rules(agent: Container, pid: int) -> str:
    return _ask(agent, ["nsenter", "-t", str(pid), "-n", "iptables-save"])


def _ask(agent: Container, command: list[str]) -> str:
    done = agent.exec_run(command)
    assert done.exit_code == 0, done.output
    assert isinstance(done.output, bytes)
    return done.output.decode()
