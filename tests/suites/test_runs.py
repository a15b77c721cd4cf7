"""Whole runs: what must hold holds, what must be lost is lost and found, to the last record."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from harness.campaigns.conduct import RunResult
from harness.core.verdict import Verdict
from tests.suites.known_defects import assert_nothing_new, known_defects, unexplained_offences
from tests.suites.recorded import lost_records

pytestmark = pytest.mark.docker

RunScenario = Callable[..., RunResult]


def torn_transactions(run_dir: Path) -> set[tuple[int, int]]:
    """Which transactions are there in part only, or although aborted: sets, no Spark."""
    final = ds.dataset(run_dir / "history" / "final").to_table(columns=["value"])
    there = set(final["value"].to_pylist())
    found: dict[tuple[int, int], set[bool]] = {}
    kinds: dict[tuple[int, int], str] = {}
    for row in ds.dataset(run_dir / "history" / "txn").to_table().to_pylist():
        kinds[row["process"], row["txn"]] = row["type"]
    for row in ds.dataset(run_dir / "history" / "send").to_table().to_pylist():
        if row["txn"] is None:
            continue
        key = (row["process"], row["txn"])
        # What the client refused is no part of a transaction that was committed without it.
        if row["type"] == kinds[key]:
            found.setdefault(key, set()).add(row["value"] in there)
    allowed = {"ok": ({True},), "fail": ({False},), "info": ({True}, {False})}
    return {key for key, parts in found.items() if parts not in allowed[kinds[key]]}


def summary(outcome: RunResult) -> str:
    report = json.loads((outcome.run_dir.path / "verdict.json").read_text())
    told = {name: report[name] for name in ("verdict", "reasons", "anomalies", "faults")}
    return json.dumps(told, indent=2)[:20_000]


# By night: by day a cluster of a user's Compose file meets the same faults.
@pytest.mark.nightly
def test_acks_all_survives_every_fault(run_scenario: RunScenario) -> None:
    outcome = run_scenario("mixed", duration_s=48)  # a slot for each fault

    verdict = json.loads((outcome.run_dir.path / "verdict.json").read_text())
    assert outcome.verdict is assert_nothing_new(outcome.run_dir.path)
    assert {fault["name"] for fault in verdict["faults"] if fault["proven"]} == {
        "broker_kill",
        "broker_pause",
        "gc_pause",
        "partition",
    }
    assert verdict["counts"]["acked"] > 10_000
    assert lost_records(outcome.run_dir.path) == {}


# By night: every other run of the suites shows what acks=all keeps.
@pytest.mark.nightly
def test_acks_all_loses_nothing_under_the_damage_that_acks_1_does_not_survive(
    run_scenario: RunScenario,
) -> None:
    outcome = run_scenario("leader_cut_and_kill", contract={"acks": "all"})

    assert outcome.verdict is assert_nothing_new(outcome.run_dir.path)
    assert lost_records(outcome.run_dir.path) == {}


def test_transactions_are_whole_and_zombies_fenced(run_scenario: RunScenario) -> None:
    outcome = run_scenario(
        "mixed",
        workload_name="transactional",
        # Of the few transactions of a slow machine one at least has to be taken over; and a client
        # that waits for a coordinator that was replaced gives up sooner than after a minute.
        workload={"takeover_share": 0.3, "timeout_s": 20},
        faults=("broker_kill", "partition"),
        duration_s=32,
    )

    path = outcome.run_dir.path
    # What docs/findings.md knows of Kafka and its client is neither new nor a fault of the harness.
    known = known_defects(path)
    assert unexplained_offences(path, known) == [], summary(outcome)
    assert outcome.verdict is not Verdict.INVALID or known.sends, summary(outcome)
    assert set(lost_records(path)) <= known.values
    assert torn_transactions(path) <= known.transactions
    # A coordinator that was replaced may know another state of a transaction than its client.
    report = json.loads((path / "verdict.json").read_text())
    if outcome.verdict is not Verdict.INVALID:
        others = [why for why in report["reasons"] if not why.startswith("client-gave-up: ")]
        assert others == [], summary(outcome)
    events = ds.dataset(path / "history" / "event").to_table().to_pylist()
    taken = {(row["process"], row["op"]) for row in events if row["f"] == "takeover"}
    fenced = {(row["process"], row["op"]) for row in events if row["f"] == "fenced"}
    assert taken
    assert fenced == taken


# By night: by day claim 18 is the same damage, and a night of its own follows each time.
@pytest.mark.nightly
def test_a_night_begins_with_the_control_and_finds_every_lost_record(tmp_path: Path) -> None:
    night = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "nightly", "--budget", "1s", "--json",
         "--keep", "all", "--store", str(tmp_path)],
        capture_output=True, text=True, timeout=1500, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip

    assert night.returncode == 0, night.stderr
    document = json.loads(night.stdout)
    (run,) = document["runs"]
    assert (run["scenario"], run["verdict"]) == ("leader_cut_and_kill", "VALID")
    lost = set(lost_records(tmp_path / run["run"]))
    assert len(lost) > 100
    assert run["anomalies"]["lost-write"] == len(lost)
    found = ds.dataset(tmp_path / run["run"] / "anomalies").to_table()
    named = found.filter(pc.equal(found["anomaly"], "lost-write"))["value"].to_pylist()
    assert set(named) == lost
    (folder,) = tmp_path.glob("*-nightly-*")
    assert {path.name for path in folder.iterdir()} >= {"summary.json", "summary.md", "junit.xml"}
