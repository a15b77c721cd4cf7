"""A watcher goes on after an error, and does not keep it to itself."""

from harness.core.wait import wait_until
from harness.run.group_watch import GroupView, GroupWatch
from harness.run.watcher import Watcher


def watched(*outcomes: Exception | None) -> Watcher:
    """Return a stopped watcher that has met these outcomes, one a repetition."""
    left = list(outcomes)

    def repeat() -> None:
        if left and (error := left.pop(0)):
            raise error

    watcher = Watcher("monitor", repeat, every_s=0.0)
    watcher.start()
    wait_until(lambda: not left, timeout_s=30, what="all repetitions", interval_s=0.001)
    assert watcher.stop()
    return watcher


def test_an_error_ends_one_repetition_and_is_told() -> None:
    watcher = watched(None, ValueError("no such leader"), None, KeyError("later"), None)

    assert watcher.failure == (
        "The monitor failed, so it may have missed something: ValueError('no such leader')."
    )


def test_a_watcher_without_errors_has_nothing_to_tell() -> None:
    assert watched(None, None).failure is None


def test_a_watcher_that_was_never_started_can_be_stopped() -> None:
    assert Watcher("monitor", lambda: None, every_s=1.0).stop()


def test_a_line_of_the_group_watch_that_is_no_answer_is_passed_over() -> None:
    answer = b'{"asked_ns": 1, "answered_ns": 2, "state": "EMPTY", "members": {}}\n'
    watch = GroupWatch.__new__(GroupWatch)

    watch.listen([b"%3|librdkafka: assert\n", b"{}\n", b"7\n", answer, b'{"asked_ns": 3, '])

    assert watch.view == GroupView(asked_ns=1, answered_ns=2, state="EMPTY", members={})
