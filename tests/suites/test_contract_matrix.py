"""The oracle from both sides: what is forbidden is never seen, what is permitted is provoked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.suites.recorded import lost_records

pytestmark = [pytest.mark.docker, pytest.mark.nightly, pytest.mark.timeout(7200)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@pytest.fixture(scope="module")
def swept(store: Path) -> dict[str, Any]:
    """The document of the default matrix: every acks, both minima, idempotence on and off."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "matrix", "--json", "--store", str(store)],
        capture_output=True, text=True, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def contract_of(run: dict[str, Any]) -> tuple[str, int, bool]:
    settings = run["settings"]
    return settings["acks"], settings["min_isr"], settings["idempotence"]


def test_every_contract_that_can_be_was_run_and_every_fault_of_it_was_proven(
    swept: dict[str, Any],
) -> None:
    assert {contract_of(run) for run in swept["runs"]} == {
        ("0", 1, False), ("0", 2, False), ("1", 1, False), ("1", 2, False),
        ("all", 1, True), ("all", 1, False), ("all", 2, True), ("all", 2, False),
    }  # fmt: skip
    assert len(swept["left_out"]) == 4
    for run in swept["runs"]:
        assert (run["verdict"], run["proven"]) == ("VALID", 5), run["reasons"]


def test_what_is_forbidden_was_never_seen(swept: dict[str, Any]) -> None:
    forbidden = [
        (contract_of(run), name, found["count"])
        for run in swept["runs"]
        for name, found in run["anomalies"].items()
        if not found["permitted"]
    ]

    assert forbidden == []
    (safe,) = (run for run in swept["runs"] if contract_of(run) == ("all", 2, True))
    assert [found["count"] for found in safe["headlines"].values()] == [0, 0, 0]


def test_what_is_permitted_was_provoked(swept: dict[str, Any]) -> None:
    lossy = {contract_of(run) for run in swept["runs"] if run["headlines"]["lost"]["count"]}
    repeating = {
        contract_of(run) for run in swept["runs"] if run["headlines"]["duplicated"]["count"]
    }

    assert lossy == {
        (acks, least, idempotent)
        for acks, least, idempotent in map(contract_of, swept["runs"])
        if acks != "all" or least == 1
    }
    assert repeating >= {("1", 1, False), ("1", 2, False), ("all", 1, False), ("all", 2, False)}
    assert any(run["headlines"]["reordered"]["count"] for run in swept["runs"])


def test_what_the_table_counts_as_lost_is_what_a_set_difference_finds(
    swept: dict[str, Any], store: Path
) -> None:
    for run in swept["runs"]:
        assert run["headlines"]["lost"]["count"] == len(lost_records(store / run["run"]))


def test_all_runs_followed_one_plan_and_had_clusters_of_their_own(
    swept: dict[str, Any], store: Path
) -> None:
    folders = [store / run["run"] for run in swept["runs"]]

    assert len({(folder / "plan.json").read_bytes() for folder in folders}) == 1
    assert len({(folder / "compose.yaml").read_bytes() for folder in folders}) == len(folders)
    page = (store / swept["folder"] / "matrix.html").read_text()
    assert all(f'href="../{folder.name}/report.html"' in page for folder in folders)
