"""Each claim about acks, refusals and retries: what would confirm it, and what would refute it."""

from pathlib import Path

import pytest

from harness.lab.finding import Outcome
from tests.unit.recorded_folder import RecordedFolder

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


@pytest.fixture
def run(tmp_path: Path) -> RecordedFolder:
    """Return an empty folder of a run on the newest Kafka."""
    return RecordedFolder(tmp_path)


# -- 17 --------------------------------------------------------------------------------------------


def test_acks_0_is_confirmed_by_the_loss_of_what_was_sent_without_an_offset(
    run: RecordedFolder,
) -> None:
    run.batch("waited", 5)
    run.lose(run.batch("sent", 5, offsets=False))
    run.fact("offset of a record that was sent", None)

    assert run.outcome("acks0-loss") is CONFIRMED


def test_acks_0_is_refuted_if_nothing_is_lost(run: RecordedFolder) -> None:
    run.batch("sent", 5, offsets=False)
    run.fact("offset of a record that was sent", None)

    assert run.outcome("acks0-loss") is REFUTED


def test_acks_0_is_refuted_if_the_producer_learns_an_offset(run: RecordedFolder) -> None:
    run.lose(run.batch("sent", 5))
    run.fact("offset of a record that was sent", 7)

    assert run.outcome("acks0-loss") is REFUTED


def test_acks_0_is_refuted_if_acks_1_loses_too(run: RecordedFolder) -> None:
    run.lose(run.batch("sent", 5, offsets=False) + run.batch("waited", 1))
    run.fact("offset of a record that was sent", None)

    assert run.outcome("acks0-loss") is REFUTED


def test_acks_0_is_unknown_if_the_log_was_not_read_to_its_end(run: RecordedFolder) -> None:
    run.batch("sent", 5, offsets=False)
    run.fact("offset of a record that was sent", None)
    run.is_read = False

    assert run.outcome("acks0-loss") is UNKNOWN


# -- 22 --------------------------------------------------------------------------------------------


def refused(
    run: RecordedFolder,
    *,
    error: str = "NOT_ENOUGH_REPLICAS",
    appended: int = 0,
    beyond: str = "info",
) -> None:
    """Write a run in which acks=all was refused."""
    run.batch("before", 5)
    if beyond == "ok":
        run.batch("beyond", 5)
    else:
        run.batch("beyond", 5, outcome="info", error="NOT_ENOUGH_REPLICAS")
    run.skip(appended)
    run.batch("all", 5, outcome="info", error=error)
    run.batch("one", 5)
    run.batch("none", 5, offsets=False)


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
    run = RecordedFolder(tmp_path, kafka=kafka)
    refused(run, beyond=beyond)

    assert run.outcome("minisr-refusal") is outcome


def test_replicas_that_a_partition_does_not_have_are_asked_for_until_3_6_only(
    tmp_path: Path,
) -> None:
    run = RecordedFolder(tmp_path, kafka="3.7.0")
    refused(run)

    assert run.outcome("minisr-refusal") is not CONFIRMED


def test_a_refusal_that_took_offsets_refutes(run: RecordedFolder) -> None:
    refused(run, appended=5, beyond="ok")

    assert run.outcome("minisr-refusal") is REFUTED


def test_another_error_than_not_enough_replicas_refutes(run: RecordedFolder) -> None:
    refused(run, error="REQUEST_TIMED_OUT", beyond="ok")

    assert run.outcome("minisr-refusal") is REFUTED


def test_an_acknowledgement_below_the_minimum_refutes(run: RecordedFolder) -> None:
    for name in ("before", "beyond", "all", "one", "none"):
        run.batch(name, 5)

    assert run.outcome("minisr-refusal") is REFUTED


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
    run = RecordedFolder(tmp_path, kafka)
    run.batch("shared", 10)
    run.batch("single", 1, outcome="info", error=error, there=True)
    run.anomaly("duplicate", run.batch("retried", 1), kind="log")
    run.fact(_READ, read)

    assert run.outcome("not-enough-after-append") is outcome


def test_an_append_in_doubt_that_is_not_in_the_log_refutes(run: RecordedFolder) -> None:
    run.batch("single", 1, outcome="info", error="REQUEST_TIMED_OUT")
    run.anomaly("duplicate", run.batch("retried", 1), kind="log")
    run.fact(_READ, 12)

    assert run.outcome("not-enough-after-append") is REFUTED


