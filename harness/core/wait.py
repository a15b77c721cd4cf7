"""The only way to wait: for a condition, with a limit, on the monotonic clock."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from harness.core.errors import WaitTimeout

T = TypeVar("T")

log = logging.getLogger(__name__)

_LOOK_AT_OTHER_S = 0.1
_WORTH_TELLING = 0.5
"""A wait that took more than this share of its limit is told of, before it takes all of it."""


class StopOf(threading.Event):
    """An event that is set when it is set itself, or another one is.

    Args:
        other: that other one.
    """

    def __init__(self, other: threading.Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        """Return whether one of both is set."""
        return super().is_set() or self._other.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until one of both is set, at most so many seconds; return whether one is."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left_s = _LOOK_AT_OTHER_S if end is None else end - time.monotonic()
            if left_s <= 0:
                return False
            super().wait(min(_LOOK_AT_OTHER_S, left_s))
        return True


def wait_until(
    condition: Callable[[], T | None],
    *,
    timeout_s: float,
    what: str,
    interval_s: float = 0.1,
    stop: threading.Event | None = None,
) -> T:
    """Return the first truthy value of the condition.

    Args:
        condition: asked at least once, then every `interval_s`.
        timeout_s: the limit in seconds; a condition that is asked in time may answer late.
        what: what is waited for, as a noun phrase: it stands in the error.
        interval_s: pause between two questions, in seconds.
        stop: when set, the wait ends at once.

    Raises:
        WaitTimeout: the limit passed, or `stop` was set; the message says which, how long was
            waited, and the last value of the condition.
    """
    begin = time.monotonic()
    pause = stop or threading.Event()
    while True:
        value = condition()
        waited_s = time.monotonic() - begin
        if value:
            if waited_s > _WORTH_TELLING * timeout_s:
                log.info("waited %.1f of at most %g s for %s", waited_s, timeout_s, what)
            return value
        if waited_s >= timeout_s:
            raise WaitTimeout(f"Waited {timeout_s:g} s for {what}; last seen: {value!r}.")
        if pause.wait(min(interval_s, timeout_s - waited_s)):
            waited_s = time.monotonic() - begin
            raise WaitTimeout(
                f"Stopped waiting for {what} after {waited_s:.1f} of {timeout_s:g} s; "
                f"last seen: {value!r}."
            )


def pause(seconds: float, stop: threading.Event | None = None) -> bool:
    """Let time pass; return True if `stop` was set meanwhile.

    For the steps of a schedule, where the passing of time is the point itself.
    """
    return (stop or threading.Event()).wait(max(0.0, seconds))
