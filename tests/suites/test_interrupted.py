"""Ctrl-C in the middle of a fault: healed, verified, nothing left, exit 130."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import docker
import pytest

from harness.core.wait import wait_until

pytestmark = pytest.mark.docker


def test_the_first_ctrl_c_heals_and_judges_what_there_is(tmp_path: Path) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", "run", "--faults", "broker_pause",
         "--duration", "60s", "--seed", "7", "--store", str(tmp_path), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    journal = tmp_path / "latest" / "faults.jsonl"
    wait_until(
        lambda: journal.exists() and '"injected"' in journal.read_text(),
        timeout_s=300,
        what="a fault in force",
    )

    harness.send_signal(signal.SIGINT)
    out, err = harness.communicate(timeout=1200)

    assert harness.returncode == 130, err.decode()
    verdict = json.loads(out)
    assert verdict["verdict"] == "UNKNOWN"
    assert any("interrupted" in reason for reason in verdict["reasons"])
    assert verdict["faults"][0]["proven"], "what was injected was healed, and seen to be"
    run = (tmp_path / "latest").resolve().name
    label: dict[str, str | list[str] | bool] = {"label": f"kafka-chaos.run={run}"}
    assert docker.from_env().containers.list(all=True, filters=label) == []
