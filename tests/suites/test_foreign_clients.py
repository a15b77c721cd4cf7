"""Clients under test that are none of librdkafka's: Java's, and one of somebody else."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.machine.images import DEFAULT_KAFKA

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

CLIENTS = Path(__file__).resolve().parents[2] / "examples" / "clients"
REFERENCE = CLIENTS / "reference.py"


def run(store: Path, *flags: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run under faults; return the verdict's document and run.json."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", *flags, "--duration", "20s",
         "--seed", "5", "--faults", "broker_kill,partition", "--json", "--store", str(store)],
        capture_output=True, text=True, timeout=900, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout), json.loads((store / "latest" / "run.json").read_text())


# Of transactions few are decided while brokers are away, and fewer on a busy machine.
@pytest.mark.parametrize(
    ("workload", "least"), [("send_poll", 300), ("transactional", 100), ("consumer_group", 300)]
)
def test_every_workload_runs_with_the_java_client(
    tmp_path: Path, workload: str, least: int
) -> None:
    verdict, facts = run(
        tmp_path, "--client", f"java:{DEFAULT_KAFKA}", "--workload", workload, "--rate", "300"
    )

    assert verdict["verdict"] == "VALID", verdict["reasons"]
    assert facts["client_versions"]["java"] == DEFAULT_KAFKA
    assert verdict["counts"]["acked"] > least
    assert verdict["counts"]["read"] > least


def test_a_client_of_somebody_else_is_judged_too(tmp_path: Path) -> None:
    verdict, facts = run(
        tmp_path, "--client-cmd", f"{shlex.quote(sys.executable)} {REFERENCE}", "--rate", "300"
    )

    assert verdict["verdict"] == "VALID", verdict["reasons"]
    assert "reference" in facts["client_versions"]
    assert verdict["counts"]["acked"] > 1000


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go to build the client with")
@pytest.mark.parametrize("workload", ["send_poll", "consumer_group"])
def test_a_client_in_go_is_judged_too(tmp_path: Path, workload: str) -> None:
    program = tmp_path / "franz-go-client"
    subprocess.run(["go", "build", "-C", CLIENTS / "go", "-o", program], check=True, timeout=600)

    verdict, facts = run(
        tmp_path, "--client-cmd", str(program), "--workload", workload, "--rate", "300"
    )

    assert verdict["verdict"] == "VALID", verdict["reasons"]
    assert "franz-go" in facts["client_versions"]
    assert verdict["counts"]["acked"] > 300


def test_a_member_with_the_java_client_leaves_its_group_in_order(tmp_path: Path) -> None:
    run(tmp_path, "--client", f"java:{DEFAULT_KAFKA}", "--workload", "consumer_group")

    moves = (tmp_path / "latest" / "members.jsonl").read_text().splitlines()
    leavers = [line["process"] for line in map(json.loads, moves) if line.get("move") == "leave"]
    said = "".join(
        log.read_text() for log in (tmp_path / "latest" / "cluster").glob("*/server.log")
    )
    assert leavers
    # Who is killed in the end says nothing, and is gone when its session is over.
    for process in leavers:
        assert re.search(rf"Member member-{process}-\S+ has left group through explicit", said)
