"""Preconditions: what a script waits for before it goes on."""

import threading
from collections.abc import Callable

from harness.core.errors import PreconditionUnmet, WaitTimeout
from harness.core.wait import wait_until

WAIT_S = 60.0
"""The longest that a state is waited for unless a script says otherwise, seconds."""
POLL_S = 0.05
"""How often the lab looks, seconds."""


def await_precondition(
    condition: Callable[[], object],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = POLL_S,
    stop: threading.Event | None = None,
) -> None:
    """Wait for what a script needs.

    Raises:
        PreconditionUnmet: it did not come true, so nothing can be concluded from this run.
    """
    try:
        wait_until(condition, timeout_s=timeout_s, interval_s=interval_s, what=what, stop=stop)
    except WaitTimeout as error:
        raise PreconditionUnmet(str(error)) from error
