"""Each claim about the ISR: what confirms it, what refutes it, and what decides nothing."""

from pathlib import Path
from typing import Any

import pytest

from harness.claim import Finding, Outcome, find_claim
from tests.unit.lab_fixture import fact, seen

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


def judged(folder: Path, claim: str, kafka: str = "4.3.1", **facts: list[Any]) -> Finding:
    """Return what a claim says of a run with these facts, each a list of samples."""
    expectation = find_claim(claim)[1].expectation(kafka)
    assert expectation is not None
    lines = [fact(name, sample) for name, samples in facts.items() for sample in samples]
    return expectation.test(seen(folder, lines=lines, kafka=kafka))


# -- 31 --------------------------------------------------------------------------------------------

OUTSIDE = [[1.1, 1.3]] * 24
INSIDE = [1.01, 1.49] * 12


@pytest.mark.parametrize(
    ("outside", "inside", "late_s", "outcome"),
    [
        (OUTSIDE, INSIDE, 0.1, CONFIRMED),
        (OUTSIDE, [], 0.1, CONFIRMED),
        # The cut took effect somewhere between the two: one in bounds is enough.
        ([*OUTSIDE, [0.8, 1.1], [1.4, 1.9]], INSIDE, 0.1, CONFIRMED),
        (OUTSIDE, [*INSIDE, 0.99], 0.1, REFUTED),
        (OUTSIDE, [*INSIDE, 1.76], 0.1, REFUTED),
        (OUTSIDE, [*INSIDE, 1.76], 1.5, UNKNOWN),
        ([*OUTSIDE, [0.5, 0.7]], [], 0.1, REFUTED),
        ([*OUTSIDE, [1.8, 2.0]], [], 0.1, REFUTED),
        ([*OUTSIDE, [1.8, 2.0]], [], 1.5, UNKNOWN),
        (OUTSIDE[:19], INSIDE, 0.1, UNKNOWN),
    ],
)
def test_a_shrink_must_come_within_its_bounds(
    tmp_path: Path,
    outside: list[list[float]],
    inside: list[float],
    late_s: float,
    outcome: Outcome,
) -> None:
    finding = judged(
        tmp_path, "isr-shrink-1x-1.5x", from_outside=outside, by_leader=inside, late_s=[late_s]
    )

    assert finding.outcome is outcome


def test_the_distribution_of_the_shrinks_is_told(tmp_path: Path) -> None:
    finding = judged(
        tmp_path, "isr-shrink-1x-1.5x", from_outside=OUTSIDE, by_leader=INSIDE, late_s=[0.1]
    )

    assert "24 told by their leaders, 1.01 to 1.49 (1.0: 12, 1.4: 12)" in finding.words


# -- 32 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kafka", "idle_s", "after_write_s", "outcome"),
    [
        ("4.3.1", None, 0.4, CONFIRMED),
        ("4.3.1", 5.0, None, REFUTED),
        ("4.3.1", None, 4.5, REFUTED),
        ("4.3.1", None, None, REFUTED),
        ("2.0.1", 5.0, None, CONFIRMED),
        ("2.0.1", None, 0.4, REFUTED),
        ("2.0.1", 9.0, None, REFUTED),
    ],
)
def test_a_silent_follower_stays_since_2_1_only(
    tmp_path: Path,
    kafka: str,
    idle_s: float | None,
    after_write_s: float | None,
    outcome: Outcome,
) -> None:
    finding = judged(
        tmp_path,
        "idle-partition-does-not-shrink",
        kafka,
        idle_shrink_s=[idle_s],
        shrink_after_write_s=[] if idle_s is not None else [after_write_s],
    )

    assert finding.outcome is outcome
