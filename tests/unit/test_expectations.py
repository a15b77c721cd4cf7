"""What claims expect: each test must be able to say yes, no, and that it cannot tell."""

from pathlib import Path

import pytest

from harness.lab.expectations import all_of, finds, finds_no, keeps_all, loses, loses_some, sees
from harness.lab.finding import Outcome, Test
from tests.unit.lab_fixture import anomaly, batch, fact, lost, recorded_run

BATCHES = [batch("kept", 0, 10), batch("doomed", 10, 5)]


@pytest.mark.parametrize(
    ("test", "values", "outcome"),
    [
        (loses("doomed"), range(10, 15), Outcome.CONFIRMED),
        (loses("doomed"), range(10, 14), Outcome.REFUTED),
        (loses("doomed"), range(9, 15), Outcome.REFUTED),
        (loses("doomed"), (), Outcome.REFUTED),
        (loses("doomed", "kept"), range(15), Outcome.CONFIRMED),
        (loses("nonesuch"), (), Outcome.REFUTED),
        (loses_some("doomed"), range(12, 14), Outcome.CONFIRMED),
        (loses_some("doomed"), range(9, 14), Outcome.REFUTED),
        (loses_some("doomed"), (), Outcome.REFUTED),
        (keeps_all(), (), Outcome.CONFIRMED),
        (keeps_all(), range(1), Outcome.REFUTED),
    ],
)
def test_losses_are_told_exactly(
    tmp_path: Path, test: Test, values: range, outcome: Outcome
) -> None:
    folder = recorded_run(tmp_path, lines=BATCHES, anomalies=lost(values))

    assert test(folder).outcome is outcome


@pytest.mark.parametrize("test", [loses("doomed"), loses_some("doomed"), keeps_all()])
def test_what_was_not_read_to_its_end_proves_no_absence(tmp_path: Path, test: Test) -> None:
    finding = test(recorded_run(tmp_path, lines=BATCHES, complete=False))

    assert finding.outcome is Outcome.UNKNOWN
    assert "was read to 100 of 100" in finding.words


def test_nothing_acknowledged_is_nothing_kept(tmp_path: Path) -> None:
    folder = recorded_run(tmp_path, lines=[batch("none", 0, 0, info=[[0, 5]])])

    assert keeps_all()(folder).outcome is Outcome.UNKNOWN


def test_anomalies_are_looked_for_by_name(tmp_path: Path) -> None:
    folder = recorded_run(tmp_path, lines=BATCHES, anomalies=[anomaly("replica-divergence", 7)])

    assert finds("replica-divergence")(folder).outcome is Outcome.CONFIRMED
    assert finds("epoch-disorder")(folder).outcome is Outcome.REFUTED
    assert finds_no("replica-divergence")(folder).outcome is Outcome.REFUTED
    assert "at claim-0 offset 7" in finds_no("replica-divergence")(folder).words
    assert finds_no("epoch-disorder", "lost-write")(folder).outcome is Outcome.CONFIRMED


def test_what_nobody_looked_for_is_neither_there_nor_absent(tmp_path: Path) -> None:
    folder = recorded_run(tmp_path, lines=BATCHES)

    assert finds("nonesuch")(folder).outcome is Outcome.UNKNOWN
    assert finds_no("lost-write", "nonesuch")(folder).outcome is Outcome.UNKNOWN


def test_every_sample_of_a_fact_must_hold(tmp_path: Path) -> None:
    folder = recorded_run(tmp_path, lines=[fact("shrink_s", 4.5), fact("shrink_s", 9.0)])

    assert sees("shrink_s", lambda s: s < 10, "in time")(folder).outcome is Outcome.CONFIRMED
    refuted = sees("shrink_s", lambda s: s < 6, "in time")(folder)
    assert refuted.outcome is Outcome.REFUTED
    assert refuted.words == "in time: 1 of 2 (4.5, 9.0)."
    assert sees("nonesuch", bool, "at all")(folder).outcome is Outcome.UNKNOWN


def test_several_expectations_are_as_bad_as_the_worst(tmp_path: Path) -> None:
    folder = recorded_run(tmp_path, lines=[*BATCHES, fact("n", 1)])
    yes, no = sees("n", lambda n: n == 1, "one"), sees("n", lambda n: n == 2, "two")
    open_ = sees("m", bool, "some")

    assert all_of(yes, keeps_all())(folder).outcome is Outcome.CONFIRMED
    assert all_of(yes, open_)(folder).outcome is Outcome.UNKNOWN
    assert all_of(yes, open_, no)(folder).outcome is Outcome.REFUTED