def test_an_append_that_was_called_failed_refutes(run: RecordedFolder) -> None:
    run.batch("single", 1, outcome="fail", error="REQUEST_TIMED_OUT", there=True)
    run.anomaly("duplicate", run.batch("retried", 1), kind="log")
    run.fact(_READ, 12)

    assert run.outcome("not-enough-after-append") is REFUTED


# -- 25 --------------------------------------------------------------------------------------------


def test_a_deposed_leader_that_acknowledges_with_acks_1_confirms(run: RecordedFolder) -> None:
    run.lose(run.batch("queued 1", 5)[:2])
    run.batch("queued 2", 5)
    run.batch("waiting 1", 5)

    finding = run.judge("zombie-leader-acks1-truncated")

    assert finding.outcome is CONFIRMED
    assert "1 of 2 samples" in finding.words


def test_a_deposed_leader_that_loses_acks_all_refutes(run: RecordedFolder) -> None:
    run.lose(run.batch("queued 1", 5) + run.batch("waiting 1", 5))
    run.batch("queued 2", 5)

    assert run.outcome("zombie-leader-acks1-truncated") is REFUTED


def test_a_deposed_leader_that_acknowledged_nothing_proves_nothing(
    run: RecordedFolder,
) -> None:
    run.batch("queued 1", 5)
    run.batch("queued 2", 5)

    assert run.outcome("zombie-leader-acks1-truncated") is UNKNOWN


# -- 26 and 27 -------------------------------------------------------------------------------------

_STALE = "leader while only the stale replica runs"


def test_a_partition_that_waits_for_its_last_replica_confirms(run: RecordedFolder) -> None:
    run.batch("alone", 5)
    run.batch("refused", 5, outcome="info", error="_MSG_TIMED_OUT")
    run.fact(_STALE, None)

    assert run.outcome("unclean-off-unavailable") is CONFIRMED


def test_a_stale_leader_refutes_that_unclean_election_is_off(run: RecordedFolder) -> None:
    run.lose(run.batch("alone", 5))
    run.batch("refused", 5)
    run.fact(_STALE, 1.5)

    assert run.outcome("unclean-off-unavailable") is REFUTED


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
    run = RecordedFolder(tmp_path, kafka)
    run.lose(run.batch("alone", 5))
    run.fact("seconds until the stale replica led by itself", led_after_s)

    assert run.outcome("unclean-on-loses") is outcome


def test_an_unclean_election_that_loses_nothing_refutes(run: RecordedFolder) -> None:
    run.batch("alone", 5)
    run.fact("seconds until the stale replica led by itself", 1.5)

    assert run.outcome("unclean-on-loses") is REFUTED


# -- 50 and 52 -----------------------------------------------------------------------------------


def test_a_retry_that_repeats_confirms(run: RecordedFolder) -> None:
    run.anomaly("duplicate", run.batch("late", 5) + run.batch("unheard", 5)[:1], kind="log")

    assert run.outcome("retry-duplicates-no-idempotence") is CONFIRMED


def test_a_retry_that_does_not_repeat_after_one_of_the_damages_refutes(
    run: RecordedFolder,
) -> None:
    run.anomaly("duplicate", run.batch("late", 5), kind="log")
    run.batch("unheard", 5)

    assert run.outcome("retry-duplicates-no-idempotence") is REFUTED


def test_a_retry_that_loses_refutes(run: RecordedFolder) -> None:
    run.anomaly("duplicate", run.batch("late", 5), kind="log")
    values = run.batch("unheard", 5)
    run.anomaly("duplicate", values[:4], kind="log")
    run.lose(values[4:])

    assert run.outcome("retry-duplicates-no-idempotence") is REFUTED


def pipelined(run: RecordedFolder, *passed: str) -> None:
    """Write a run in which these passed what was sent before them."""
    for kind in ("pipelined", "one at a time", "idempotent"):
        run.batch(f"first {kind}", 1)
        values = run.batch(f"second {kind}", 1)
        if kind in passed:
            run.anomaly("nonmonotonic-send", values, kind="order")


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
    run: RecordedFolder, passed: tuple[str, ...], outcome: Outcome
) -> None:
    pipelined(run, *passed)

    assert run.outcome("inflight-reorder") is outcome
