"""The witness of a group: a process that may die, and goes on."""

import os
import signal

import pytest

from harness.core.access import Access
from harness.core.wait import wait_until
from harness.run.group_watch import GroupWatch


def test_a_process_that_dies_is_begun_anew_and_none_is_left_at_the_end() -> None:
    # Nobody listens there: no answer ever comes.
    watch = GroupWatch(Access("127.0.0.1:1"), "g")
    first = wait_until(lambda: watch.pid, timeout_s=120, what="the watching process")

    os.kill(first, signal.SIGKILL)
    second = wait_until(
        lambda: watch.pid if watch.pid != first else None, timeout_s=120, what="another one"
    )
    watch.close()

    assert (watch.deaths, watch.view) == (1, None)
    assert not os.path.exists(f"/proc/{second}")


def test_a_process_that_hangs_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.group_watch._SILENT_S", 0.0)
    watch = GroupWatch(Access("127.0.0.1:1"), "g")
    first = wait_until(lambda: watch.pid, timeout_s=120, what="the watching process")

    wait_until(lambda: watch.pid if watch.pid != first else None, timeout_s=120, what="another one")
    watch.close()

    assert watch.deaths >= 1


def test_a_process_that_asks_in_vain_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.group_watch._IN_VAIN_S", 1.0)
    watch = GroupWatch(Access("127.0.0.1:1"), "g")
    first = wait_until(lambda: watch.pid, timeout_s=120, what="the watching process")

    wait_until(lambda: watch.pid if watch.pid != first else None, timeout_s=120, what="another one")
    watch.close()

    assert watch.deaths >= 1
