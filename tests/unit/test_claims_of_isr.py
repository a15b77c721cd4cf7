"""Each claim about the ISR: what confirms it, what refutes it, and what decides nothing."""

from pathlib import Path
from typing import Any

import pytest

from harness.lab.claim import find_claim
from harness.lab.finding import Finding, Outcome
from harness.lab.recorded import RecordedRun
from tests.unit.lab_fixture import fact, recorded_run

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


def judged(folder: Path, claim: str, kafka: str = "4.3.1", **facts: list[Any]) -> Finding:
    """Return what a claim says of a run with these facts, each a list of samples."""
    lines = [fact(name, sample) for name, samples in facts.items() for sample in samples]
    return finding_of(claim, recorded_run(folder, lines=lines, kafka=kafka))


def finding_of(claim: str, run: RecordedRun) -> Finding:
    """Return what a claim says of a run folder."""
    expectation = find_claim(claim)[1].expectation(run.kafka)
    assert expectation is not None
    return expectation.test(run)


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


# -- 33 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kafka", "gone_s", "announced", "outcome"),
    [
        ("4.3.1", [7.5, 9.5], 0, CONFIRMED),
        ("4.3.1", [31.0, 33.0], 1, REFUTED),
        ("4.3.1", [8.0, 9.0], 1, REFUTED),
        ("4.3.1", [2.0, 3.0], 0, UNKNOWN),
        ("4.3.1", [17.0, 18.0], 0, UNKNOWN),
        ("2.8.2", [17.0, 18.0], 0, CONFIRMED),
        ("0.10.2.2", [5.0, 7.0], 0, CONFIRMED),
        ("0.10.2.2", [35.0, 37.0], 0, REFUTED),
    ],
)
def test_a_frozen_follower_leaves_with_its_session(
    tmp_path: Path, kafka: str, gone_s: list[float], announced: int, outcome: Outcome
) -> None:
    finding = judged(
        tmp_path,
        "pause-removed-by-session-not-lag",
        kafka,
        gone_s=[gone_s],
        announced_by_the_leader=[announced],
    )

    assert finding.outcome is outcome


# -- 34 --------------------------------------------------------------------------------------------


def pauses(longest_s: float, left: int, ack_s: float = 3.0) -> dict[str, Any]:
    return {
        "pauses": 9, "total_s": 9 * longest_s, "longest_s": longest_s, "longest_ack_s": ack_s,
        "left": left, "left_after_s": [2.5] * left,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("short", "long", "late_s", "outcome"),
    [
        (pauses(0.1, 0), pauses(4.0, 1), 0.1, CONFIRMED),
        (pauses(0.1, 0), pauses(4.0, 0), 0.1, REFUTED),
        (pauses(0.1, 0), pauses(4.0, 1, ack_s=0.1), 0.1, REFUTED),
        (pauses(0.1, 1), pauses(4.0, 1), 0.1, REFUTED),
        (pauses(0.1, 1), pauses(4.0, 1), 1.0, UNKNOWN),
        (pauses(0.1, 0), pauses(1.0, 1), 0.1, CONFIRMED),
        (pauses(0.1, 0), pauses(1.0, 0), 0.1, UNKNOWN),
        (pauses(0.1, 0), pauses(0.15, 1), 0.1, UNKNOWN),
        (pauses(0.5, 0), pauses(4.0, 1), 0.1, UNKNOWN),
    ],
)
def test_a_follower_leaves_for_a_long_pause_only(
    tmp_path: Path, short: dict[str, Any], long: dict[str, Any], late_s: float, outcome: Outcome
) -> None:
    finding = judged(
        tmp_path, "gc-pause-follower-leaves-isr", short=[short], long=[long], late_s=[late_s]
    )

    assert finding.outcome is outcome


# -- 35 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outside", "inside", "back_s", "outcome"),
    [
        ([10, 500, 1500], [2010, 2010], 9.0, CONFIRMED),
        ([10, 500, 1500], [2009, 2010], 9.0, REFUTED),
        ([10, 500, 1500], [], None, REFUTED),
        ([10, 2010, 2010], [2010, 2010], 0.3, UNKNOWN),
    ],
)
def test_a_follower_comes_back_with_all_that_is_committed(
    tmp_path: Path,
    outside: list[int],
    inside: list[int],
    back_s: float | None,
    outcome: Outcome,
) -> None:
    finding = judged(
        tmp_path,
        "isr-reexpansion",
        outside=outside,
        inside=inside,
        high_watermark=[2010],
        back_s=[back_s],
    )

    assert finding.outcome is outcome


# -- 38 --------------------------------------------------------------------------------------------


def frozen(isr: list[int], high: int, *ends: int, written: int = 0) -> dict[str, Any]:
    return {
        "isr": isr,
        "high": high,
        "ends": {str(node): end for node, end in enumerate(ends, start=1)},
        "written": {"1": written, "2": 0, "3": None},
    }


STEADY = frozen([1, 2, 3], 90, 95, 94, 93)
HELD = frozen([1, 2, 3], 100, 200, 199, 100)
PASSED = frozen([1, 2], 300, 305, 301, 100)


@pytest.mark.parametrize(
    ("samples", "outcome"),
    [
        ([STEADY, HELD, PASSED], CONFIRMED),
        ([STEADY, HELD, PASSED, frozen([1, 2, 3], 101, 200, 199, 100)], REFUTED),
        ([STEADY, HELD, PASSED, frozen([1, 2, 3], 99, 200, 199, 100, written=150)], REFUTED),
        ([frozen([1, 2, 3], 90, 95, 95, 95), PASSED], UNKNOWN),
        ([STEADY, HELD], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_the_high_watermark_lies_above_nobody_in_the_isr(
    tmp_path: Path, samples: list[dict[str, Any]], outcome: Outcome
) -> None:
    assert judged(tmp_path, "hw-min-leo", frozen=samples).outcome is outcome


# -- 40 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "at_last", "outcome"),
    [
        ([[10, 10]] * 4, 111, CONFIRMED),
        ([[10, 10]] * 3, 111, UNKNOWN),
        ([[10, 10]] * 4, 10, UNKNOWN),
        ([[10, 10]] * 4 + [[11, 10]], 111, REFUTED),
        ([[10, 10]] * 4 + [[10, 110]], 111, REFUTED),
    ],
)
def test_a_consumer_reads_nothing_early(
    tmp_path: Path, samples: list[list[int]], at_last: int, outcome: Outcome
) -> None:
    finding = judged(
        tmp_path,
        "no-read-beyond-hw",
        polled_and_high_watermark=samples,
        polled_at_last=[at_last],
    )

    assert finding.outcome is outcome


# -- 41 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kafka", "leader_s", "follower_s", "outcome"),
    [
        ("4.3.1", 0.4, 10.4, CONFIRMED),
        ("4.3.1", 0.4, 0.6, REFUTED),
        ("4.3.1", 0.4, None, REFUTED),
        ("4.3.1", None, 10.4, REFUTED),
        ("2.5.1", 0.4, 0.6, CONFIRMED),
        ("2.5.1", 0.4, 10.4, REFUTED),
        ("2.3.1", 0.4, 10.4, CONFIRMED),
    ],
)
def test_a_parked_follower_hears_of_the_high_watermark_late(
    tmp_path: Path,
    kafka: str,
    leader_s: float | None,
    follower_s: float | None,
    outcome: Outcome,
) -> None:
    finding = judged(tmp_path, "hw-two-rounds", kafka, leader_s=[leader_s], follower_s=[follower_s])

    assert finding.outcome is outcome
