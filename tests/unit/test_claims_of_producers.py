"""Each claim about acks, refusals and retries: what would confirm it, and what would refute it."""

from pathlib import Path

import pytest

from harness.lab.claim import Outcome
from tests.unit.seen_folder import SeenFolder

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


@pytest.fixture
def seen(tmp_path: Path) -> SeenFolder:
    """Return an empty folder of a run on the newest Kafka."""
    return SeenFolder(tmp_path)


# -- 17 --------------------------------------------------------------------------------------------


def test_acks_0_is_confirmed_by_the_loss_of_what_was_sent_without_an_offset(
    seen: SeenFolder,
) -> None:
    seen.batch("waited", 5)
    seen.lose(seen.batch("sent", 5, offsets=False))
    seen.fact("offset of a record that was sent", None)

    assert seen.outcome("acks0-loss") is CONFIRMED


def test_acks_0_is_refuted_if_nothing_is_lost(seen: SeenFolder) -> None:
    seen.batch("sent", 5, offsets=False)
    seen.fact("offset of a record that was sent", None)

    assert seen.outcome("acks0-loss") is REFUTED


def test_acks_0_is_refuted_if_the_producer_learns_an_offset(seen: SeenFolder) -> None:
    seen.lose(seen.batch("sent", 5))
    seen.fact("offset of a record that was sent", 7)

    assert seen.outcome("acks0-loss") is REFUTED


def test_acks_0_is_refuted_if_acks_1_loses_too(seen: SeenFolder) -> None:
    seen.lose(seen.batch("sent", 5, offsets=False) + seen.batch("waited", 1))
    seen.fact("offset of a record that was sent", None)

    assert seen.outcome("acks0-loss") is REFUTED


def test_acks_0_is_unknown_if_the_log_was_not_read_to_its_end(seen: SeenFolder) -> None:
    seen.batch("sent", 5, offsets=False)
    seen.fact("offset of a record that was sent", None)
    seen.is_read = False

    assert seen.outcome("acks0-loss") is UNKNOWN


# -- 22 --------------------------------------------------------------------------------------------


def refused(
    seen: SeenFolder,
    *,
    error: str = "NOT_ENOUGH_REPLICAS",
    appended: int = 0,
    beyond: str = "info",
) -> None:
    """Write a run in which acks=all was refused."""
    seen.batch("before", 5)
    if beyond == "ok":
        seen.batch("beyond", 5)
    else:
        seen.batch("beyond", 5, outcome="info", error="NOT_ENOUGH_REPLICAS")
    seen.skip(appended)
    seen.batch("all", 5, outcome="info", error=error)
    seen.batch("one", 5)
    seen.batch("none", 5, offsets=False)


@pytest.mark.parametrize(
    ("kafka", "beyond", "outcome"),
    [
        ("3.6.2", "info", CONFIRMED),
        ("3.6.2", "ok", REFUTED),
        ("3.7.0", "ok", CONFIRMED),
    ],
)
def test_a_refusal_that_leaves_nothing_in_the_log_confirms(
    tmp_path: Path, kafka: str, beyond: str, outcome: Outcome
) -> None:
    seen = SeenFolder(tmp_path, kafka=kafka)
    refused(seen, beyond=beyond)

    assert seen.outcome("minisr-refusal") is outcome


def test_replicas_that_a_partition_does_not_have_are_asked_for_until_3_6_only(
    tmp_path: Path,
) -> None:
    seen = SeenFolder(tmp_path, kafka="3.7.0")
    refused(seen)

    assert seen.outcome("minisr-refusal") is not CONFIRMED


def test_a_refusal_that_took_offsets_refutes(seen: SeenFolder) -> None:
    refused(seen, appended=5, beyond="ok")

    assert seen.outcome("minisr-refusal") is REFUTED


def test_another_error_than_not_enough_replicas_refutes(seen: SeenFolder) -> None:
    refused(seen, error="REQUEST_TIMED_OUT", beyond="ok")

    assert seen.outcome("minisr-refusal") is REFUTED


def test_an_acknowledgement_below_the_minimum_refutes(seen: SeenFolder) -> None:
    for name in ("before", "beyond", "all", "one", "none"):
        seen.batch(name, 5)

    assert seen.outcome("minisr-refusal") is REFUTED


# -- 23 --------------------------------------------------------------------------------------------

_READ = "records read before the follower is back"


@pytest.mark.parametrize(
    ("kafka", "error", "read", "outcome"),
    [
        ("3.6.2", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 14, CONFIRMED),
        ("3.6.2", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 12, REFUTED),
        ("3.6.2", "REQUEST_TIMED_OUT", 14, REFUTED),
        ("2.6.3", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 14, CONFIRMED),
        ("2.8.2", "REQUEST_TIMED_OUT", 12, CONFIRMED),
        ("2.8.2", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 14, REFUTED),
        ("3.7.0", "REQUEST_TIMED_OUT", 12, CONFIRMED),
        ("3.7.0", "REQUEST_TIMED_OUT", 14, REFUTED),
        ("3.7.0", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 12, REFUTED),
    ],
)
def test_what_an_append_ends_in_when_the_isr_shrinks_changed_in_3_7(
    tmp_path: Path, kafka: str, error: str, read: int, outcome: Outcome
) -> None:
    seen = SeenFolder(tmp_path, kafka)
    seen.batch("shared", 10)
    seen.batch("single", 1, outcome="info", error=error, there=True)
    seen.anomaly("duplicate", seen.batch("retried", 1), kind="log")
    seen.fact(_READ, read)

    assert seen.outcome("not-enough-after-append") is outcome


