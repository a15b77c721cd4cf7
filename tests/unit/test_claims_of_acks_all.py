"""Each claim about what acks=all protects: what would confirm it, and what would refute it."""

from pathlib import Path

import pytest

from harness.lab.claim import Outcome
from tests.unit.seen_folder import SeenFolder

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


@pytest.fixture
def seen(tmp_path: Path) -> SeenFolder:
    """Return an empty folder of a run on the newest Kafka."""
    return SeenFolder(tmp_path)


# -- 20 --------------------------------------------------------------------------------------------

_DOWN = "leader while the last in-sync replica is down"


def test_a_single_copy_that_loses_power_confirms(seen: SeenFolder) -> None:
    seen.batch("kept", 5)
    seen.lose(seen.batch("doomed", 5))
    seen.fact(_DOWN, None)

    assert seen.outcome("acksall-minisr1-shrinks-to-self") is CONFIRMED


def test_a_single_copy_that_survives_the_power_cut_refutes(seen: SeenFolder) -> None:
    seen.batch("kept", 5)
    seen.batch("doomed", 5)
    seen.fact(_DOWN, None)

    assert seen.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


def test_a_crash_that_loses_refutes(seen: SeenFolder) -> None:
    seen.lose(seen.batch("kept", 5)[:1] + seen.batch("doomed", 5))
    seen.fact(_DOWN, None)

    assert seen.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


def test_another_leader_while_the_only_copy_is_down_refutes(seen: SeenFolder) -> None:
    seen.lose(seen.batch("doomed", 5))
    seen.fact(_DOWN, 0.5)

    assert seen.outcome("acksall-minisr1-shrinks-to-self") is REFUTED


# -- 21 --------------------------------------------------------------------------------------------


def test_a_long_run_without_loss_confirms(seen: SeenFolder) -> None:
    seen.batch("soak", 100_000)

    assert seen.outcome("acksall-minisr2-no-loss") is CONFIRMED


def test_one_lost_record_of_a_long_run_refutes(seen: SeenFolder) -> None:
    seen.lose(seen.batch("soak", 100_000)[-1:])

    assert seen.outcome("acksall-minisr2-no-loss") is REFUTED


def test_a_short_run_without_loss_proves_nothing(seen: SeenFolder) -> None:
    seen.batch("soak", 99_999)

    assert seen.outcome("acksall-minisr2-no-loss") is UNKNOWN


# -- 51 --------------------------------------------------------------------------------------------


def test_idempotence_is_confirmed_if_the_damage_repeats_the_others_only(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("plain", 5), kind="log")
    seen.batch("idempotent", 5)
    seen.batch("killed", 5)

    assert seen.outcome("idempotence-no-duplicates") is CONFIRMED


def test_idempotence_is_refuted_by_a_duplicate(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("plain", 5), kind="log")
    seen.anomaly("duplicate", seen.batch("idempotent", 5)[:1], kind="log")
    seen.batch("killed", 5)

    assert seen.outcome("idempotence-no-duplicates") is REFUTED


def test_idempotence_is_refuted_by_another_order(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("plain", 5), kind="log")
    seen.batch("idempotent", 5)
    seen.anomaly("nonmonotonic-send", seen.batch("killed", 5)[:1], kind="order")

    assert seen.outcome("idempotence-no-duplicates") is REFUTED


def test_idempotence_is_unknown_if_the_damage_repeats_nobody(seen: SeenFolder) -> None:
    for name in ("plain", "idempotent", "killed"):
        seen.batch(name, 5)

    assert seen.outcome("idempotence-no-duplicates") is UNKNOWN
