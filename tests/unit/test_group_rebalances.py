"""What the claims on rebalances and coordinators expect."""

from pathlib import Path
from typing import Any

import pytest

from harness.lab.finding import Outcome
from tests.unit.lab_fixture import anomaly, fact
from tests.unit.test_group_claims import REPEAT, SKIP, hand, judged, rows


def test_each_protocol_has_to_resume_at_the_last_commit(tmp_path: Path) -> None:
    names = ("eager", "cooperative", "consumer")
    lines = [hand(name, 0, 9) for name in names]
    back = rows(REPEAT, 0, 1, group="consumer", kind="committed")

    assert judged("64", tmp_path / "1", lines=lines) is Outcome.CONFIRMED
    assert judged("64", tmp_path / "2", lines=lines, anomalies=back) is Outcome.REFUTED
    assert judged("64", tmp_path / "3", lines=lines[:2]) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("long", "short", "found", "outcome"),
    [
        ([0, 0], [9.5, 2], [], Outcome.CONFIRMED),
        ([0, 0], [3.5, 0], [], Outcome.CONFIRMED),
        ([0, 1], [9.5, 2], [], Outcome.REFUTED),
        ([0, 0], [9.5, 0], [], Outcome.REFUTED),
        ([0, 0], [9.5, 2], [anomaly("lost-commit", 5)], Outcome.REFUTED),
        ([0, 0], [9.5, 2], rows(SKIP, 0, 1), Outcome.REFUTED),
        ([], [9.5, 2], [], Outcome.UNKNOWN),
    ],
)
def test_a_coordinator_may_take_neither_commits_nor_time(
    tmp_path: Path,
    long: list[int],
    short: list[float],
    found: list[dict[str, Any]],
    outcome: Outcome,
) -> None:
    lines = [
        *(fact("rebalances under a long session", n) for n in long),
        fact("failover s and rebalances under a short session", short),
    ]

    assert judged("65", tmp_path, lines=lines, anomalies=found) is outcome