def test_an_append_in_doubt_that_is_not_in_the_log_refutes(seen: SeenFolder) -> None:
    seen.batch("single", 1, outcome="info", error="REQUEST_TIMED_OUT")
    seen.anomaly("duplicate", seen.batch("retried", 1), kind="log")
    seen.fact(_READ, 12)

    assert seen.outcome("not-enough-after-append") is REFUTED


def test_an_append_that_was_called_failed_refutes(seen: SeenFolder) -> None:
    seen.batch("single", 1, outcome="fail", error="REQUEST_TIMED_OUT", there=True)
    seen.anomaly("duplicate", seen.batch("retried", 1), kind="log")
    seen.fact(_READ, 12)

    assert seen.outcome("not-enough-after-append") is REFUTED


# -- 25 --------------------------------------------------------------------------------------------


def test_a_deposed_leader_that_acknowledges_with_acks_1_confirms(seen: SeenFolder) -> None:
    seen.lose(seen.batch("queued 1", 5)[:2])
    seen.batch("queued 2", 5)
    seen.batch("waiting 1", 5)

    finding = seen.judge("zombie-leader-acks1-truncated")

    assert finding.outcome is CONFIRMED
    assert "1 of 2 samples" in finding.words


def test_a_deposed_leader_that_loses_acks_all_refutes(seen: SeenFolder) -> None:
    seen.lose(seen.batch("queued 1", 5) + seen.batch("waiting 1", 5))
    seen.batch("queued 2", 5)

    assert seen.outcome("zombie-leader-acks1-truncated") is REFUTED


def test_a_deposed_leader_that_acknowledged_nothing_proves_nothing(seen: SeenFolder) -> None:
    seen.batch("queued 1", 5)
    seen.batch("queued 2", 5)

    assert seen.outcome("zombie-leader-acks1-truncated") is UNKNOWN


# -- 26 and 27 -------------------------------------------------------------------------------------

_STALE = "leader while only the stale replica runs"


def test_a_partition_that_waits_for_its_last_replica_confirms(seen: SeenFolder) -> None:
    seen.batch("alone", 5)
    seen.batch("refused", 5, outcome="info", error="_MSG_TIMED_OUT")
    seen.fact(_STALE, None)

    assert seen.outcome("unclean-off-unavailable") is CONFIRMED


def test_a_stale_leader_refutes_that_unclean_election_is_off(seen: SeenFolder) -> None:
    seen.lose(seen.batch("alone", 5))
    seen.batch("refused", 5)
    seen.fact(_STALE, 1.5)

    assert seen.outcome("unclean-off-unavailable") is REFUTED


@pytest.mark.parametrize(
    ("kafka", "led_after_s", "outcome"),
    [
        ("2.8.2", 1.5, CONFIRMED),
        ("2.8.2", None, REFUTED),
        ("3.6.2", None, CONFIRMED),
        ("3.6.2", 1.5, REFUTED),
        ("4.3.1", 1.5, CONFIRMED),
        ("4.3.1", None, REFUTED),
    ],
)
def test_kraft_elects_uncleanly_by_itself_since_3_9_only(
    tmp_path: Path, kafka: str, led_after_s: float | None, outcome: Outcome
) -> None:
    seen = SeenFolder(tmp_path, kafka)
    seen.lose(seen.batch("alone", 5))
    seen.fact("seconds until the stale replica led by itself", led_after_s)

    assert seen.outcome("unclean-on-loses") is outcome


def test_an_unclean_election_that_loses_nothing_refutes(seen: SeenFolder) -> None:
    seen.batch("alone", 5)
    seen.fact("seconds until the stale replica led by itself", 1.5)

    assert seen.outcome("unclean-on-loses") is REFUTED


# -- 50 and 52 -----------------------------------------------------------------------------------


def test_a_retry_that_repeats_confirms(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("late", 5) + seen.batch("unheard", 5)[:1], kind="log")

    assert seen.outcome("retry-duplicates-no-idempotence") is CONFIRMED


def test_a_retry_that_does_not_repeat_after_one_of_the_damages_refutes(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("late", 5), kind="log")
    seen.batch("unheard", 5)

    assert seen.outcome("retry-duplicates-no-idempotence") is REFUTED


def test_a_retry_that_loses_refutes(seen: SeenFolder) -> None:
    seen.anomaly("duplicate", seen.batch("late", 5), kind="log")
    values = seen.batch("unheard", 5)
    seen.anomaly("duplicate", values[:4], kind="log")
    seen.lose(values[4:])

    assert seen.outcome("retry-duplicates-no-idempotence") is REFUTED


def pipelined(seen: SeenFolder, *passed: str) -> None:
    """Write a run in which these passed what was sent before them."""
    for kind in ("pipelined", "one at a time", "idempotent"):
        seen.batch(f"first {kind}", 1)
        values = seen.batch(f"second {kind}", 1)
        if kind in passed:
            seen.anomaly("nonmonotonic-send", values, kind="order")


@pytest.mark.parametrize(
    ("passed", "outcome"),
    [
        (("pipelined",), CONFIRMED),
        ((), REFUTED),
        (("pipelined", "one at a time"), REFUTED),
        (("pipelined", "idempotent"), REFUTED),
    ],
)
def test_only_what_is_pipelined_without_idempotence_may_pass(
    seen: SeenFolder, passed: tuple[str, ...], outcome: Outcome
) -> None:
    pipelined(seen, *passed)

    assert seen.outcome("inflight-reorder") is outcome
