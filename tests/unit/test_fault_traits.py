"""What a fault tells of itself is written down, and nobody outside asks for its class or name."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.client_link import ClientLink
from faults.gc_pause import GcPause
from faults.link import Link
from faults.own_command import OwnCommand
from faults.partition import Partition
from faults.power_loss import PowerLoss
from faults.targets import (
    CoordinatorOf,
    FollowerOf,
    LeaderAndFollower,
    LeaderOf,
    TransactionCoordinatorOf,
    TwoFollowers,
)
from harness.core.cluster import Answer, Broker, Lease
from harness.core.fault import (
    FAULTS,
    TARGETS,
    Evidence,
    Fault,
    FaultTraits,
    TargetTraits,
    fault_traits,
    recorded_traits,
    target_traits,
)
from harness.core.run_dir import Journal, RunDir
from harness.run.injector import Header, Injector
from tests.unit.fake_cluster import FakeCluster
from verifiers.run_folder.folder import read_run

ROOT = Path(__file__).resolve().parents[2]
LEASE = Lease(fault_id="1", hold_s=6.0, limit_s=30.0)
ONE = (Broker(1, "broker-1"),)
PLAIN = FAULTS.keys() - {"own_command"}
"""Faults whose traits hang on no parameter."""
TWO = (*ONE, Broker(2, "broker-2"))


@pytest.fixture(autouse=True)
def _instant(instant_time: list[float]) -> None:
    """No test here waits."""


def test_the_traits_of_the_faults_are_these() -> None:
    def those(trait: str) -> set[str]:
        return {name for name in PLAIN if getattr(fault_traits(FAULTS[name]()), trait)}

    assert those("hits_pairs") == {"fetch_stall", "link"}
    assert those("cuts_links") == {"fetch_stall", "link", "partition"}
    assert those("reads_requests") == {"fetch_stall"}
    assert those("stops_process") == {"broker_kill", "broker_pause", "broker_stop", "power_loss"}
    assert those("destroys_data") == {"power_loss"}
    assert those("damages_data") == set()
    assert those("fails_disk") == set()
    assert those("needs_container") == PLAIN


def test_every_fault_says_what_it_takes_to_count() -> None:
    proofs = {name: fault_traits(FAULTS[name]()).proof for name in PLAIN}
    proofs["own_command"] = OwnCommand("break", "heal", "look").traits.proof

    assert proofs.keys() == FAULTS.keys()
    assert FaultTraits().proof not in proofs.values()


def test_a_target_says_that_it_needs_a_follower() -> None:
    assert target_traits(FollowerOf("orders")).needs_followers == 1
    assert target_traits(LeaderAndFollower("orders")).needs_followers == 1
    assert target_traits(TwoFollowers("orders")).needs_followers == 2
    assert target_traits(LeaderOf("orders")).needs_followers == 0


def test_a_target_says_that_it_needs_a_group_or_transactions_of_the_run() -> None:
    assert target_traits(CoordinatorOf()) == TargetTraits(needs_group=True)
    assert target_traits(TransactionCoordinatorOf()) == TargetTraits(needs_transactions=True)
    for named in (CoordinatorOf("g"), TransactionCoordinatorOf("t"), LeaderOf("orders")):
        assert target_traits(named) == TargetTraits()


# -- the journal -----------------------------------------------------------------------------------


def journal_of(folder: Path, fault: Fault, cluster: FakeCluster) -> list[dict[str, Any]]:
    journal = Journal(folder / "faults.jsonl")
    injector = Injector(cluster=cluster, journal=journal)
    header = Header(fault_id="1", fault=fault, target="all", at_s=1.0, hold_s=2.0)
    active = injector.inject(header, ONE)
    if active is not None:
        injector.heal(active)
    journal.close()
    return [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]


def test_the_traits_are_journalled_with_the_decision(tmp_path: Path) -> None:
    decided, *_ = journal_of(tmp_path, PowerLoss(), FakeCluster())

    assert decided["traits"] == {
        "hits_pairs": False,
        "cuts_links": False,
        "cuts_clients": False,
        "reads_requests": False,
        "stops_process": True,
        "destroys_data": True,
        "damages_data": False,
        "fails_disk": False,
        "needs_container": True,
        "ends_lead_by": "power loss",
        "proof": "something must lie above the recovery point, to be cut from the files",
    }


def test_a_question_is_journalled_only_with_an_effect_that_nobody_saw(tmp_path: Path) -> None:
    (tmp_path / "idle").mkdir()
    (tmp_path / "busy").mkdir()

    _, idle, _ = journal_of(tmp_path / "idle", Partition(), FakeCluster(is_idle=True))
    _, busy, _ = journal_of(tmp_path / "busy", Partition(), FakeCluster())

    assert idle["evidence"]["question"] == "was the topic idle?"
    assert "question" not in busy["evidence"]


@pytest.mark.parametrize(
    ("decided", "destroys_data"),
    [
        ({"fault": "disk_thief", "traits": {"destroys_data": True, "later": 1}}, True),
        ({"fault": "power_loss", "traits": {"destroys_data": False}}, False),
        ({"fault": "power_loss"}, True),
        ({"fault": "broker_kill"}, False),
        ({"fault": "not_installed"}, False),
        ({}, False),
    ],
    ids=["not installed", "the line counts", "older", "older, harmless", "unknown", "nothing"],
)
def test_the_line_says_what_a_fault_destroys_and_an_older_line_has_the_fault_asked(
    decided: dict[str, Any], destroys_data: bool
) -> None:
    assert recorded_traits(decided).destroys_data is destroys_data


@pytest.mark.parametrize("traits", [{}, {"traits": {"destroys_data": True}}])
def test_a_folder_without_traits_still_says_that_data_was_destroyed(
    tmp_path: Path, traits: dict[str, Any]
) -> None:
    run_dir = RunDir.create(tmp_path, scenario="mixed", seed=1)
    run_dir.update(contract={"acks": "all"}, origin_ns=0, topics=[], clients=[])
    decided = {"id": "1", "event": "decided", "time_ns": 1, "fault": "power_loss", "victims": [1]}
    (run_dir.path / "faults.jsonl").write_text(json.dumps(decided | traits) + "\n")

    (fault,) = read_run(run_dir.path).faults

    assert fault.destroys_data


# -- the question that missing evidence raises -----------------------------------------------------


class Hidden(FakeCluster):
    """Its listeners can be reached from nowhere."""

    def _answer(self, source: Broker, target: Broker) -> Answer:
        return Answer.UNREACHABLE


class Revived(FakeCluster):
    """Somebody else starts what was killed, before it is looked at."""

    def _answer(self, source: Broker, target: Broker) -> Answer:
        return Answer.ANSWERED


HIDDEN = "did a partition hide the broker from its witness?"


@pytest.mark.parametrize(
    ("fault", "cluster", "question"),
    [
        (Partition(), FakeCluster(is_idle=True), "was the topic idle?"),
        (Link(), FakeCluster(is_idle=True), "was the topic idle?"),
        (ClientLink(), FakeCluster(is_idle=True), "was the topic idle?"),
        (ClientLink(), Hidden(), HIDDEN),
        (BrokerKill(), Hidden(), HIDDEN),
        (BrokerKill(), Revived(), "was the broker started again by somebody else?"),
        (BrokerPause(), Hidden(), HIDDEN),
        (BrokerStop(), Hidden(), HIDDEN),
        (
            BrokerStop(),
            FakeCluster(ignores_damage=True),
            "does its shutdown take longer than limit_s?",
        ),
        (PowerLoss(), Hidden(), HIDDEN),
        (PowerLoss(), FakeCluster(is_idle=True), "was everything flushed, or nothing written?"),
        (
            GcPause(),
            FakeCluster(ignores_damage=True),
            "was the JVM busy, paused or killed by something else?",
        ),
    ],
)
def test_a_fault_that_nobody_saw_says_what_to_ask(
    fault: Fault, cluster: FakeCluster, question: str
) -> None:
    victims = TWO if fault_traits(fault).hits_pairs else ONE

    injected = fault.inject(cluster.leased(LEASE), victims)

    assert (injected.observed, injected.question) == (False, question)


def test_evidence_raises_no_question_by_itself() -> None:
    assert Evidence("heal", observed=False).question == ""


# -- nobody outside asks for a class or a name -----------------------------------------------------

PACKAGES = ("harness", "workloads", "verifiers")
WORDS_OF_A_SCRIPT = ("harness/scenarios/", "harness/claims/")
"""Where faults are made, and so are spoken of by class."""
# What is taken out are words of Kafka's: columns and fields are called after them.
NAMES = {*FAULTS, *TARGETS} - {"partition", "controller", "all", "random", "link", "id"}
CLASSES = {entry.__name__ for entry in (*FAULTS.values(), *TARGETS.values())}


@cache
def modules() -> dict[str, ast.Module]:
    """The modules outside that hold a word which could be a name or a class, parsed."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    words = re.compile(rf"\b({'|'.join(NAMES | CLASSES)})\b")
    return {
        name: ast.parse(text)
        for name, text in texts.items()
        if not name.startswith(WORDS_OF_A_SCRIPT) and words.search(text)
    }


