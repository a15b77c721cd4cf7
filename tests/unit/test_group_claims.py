"""What claims on consumer groups expect: each test can say yes, no, and that it cannot tell."""

from pathlib import Path
from typing import Any

import pytest

from harness.lab.claim import find_claim
from harness.lab.expectations import (
    repeats_at_most_hand,
    repeats_hand,
    repeats_nothing_committed,
    skips_hand,
)
from harness.lab.finding import Outcome, Test
from tests.unit.lab_fixture import anomaly, fact, recorded_run

SKIP, REPEAT = "consume-skip", "consume-repeat"


def hand(group: str, first: int, end: int) -> dict[str, Any]:
    return fact(f"in hand: {group}", [[0, first, end]])


def rows(
    name: str, first: int, end: int, *, group: str = "g", kind: str = "uncommitted"
) -> list[dict[str, Any]]:
    whole = f"claim-{group}"
    return [{**anomaly(name, n, group=whole), "kind": kind} for n in range(first, end)]


@pytest.mark.parametrize(
    ("test", "found", "outcome"),
    [
        (skips_hand("g"), rows(SKIP, 5, 9), Outcome.CONFIRMED),
        (skips_hand("g"), rows(SKIP, 5, 8), Outcome.REFUTED),
        (skips_hand("g"), rows(SKIP, 5, 10), Outcome.REFUTED),
        (skips_hand("g"), [*rows(SKIP, 5, 9), *rows(REPEAT, 5, 6)], Outcome.REFUTED),
        (skips_hand("g"), rows(REPEAT, 5, 9), Outcome.REFUTED),
        (skips_hand("g"), [], Outcome.REFUTED),
        (skips_hand("other"), rows(SKIP, 5, 9), Outcome.UNKNOWN),
        (repeats_hand("g"), rows(REPEAT, 5, 9), Outcome.CONFIRMED),
        (repeats_hand("g"), rows(REPEAT, 5, 9, group="of another"), Outcome.REFUTED),
        (repeats_hand("g"), rows(REPEAT, 4, 9), Outcome.REFUTED),
        (repeats_hand("g"), [*rows(REPEAT, 5, 9), *rows(SKIP, 9, 10)], Outcome.REFUTED),
        (repeats_at_most_hand("g"), [], Outcome.CONFIRMED),
        (repeats_at_most_hand("g"), rows(REPEAT, 5, 7), Outcome.CONFIRMED),
        (repeats_at_most_hand("g"), rows(REPEAT, 4, 7), Outcome.REFUTED),
        (repeats_at_most_hand("g"), rows(SKIP, 7, 8), Outcome.REFUTED),
        (repeats_at_most_hand("other"), [], Outcome.UNKNOWN),
        (repeats_nothing_committed("g"), rows(REPEAT, 5, 9), Outcome.CONFIRMED),
        (repeats_nothing_committed("g"), rows(REPEAT, 4, 9), Outcome.CONFIRMED),
        (
            repeats_nothing_committed("g"),
            rows(REPEAT, 5, 6, kind="committed"),
            Outcome.REFUTED,
        ),
        (repeats_nothing_committed("g"), rows(SKIP, 8, 9), Outcome.REFUTED),
        (repeats_nothing_committed("other"), [], Outcome.UNKNOWN),
    ],
)
def test_what_was_in_hand_is_told_from_what_was_not(
    tmp_path: Path, test: Test, found: list[dict[str, Any]], outcome: Outcome
) -> None:
    folder = recorded_run(tmp_path, lines=[hand("g", 5, 9)], anomalies=found)

    assert test(folder).outcome is outcome


@pytest.mark.parametrize(
    "test",
    [
        skips_hand("g"),
        repeats_hand("g"),
        repeats_at_most_hand("g"),
        repeats_nothing_committed("g"),
    ],
)
def test_what_was_not_read_to_its_end_proves_nothing_about_groups(
    tmp_path: Path, test: Test
) -> None:
    folder = recorded_run(tmp_path, lines=[hand("g", 5, 9)], complete=False)

    assert test(folder).outcome is Outcome.UNKNOWN


def judged(number: str, folder: Path, **what: Any) -> Outcome:
    expectation = find_claim(number)[1].expectation("4.3.1")
    assert expectation is not None
    return expectation.test(recorded_run(folder, **what)).outcome


HANDS_62 = [hand("java", 0, 9), hand("delivered", 0, 9), hand("stored", 0, 9)]


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ([*rows(SKIP, 0, 9, group="delivered")], Outcome.CONFIRMED),
        (
            [*rows(SKIP, 0, 9, group="delivered"), *rows(REPEAT, 0, 9, group="java")],
            Outcome.CONFIRMED,
        ),
        # What it would look like if Java's commit were no better, or librdkafka's no worse.
        (
            [*rows(SKIP, 0, 9, group="delivered"), *rows(SKIP, 0, 9, group="java")],
            Outcome.REFUTED,
        ),
        ([], Outcome.REFUTED),
        (
            [*rows(SKIP, 0, 9, group="delivered"), *rows(SKIP, 8, 9, group="stored")],
            Outcome.REFUTED,
        ),
    ],
)
def test_automatic_commits_are_judged_client_by_client(
    tmp_path: Path, found: list[dict[str, Any]], outcome: Outcome
) -> None:
    assert judged("62", tmp_path, lines=HANDS_62, anomalies=found) is outcome


def test_committing_first_and_last_are_assigned_to_members(tmp_path: Path) -> None:
    lines = [hand("before", 0, 9), hand("before, half done", 4, 9), hand("after", 0, 9)]
    skipped = [*rows(SKIP, 0, 9, group="before"), *rows(SKIP, 4, 9, group="before, half done")]
    repeated = rows(REPEAT, 0, 9, group="after")

    found = [*skipped, *repeated]
    assert judged("63", tmp_path / "1", lines=lines, anomalies=found) is Outcome.CONFIRMED
    assert judged("63", tmp_path / "2", lines=lines, anomalies=skipped) is Outcome.REFUTED
    assert judged("63", tmp_path / "3", lines=lines, anomalies=repeated) is Outcome.REFUTED
