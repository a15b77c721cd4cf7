"""What is missing for a pass, and how a verdict comes about."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.verdict import Verdict
from tests.spark.ops import PROVEN, Folder, fault, witnessed
from verifiers.adequacy.rule import Answer, judged, not_applicable
from verifiers.checking.execution import Found
from verifiers.judging.judgement import judge_findings, verdict_of, why_not_valid
from verifiers.run_folder.folder import read_run
from verifiers.run_folder.result import AnomalyFinding
from verifiers.situations.effects import Effect

GOOD = Folder([])
CLEAN = Found(counts={}, examples={}, checkers={"lost-write": "ran"})
UNWITNESSED = [
    fault(3, "decided", fault="partition", victims=[2], target="random"),
    fault(
        3,
        "injected",
        evidence={
            "observed": False,
            "details": {"dropped_packets": 0},
            "question": "was the topic idle?",
        },
    ),
    fault(3, "healed", evidence={"observed": True}),
]
UNHEALED = {"observed": False, "details": {"answers": "silent"}}
WITHOUT_LEADER = [
    fault(2, "decided", fault="gc_pause", victims=[], target="leader_of(orders,0)"),
    fault(2, "failed", error="There was no leader."),
]
FELT = {"1": Effect(felt="felt", signs=("broker 1 left the ISR",))}
UNFELT = {"1": Effect(felt="unfelt"), "2": Effect(felt="unproven")}
LOST = AnomalyFinding(count=1, permitted=True, why="", kinds={}, examples=())


def reasons(
    path: Path,
    folder: Folder,
    *,
    found: Found = CLEAN,
    effects: Mapping[str, Effect] = FELT,
    answers: Mapping[str, Answer] | None = None,
) -> tuple[str, ...]:
    run = read_run(folder.write(path / "run"))
    return why_not_valid(run, judge_findings(run, found), effects, answers or {})


def test_a_run_in_which_no_fault_was_felt_shows_nothing(tmp_path: Path) -> None:
    (reason,) = reasons(tmp_path, GOOD, effects=UNFELT)

    assert reason.startswith("No fault was felt: no leader, ISR, controller")


def test_one_fault_that_was_felt_is_enough(tmp_path: Path) -> None:
    assert reasons(tmp_path, GOOD, effects={**FELT, **UNFELT, "3": FELT["1"]}) == ()


def test_nothing_is_missing_where_all_is_well(tmp_path: Path) -> None:
    assert reasons(tmp_path, GOOD) == ()


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        pytest.param(
            GOOD.but(faults=[]),
            "No fault was injected: an unharmed cluster proves nothing.",
            id="no fault",
        ),
        pytest.param(
            GOOD.but(faults=[*PROVEN, *UNWITNESSED]),
            "Fault 3, partition of broker 2, has no witness: 0 packets were dropped; "
            "was the topic idle?",
            id="no witness",
        ),
        pytest.param(
            GOOD.but(faults=[*PROVEN, *witnessed(2)[:2]]),
            "Fault 2, broker_kill of broker 2, was injected and never seen to heal.",
            id="not healed",
        ),
        pytest.param(
            GOOD.but(faults=[*PROVEN, *witnessed(2)[:2], fault(2, "healed", evidence=UNHEALED)]),
            "Fault 2, broker_kill of broker 2, was injected, but no witness saw it heal: "
            "answers silent.",
            id="healing not seen",
        ),
        pytest.param(
            GOOD.but(faults=[*PROVEN, *WITHOUT_LEADER]),
            "Fault 2, gc_pause of leader_of(orders,0), failed: There was no leader.",
            id="failed",
        ),
        pytest.param(
            GOOD.but(faults=[*PROVEN, witnessed(2)[0]]),
            "Fault 2, broker_kill of broker 2, was decided and never injected.",
            id="not injected",
        ),
        pytest.param(
            GOOD.but(meta={"state": "aborted"}),
            "The run did not come to its end: its state is aborted.",
            id="aborted",
        ),
        pytest.param(
            GOOD.but(meta={"reasons": ["The cluster was ill."]}),
            "The cluster was ill.",
            id="the run's own reason",
        ),
        pytest.param(
            GOOD.but(contract={"acks": "1"}, meta={"provokes": ["lost-write"]}),
            "The damage of this scenario must cause lost-write under acks=1, and there was none: "
            "the experiment shows nothing.",
            id="nothing provoked",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    tmp_path: Path, folder: Folder, reason: str
) -> None:
    assert reasons(tmp_path, folder) == (reason,)


def test_if_no_fault_is_proven_that_is_said_first(tmp_path: Path) -> None:
    first, second = reasons(tmp_path, GOOD.but(faults=UNWITNESSED))

    assert first.startswith("No fault is proven")
    assert second.startswith("Fault 3, partition of broker 2, has no witness")


def test_a_broken_rule_is_a_reason_and_one_that_does_not_apply_is_none(tmp_path: Path) -> None:
    answers = {
        "one": judged(["The rule is broken."]),
        "two": judged([]),
        "three": not_applicable("There is nothing to apply it to."),
    }

    assert reasons(tmp_path, GOOD, answers=answers) == ("The rule is broken.",)


def test_what_is_forbidden_is_said_first_and_explained(tmp_path: Path) -> None:
    found = replace(CLEAN, counts={("lost-write", None): 1, ("unseen", None): 2})

    said = reasons(tmp_path, GOOD.but(faults=[]), found=found)

    assert re.match(r"lost-write was found 1 time: acks=all acknowledges", said[0])
    assert len(said) == 2


def test_one_forbidden_kind_among_permitted_ones_forbids_all_of_them(tmp_path: Path) -> None:
    run = read_run(GOOD.write(tmp_path / "run"))
    counts: dict[tuple[str, str | None], int] = {
        ("poll-skip", "subscribe"): 4,
        ("poll-skip", "assign"): 1,
    }

    finding = judge_findings(run, replace(CLEAN, counts=counts))["poll-skip"]

    assert (finding.count, finding.permitted) == (5, False)
    assert finding.kinds == {"assign": 1, "subscribe": 4}
    assert "subscribe" not in finding.why


@pytest.mark.parametrize(
    ("findings", "reasons", "verdict"),
    [
        ({}, (), Verdict.VALID),
        ({"lost-write": LOST}, (), Verdict.VALID),
        ({}, ("something",), Verdict.UNKNOWN),
        ({"lost-write": replace(LOST, permitted=False)}, ("something",), Verdict.INVALID),
    ],
)
def test_invalid_wins_over_unknown_and_unknown_over_valid(
    findings: dict[str, Any], reasons: tuple[str, ...], verdict: Verdict
) -> None:
    assert verdict_of(findings, reasons) is verdict
