"""The public package: which names it has, and what importing one of them costs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafka_chaos
from harness.core.registry import Registry
from kafka_chaos.__main__ import main

NAMES = """
    After AllBrokers Alone Alternation Answer Blackout Broker BrokerAnswers BrokerKill
    BrokerOfId BrokerPause BrokerStop CaughtUp Chaos Claim ClientLink ClientSpec Cluster
    ClusterBroken ClusterMetadata ClusterSpec CommitsRest CommitsResume ConsumerGroup Contract
    Controller ControllerElected CoordinatorElected CoordinatorOf Deck Disks Divided
    EnvironmentBroken Event Evidence Expectation Fault FaultTraits FetchStall FollowerOf
    GarbageCollections GcPause GroupRebalances HealFailed Healed HistoryUnreadable IsrDownTo
    IsrGrew IsrShrank KafkaChaosError Lab LastInSync LastRestarted Late LeaderAndFollower
    LeaderElected LeaderOf Link Links Majority Minority Mix Nodes OutOfSync OwnCommand Partition
    Pattern PowerLoss PreconditionUnmet Processes RandomBroker Read Recorder Recovering Relapse
    Report Returned RunResult Scenario Script SendPoll Sent Severity Step Successor Target
    TargetTraits TopicSpec TransactionCoordinatorElected TransactionCoordinatorOf
    TransactionPrepared Transactional TwoFollowers UsageError Verdict Versions View WaitTimeout
    Workload answers await_answers checker claim event fault launch offences pattern run
    scenario target verify wait_until workload
"""
HEAVY = "pyspark docker confluent_kafka pyarrow numpy typer rich jinja2 yaml"


def _loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return {module.partition(".")[0] for module in done.stdout.split()}


def test_the_public_names_are_these() -> None:
    assert dir(kafka_chaos) == NAMES.split()


@pytest.mark.parametrize("name", NAMES.split())
def test_a_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(kafka_chaos, name).__doc__


def test_whatever_is_registered_for_plans_is_public() -> None:
    from harness.core.event import EVENTS
    from harness.core.fault import FAULTS, TARGETS
    from harness.core.pattern import PATTERNS

    registries: tuple[Registry[Any], ...] = (FAULTS, TARGETS, EVENTS, PATTERNS)
    ours = [
        entry
        for registry in registries
        for entry in registry.values()
        if entry.__module__.startswith("faults.")
    ]

    assert [entry.__name__ for entry in ours if entry.__name__ not in dir(kafka_chaos)] == []


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'BrokerKil'"):
        _ = kafka_chaos.BrokerKil  # type: ignore[attr-defined]  # nor is it for mypy


def test_the_package_and_its_plugin_import_nothing_else_of_ours() -> None:
    loaded = _loaded_by("import kafka_chaos, kafka_chaos.pytest_plugin")

    assert loaded.isdisjoint({"harness", "faults", "workloads", "verifiers", *HEAVY.split()})


def test_faults_targets_and_contracts_need_the_standard_library_only() -> None:
    loaded = _loaded_by("from kafka_chaos import BrokerKill, Contract, LeaderOf, TopicSpec, fault")

    assert "faults" in loaded
    assert loaded.isdisjoint(HEAVY.split())


@pytest.fixture
def foreign_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `harness` of somebody else's that comes first on the import path."""
    package = tmp_path / "harness"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for module in [name for name in sys.modules if name.partition(".")[0] == "harness"]:
        monkeypatch.delitem(sys.modules, module)
    for name in NAMES.split():
        monkeypatch.delitem(vars(kafka_chaos), name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    kafka_chaos.check_packages.cache_clear()
    return package


def test_the_command_refuses_to_run_with_somebody_elses_package(
    foreign_harness: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 2
    assert f"finds {foreign_harness} first" in capsys.readouterr().err


def test_a_public_name_is_not_imported_from_somebody_elses_package(foreign_harness: Path) -> None:
    with pytest.raises(ImportError, match="its own package 'harness'"):
        from kafka_chaos import Contract  # noqa: F401
