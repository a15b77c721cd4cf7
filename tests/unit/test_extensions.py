"""A package of somebody else's adds one thing of each kind, through entry points alone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.campaigns.configure import Overrides, configure
from harness.campaigns.described import parse_fault
from harness.cli.main import app
from harness.core.cluster import Broker
from harness.core.errors import UsageError
from harness.core.fault import FAULTS, TARGETS
from harness.core.registry import Registry
from harness.core.run_dir import Journal, RunDir
from harness.core.scenario import SCENARIOS
from harness.core.workload import WORKLOADS
from harness.lab.claim import CLAIMS
from harness.run.injector import Header, Injector
from harness.run.nemesis import plan_json
from tests.unit.fake_cluster import FakeCluster
from verifiers.checking.checker import CHECKERS
from verifiers.checking.contracts import chapters
from verifiers.oracle.circumstances import Circumstances
from verifiers.run_folder.folder import read_run

PACKAGE = {
    "their_faults": '''
from dataclasses import dataclass
from typing import ClassVar

from kafka_chaos import Answer, Evidence, FaultTraits, Links, Processes, TargetTraits, fault, target


class Machines(Processes, Links):
    """What this fault breaks."""


@fault("lost_host")
@dataclass(frozen=True, slots=True)
class LostHost:
    """Cut a host off, and freeze its broker.

    Stands for a machine that vanishes. Not for one that comes back with another disk.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        cuts_links=True, stops_process=True, destroys_data=True, proof="nobody may hear of it"
    )

    times: int = 1

    def inject(self, cluster: Machines, victims):
        others = [node for node in cluster.nodes if node not in victims]
        cluster.cut([(v, other) for v in victims for other in others], listener="all")
        for broker in victims:
            cluster.signal(broker, "SIGSTOP")
        seen = cluster.probe([(other, v) for v in victims for other in others], timeout_s=1.0)
        return Evidence("inject", observed=set(seen.values()) == {Answer.UNREACHABLE})

    def heal(self, cluster: Machines, victims):
        cluster.mend()
        for broker in victims:
            cluster.signal(broker, "SIGCONT")
        seen = cluster.probe([(v, v) for v in victims], timeout_s=1.0)
        return Evidence("heal", observed=set(seen.values()) == {Answer.ANSWERED})


@target("newest_follower")
@dataclass(frozen=True, slots=True)
class NewestFollower:
    """The in-sync follower with the highest id."""

    traits: ClassVar[TargetTraits] = TargetTraits(needs_followers=1)

    topic: str

    def choose(self, cluster, random):
        leader = cluster.leader_of(self.topic, 0)
        return tuple(b for b in cluster.isr_of(self.topic, 0) if b != leader)[-1:]
''',
    "their_runs": '''
from dataclasses import dataclass

from kafka_chaos import (
    Claim, ClientSpec, ClusterSpec, Contract, Expectation, LeaderOf, Mix, Scenario, TopicSpec,
    claim, scenario, workload,
)
from their_faults import LostHost, NewestFollower


@workload("trickle")
@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """Send a record now and then."""

    topic: str = "orders"
    partitions: int = 1

    def topics(self, contract):
        return (TopicSpec(name=self.topic, partitions=self.partitions, replication_factor=1),)

    def clients(self, contract):
        return (ClientSpec(process=0, role="producer", module="their_client"),)

    def readers(self, contract):
        return (ClientSpec(process=300, role="reader", module="their_client"),)


@scenario("lost_hosts")
def lost_hosts() -> Scenario:
    """Hosts vanish and come back: nothing may be lost."""
    return Scenario(
        name="lost_hosts",
        cluster=ClusterSpec(),
        contract=Contract(),
        workload=Trickle(),
        schedule=Mix(faults=(LostHost(),), targets=(LeaderOf("orders"), NewestFollower("orders"))),
        duration_s=40,
    )


@claim("hosts-come-back")
def hosts_come_back() -> Claim:
    """A host that vanished is in the ISR again when it is back."""
    return Claim(
        number=9001,
        sentence="A host that vanished is in the ISR again when it is back.",
        source="nobody",
        contract=Contract(),
        script=lambda lab: None,
        expects=(Expectation(words="it is", test=lambda run: None),),
    )
''',
    "their_checkers": '''
from pyspark.sql import functions as F

from kafka_chaos import checker, offences
from verifiers.checking.checker import Severity
from verifiers.oracle.circumstances import Condition
from verifiers.oracle.row import Chapter, Reason, forbidden, permitted

WHY = Reason("A lost host takes what it alone had seen.", "nobody")


@checker(
    "odd-value",
    severity=Severity.DELAYED,
    one="record had an odd value",
    many="records had odd values",
    chapter=Chapter(
        anomaly="odd-value",
        means="A record has an odd value.",
        rows=(
            permitted(WHY, by="a lost host", given=Condition("d", lambda at: at.destroyed)),
            forbidden(WHY),
        ),
    ),
)
def odd_value(values):
    """Return the values that are odd."""
    return offences(values.where(F.col("value") % 2 == 1), detail={})
