"""`kafka-chaos up`: a cluster for clients that are not ours."""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faults.broker_kill import BrokerKill
from faults.partition import Partition
from harness.core.access import Access
from harness.core.fault import Evidence
from harness.core.run_dir import RunDir, read_lines
from harness.run.fault_journal import COLUMNS, FaultJournal
from harness.run.injector import Header, Injector
from harness.run.nemesis import plan
from harness.run.open_run import OpenRun
from harness.run.runner import Runner
from tests.unit.fake_cluster import FakeCluster

Ended = tuple[int, str, str]


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "faults.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_line_of_the_journal_is_a_row_with_the_time_of_the_wall(tmp_path: Path) -> None:
    journal = FaultJournal(tmp_path)
    injector = Injector(cluster=FakeCluster(), journal=journal)
    cut = Header(
        fault_id="1", fault=Partition(listener="replication"), target="leader_of(orders, 0)",
        at_s=1.0, hold_s=5.0,
    )  # fmt: skip
    entry = injector.inject(cut, injector.cluster.brokers[:2])
    assert entry is not None
    injector.heal(entry)
    injector.refuse(Header(fault_id="2", fault=BrokerKill(), target="nobody", at_s=9, hold_s=1),
                    ValueError("nobody was there, or \"so\""))  # fmt: skip
    journal.close()

    rows = table(tmp_path)
    lines = list(read_lines(tmp_path / "faults.jsonl"))
    assert [(row["id"], row["event"]) for row in rows] == [
        (line["id"], line["event"]) for line in lines
    ]
    assert [row["event"] for row in rows] == ["decided", "injected", "healed", "decided", "failed"]
    assert tuple(rows[0]) == COLUMNS
    for row in rows[:3]:
        assert (row["fault"], row["target"], row["victims"], row["hold_s"]) == (
            "partition(replication)", "leader_of(orders, 0)", "1 2", "5.0",
        )  # fmt: skip
    assert [row["observed"] for row in rows] == ["", "yes", "yes", "", ""]
    assert rows[1]["details"].startswith("{")
    assert rows[4]["details"] == 'nobody was there, or "so"'
    assert [row["utc"] for row in rows] == sorted(row["utc"] for row in rows)
    assert all(row["utc"].endswith("Z") and len(row["utc"]) == 24 for row in rows)


def test_a_journal_that_is_opened_again_has_one_head(tmp_path: Path) -> None:
    for number in "12":
        journal = FaultJournal(tmp_path)
        journal.append({"id": number, "event": "failed", "error": number, "time_ns": 0})
        journal.close()

    assert [row["id"] for row in table(tmp_path)] == ["1", "2"]


Begun = Callable[..., OpenRun]


@pytest.fixture
def begun(
    invoke: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[OpenRun, Ended]]:
    """Return a function that gives the run that a command line would begin, and how it ended."""
    runs: list[OpenRun] = []

    def without_cluster(runner: Runner) -> RunDir:
        assert isinstance(runner.run, OpenRun)
        runs.append(runner.run)
        runner.run.ready(
            cast(
                "Any",
                SimpleNamespace(
                    cluster=SimpleNamespace(
                        bootstrap="127.0.0.1:9092,127.0.0.1:9093", access=Access("b:1")
                    )
                ),
            )
        )
        return RunDir.create(runner.store, scenario=runner.run.name, seed=runner.seed)

    monkeypatch.setattr(Runner, "execute", without_cluster)
    monkeypatch.setattr("harness.machine.versions.reject_unknown_kafka", lambda *_, **__: None)

    def begin(*words: str) -> tuple[OpenRun, Ended]:
        ended = invoke("up", *words, "--store", str(tmp_path))
        return runs[-1], ended

    return begin


def test_without_faults_nothing_is_broken_and_no_client_is_ours(
    begun: Callable[..., tuple[OpenRun, Ended]],
) -> None:
    run, (code, out, err) = begun()

    assert code == 0, err
    assert out == ""
    assert "127.0.0.1:9092,127.0.0.1:9093" in err
    assert "faults.csv" in err
    scenario = run.scenario
    assert plan(scenario, 7) == ()
    assert scenario.workload.clients(scenario.contract) == ()
    assert scenario.workload.readers(scenario.contract) == ()
    assert [topic.name for topic in run.topics()] == ["orders"]


def test_faults_are_dealt_for_a_day_on_the_topic_that_is_named(
    begun: Callable[..., tuple[OpenRun, Ended]],
) -> None:
    run, (code, out, err) = begun(
        "--faults", "broker_kill,partition", "--seed", "3", "--topic", "payments",
        "--print-bootstrap", "--topic-partitions", "2",
    )  # fmt: skip

    assert code == 0, err
    assert out == "127.0.0.1:9092,127.0.0.1:9093\n"
    steps = plan(run.scenario, 3)
    assert {type(step.fault) for step in steps} == {BrokerKill, Partition}
    assert steps[-1].at_s > 85_000
    (topic,) = run.topics()
    assert (topic.name, topic.partitions) == ("payments", 2)
    assert "payments" in str([step.target for step in steps])
    assert "orders" not in str([step.target for step in steps])


def test_evidence_that_nobody_saw_is_told_as_such(tmp_path: Path) -> None:
    journal = FaultJournal(tmp_path)
    unseen = {"phase": "inject", "observed": Evidence("inject", observed=False).observed}
    journal.append({"id": "1", "event": "injected", "evidence": unseen, "time_ns": 0})
    journal.close()

    assert [row["observed"] for row in table(tmp_path)] == ["no"]


def test_who_only_breaks_needs_no_spark() -> None:
    program = """
import sys

class NoSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ImportError(name)

sys.meta_path.insert(0, NoSpark())
import harness.run.runner, harness.cli.up, harness.run.open_run, harness.cli.settings
import kafka_chaos.clusters, kafka_chaos.pytest_plugin, kafka_chaos.shared_clusters
from kafka_chaos import BrokerKill, ClusterSpec, LeaderOf, TopicSpec
assert not [name for name in sys.modules if name.startswith("verifiers.judging")]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
