"""Preconditions: what a script waits for before it goes on."""

import threading
from collections.abc import Callable

from harness.core.errors import PreconditionUnmet, WaitTimeout
from harness.core.wait import wait_until

WAIT_S = 60.0
"""How long a script waits for a precondition unless it says otherwise, seconds."""
POLL_S = 0.05
"""How often a condition is evaluated, seconds."""


def await_precondition(
    condition: Callable[[], object],
    *,
    what: str,
    timeout_s: float = WAIT_S,
    interval_s: float = POLL_S,
    stop: threading.Event | None = None,
) -> None:
    """Wait for a precondition of a script.

    Raises:
        PreconditionUnmet: it was not met in time, so this run shows nothing about the claim.
    """
    try:
        wait_until(condition, timeout_s=timeout_s, interval_s=interval_s, what=what, stop=stop)
    except WaitTimeout as error:
        raise PreconditionUnmet(str(error)) from error
