"""Each claim about what acks=all protects: what would confirm it, and what would refute it."""

from pathlib import Path

import pytest

from harness.lab.finding import Outcome
from tests.unit.recorded_folder import RecordedFolder

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


@pytest.fixture
def run(tmp_path: Path) -> RecordedFolder:
    """Return an empty folder of a run on the newest Kafka."""
    return RecordedFolder(tmp_path)


# -- 20 --------------------------------------------------------------------------------------------

_DOWN = "leader while the last in-sync replica is down"


def test_a_single_copy_that_loses_power_confirms(run: RecordedFolder) -> None:
    run.batch("kept", 5)
    run.lose(run.batch("doomed", 5))
    run.fact(_DOWN, None)

    assert run.outcome("acksall-minisr1-shrinks-to-self") is CONFIRMED


def test_a_single_copy_that_survives_the_power_cut_refutes(run: RecordedFolder) -> None:
    run.batch("kept", 5)
    run.batch("doomed", 5)
    run.fact(_DOWN, None)

    assert run.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


def test_a_crash_that_loses_refutes(run: RecordedFolder) -> None:
    run.lose(run.batch("kept", 5)[:1] + run.batch("doomed", 5))
    run.fact(_DOWN, None)

    assert run.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


def test_another_leader_while_the_only_copy_is_down_refutes(run: RecordedFolder) -> None:
    run.lose(run.batch("doomed", 5))
    run.fact(_DOWN, 0.5)

    assert run.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


# -- 21 --------------------------------------------------------------------------------------------


def test_a_long_run_without_loss_confirms(run: RecordedFolder) -> None:
    run.batch("soak", 100_000)

    assert run.outcome("acksall-minisr2-no-loss") is CONFIRMED


def test_one_lost_record_of_a_long_run_refutes(run: RecordedFolder) -> None:
    run.lose(run.batch("soak", 100_000)[-1:])

    assert run.outcome("acksall-minisr2-no-loss") is REFUTED


def test_a_short_run_without_loss_proves_nothing(run: RecordedFolder) -> None:
    run.batch("soak", 99_999)

    assert run.outcome("acksall-minisr2-no-loss") is UNKNOWN


# -- 51 --------------------------------------------------------------------------------------------


def test_idempotence_is_confirmed_if_the_damage_repeats_the_others_only(
    run: RecordedFolder,
) -> None:
    run.anomaly("duplicate", run.batch("plain", 5), kind="log")
    run.batch("idempotent", 5)
    run.batch("killed", 5)

    assert run.outcome("idempotence-no-duplicates") is CONFIRMED


def test_idempotence_is_refuted_by_a_duplicate(run: RecordedFolder) -> None:
    run.anomaly("duplicate", run.batch("plain", 5), kind="log")
    run.anomaly("duplicate", run.batch("idempotent", 5)[:1], kind="log")
    run.batch("killed", 5)

    assert run.outcome("idempotence-no-duplicates") is REFUTED


def test_idempotence_is_refuted_by_another_order(run: RecordedFolder) -> None:
    run.anomaly("duplicate", run.batch("plain", 5), kind="log")
    run.batch("idempotent", 5)
    run.anomaly("nonmonotonic-send", run.batch("killed", 5)[:1], kind="order")

    assert run.outcome("idempotence-no-duplicates") is REFUTED


def test_idempotence_is_unknown_if_the_damage_repeats_nobody(run: RecordedFolder) -> None:
    for name in ("plain", "idempotent", "killed"):
        run.batch(name, 5)

    assert run.outcome("idempotence-no-duplicates") is UNKNOWN