''',
}
ENTRY_POINTS = """
[kafka_chaos.faults]
lost_host = their_faults
[kafka_chaos.targets]
newest_follower = their_faults
[kafka_chaos.workloads]
trickle = their_runs
[kafka_chaos.scenarios]
lost_hosts = their_runs
[kafka_chaos.claims]
hosts_come_back = their_runs
[kafka_chaos.checkers]
odd_value = their_checkers
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Their package is installed, and nothing was looked up before."""
    registries: list[Registry[Any]] = [FAULTS, TARGETS, WORKLOADS, SCENARIOS, CLAIMS, CHECKERS]
    for registry in registries:
        registry.load()  # what is there without them
    for name, text in PACKAGE.items():
        (tmp_path / f"{name}.py").write_text(text)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    for registry in registries:
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "_loaded", False)
    yield
    for name in PACKAGE:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("kind", "name", "meaning"),
    [
        ("faults", "lost_host", "Cut a host off, and freeze its broker."),
        ("targets", "newest_follower", "The in-sync follower with the highest id."),
        ("workloads", "trickle", "Send a record now and then."),
        ("scenarios", "lost_hosts", "Hosts vanish and come back: nothing may be lost."),
        ("claims", "hosts-come-back", "A host that vanished is in the ISR again when it is back."),
        ("checkers", "odd-value", "Return the values that are odd."),
    ],
)
def test_what_they_add_is_listed_with_its_meaning(kind: str, name: str, meaning: str) -> None:
    answer = CliRunner().invoke(app, ["list", kind, "--json"])

    assert json.loads(answer.stdout)[name] == meaning


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "their_faults.py").unlink()

    with pytest.raises(UsageError, match="The fault lost_host = their_faults of their-package can"):
        FAULTS.load()


def test_their_scenario_is_planned_with_their_fault_and_their_target() -> None:
    answer = CliRunner().invoke(app, ["plan", "lost_hosts", "--seed", "7", "--json"])

    steps = json.loads(answer.stdout)["steps"]
    assert {step["fault"]["name"] for step in steps} == {"lost_host"}
    assert "newest_follower" in {step["target"]["name"] for step in steps}


def test_their_fault_is_dealt_in_a_scenario_of_ours_with_their_workload() -> None:
    scenario = configure(
        "mixed", Overrides(faults=("lost_host(times=2)", "broker_kill"), workload_name="trickle")
    )

    steps = json.loads(plan_json(scenario, 7))["steps"]
    dealt = [step["fault"] for step in steps]
    assert {"name": "lost_host", "parameters": {"times": 2}} in dealt
    assert scenario.workload == WORKLOADS["trickle"](topic="orders", partitions=9)  # type: ignore[call-arg]


def test_what_their_fault_and_target_need_is_asked_of_them() -> None:
    with pytest.raises(UsageError, match="no links to cut"):
        configure("lost_hosts", Overrides(cluster={"brokers": 1}, contract=ALONE))

    fitting = configure("lost_hosts", Overrides(contract=ALONE)).schedule

    targets = fitting.targets  # type: ignore[attr-defined]  # it is a Mix
    assert [TARGETS.name_of(target) for target in targets] == ["leader_of"]


ALONE = {"replication_factor": 1, "min_isr": 1}


def test_their_fault_is_journalled_and_a_verifier_without_it_knows_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = RunDir.create(tmp_path / "runs", scenario="lost_hosts", seed=1)
    run_dir.update(contract={"acks": "all"}, origin_ns=0, topics=[], clients=[])
    journal = Journal(run_dir.path / "faults.jsonl")
    injector = Injector(cluster=FakeCluster(), journal=journal)
    header = Header(fault_id="1", fault=parse_fault("lost_host"), target="x", at_s=1, hold_s=2)

    active = injector.inject(header, (Broker(1, "broker-1"),))
    assert active is not None
    injector.heal(active)
    journal.close()
    monkeypatch.delitem(FAULTS._entries, "lost_host")
    (fault,) = read_run(run_dir.path).faults

    assert (fault.name, fault.proven, fault.destroys_data) == ("lost_host", True, True)


def test_their_claim_is_in_the_catalogue(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["claims", "list", "--store", str(tmp_path), "--json"])

    (theirs,) = [c for c in json.loads(answer.stdout) if c["claim"] == "hosts-come-back"]
    assert (theirs["number"], theirs["expects"]) == (9001, {"all": "it is"})


def test_their_checker_says_how_bad_it_is_what_it_means_and_who_permits_it() -> None:
    checker = CHECKERS["odd-value"]

    assert (checker.severity.name, checker.phrase(2)) == ("DELAYED", "records had odd values")
    assert checker.chapter in chapters()
    scenario = configure("lost_hosts", Overrides())
    kept, destroyed = (
        checker.chapter.rule(
            None, Circumstances(contract=scenario.contract, kafka="4.3.1", destroyed=destroyed)
        )
        for destroyed in (False, True)
    )
    assert not kept.permitted
    assert destroyed.permits == "a lost host"
