"""Claims that must lose or repeat records: a night in which these are not caught proves nothing."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

pytestmark = pytest.mark.docker

CONTROLS = {
    "acks0-loss": ("lost-write", 500),
    "acks1-loss-on-leader-kill": ("lost-write", 1000),
    "acksall-minisr1-shrinks-to-self": ("lost-write", 100),
    "retry-duplicates-no-idempotence": ("duplicate", 101),
}
"""What each must be caught with, and how often at the least."""


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    """Run all controls as a user would; return the store, and their trials by name."""
    store = tmp_path_factory.mktemp("controls")
    ran = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "claims", "run", *CONTROLS, "--json",
         "--store", str(store)],
        capture_output=True, text=True, timeout=1500, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return store, {trial["claim"]: trial for trial in json.loads(ran.stdout)["trials"]}


def values(folder: Path, dataset: str) -> Counter[int]:
    """Return how often each value stands in a dataset, read without Spark."""
    table = ds.dataset(folder / "history" / dataset).to_table(columns=["value"])
    return Counter(table["value"].to_pylist())


def acknowledged(folder: Path) -> set[int]:
    table = ds.dataset(folder / "history" / "send").to_table(columns=["value", "type"])
    return {row["value"] for row in table.to_pylist() if row["type"] == "ok"}


@pytest.mark.parametrize("claim", CONTROLS)
def test_a_control_is_caught_and_to_the_last_record(
    night: tuple[Path, Mapping[str, Any]], claim: str
) -> None:
    store, trials = night
    anomaly, fewest = CONTROLS[claim]

    trial = trials[claim]

    assert trial["outcome"] == "CONFIRMED", trial["words"]
    folder = store / trial["run"]
    final = values(folder, "final")
    lost = acknowledged(folder) - set(final)
    twice = {value for value, count in final.items() if count > 1}
    caught = lost if anomaly == "lost-write" else twice
    assert len(caught) == trial["anomalies"].get(anomaly, 0) >= fewest
    assert lost == set() or anomaly == "lost-write"
