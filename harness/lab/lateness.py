"""How late this machine woke us while something was timed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.wait import pause

_EVERY_S = 0.05


@dataclass(slots=True)
class Lateness:
    """The longest delay so far of a thread that wants to wake up every 50 ms, seconds."""

    longest_s: float = 0.0


@contextmanager
def measured_lateness() -> Iterator[Lateness]:
    """Measure how late a thread of ours wakes up, as long as the context lasts.

    A thread of ours and a broker's share the same processors: where ours was late, a broker's may
    have been, and a time measured meanwhile proves no more than that allows.
    """
    lateness, stop = Lateness(), threading.Event()

    def wake_up() -> None:
        due = time.monotonic() + _EVERY_S
        while not pause(due - time.monotonic(), stop):
            now = time.monotonic()
            lateness.longest_s = max(lateness.longest_s, now - due)
            due = now + _EVERY_S

    thread = threading.Thread(target=wake_up, daemon=True, name="lateness")
    thread.start()
    try:
        yield lateness
    finally:
        stop.set()
        thread.join()