def text_of(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def asked_by_class(tree: ast.Module) -> Iterator[str]:
    """The classes of faults and targets that an isinstance names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            named = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            yield from named & CLASSES


def asked_by_name(tree: ast.Module) -> Iterator[str]:
    """The names of faults and targets that are compared with, or that a table or a set holds."""
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Compare | ast.MatchValue | ast.Set | ast.Tuple | ast.List | ast.Dict
        ):
            yield from set(text_of(node)) & NAMES


@pytest.mark.parametrize("asks", [asked_by_class, asked_by_name])
def test_nobody_outside_asks_for_the_class_or_the_name_of_a_fault(
    asks: Callable[[ast.Module], Iterator[str]],
) -> None:
    found = {name: set(asks(tree)) for name, tree in modules().items()}

    assert {name: asked for name, asked in found.items() if asked} == {}


@pytest.mark.parametrize(
    ("asks", "line"),
    [
        (asked_by_class, "isinstance(fault, Partition | Link)"),
        (asked_by_name, 'fault.name == "gc_pause"'),
        (asked_by_name, 'FAULTS = frozenset({"power_loss", "x"})'),
        (asked_by_name, 'CURES = {"broker_kill": 1}'),
    ],
)
def test_who_asks_would_be_caught(asks: Callable[[ast.Module], Iterator[str]], line: str) -> None:
    assert any(asks(ast.parse(line)))
