"""How late this machine woke us while something was timed."""

import threading
import time
from types import TracebackType

from harness.core.wait import pause

_EVERY_S = 0.05


class Lateness:
    """Measures the longest delay of a thread that wants to wake up every 50 ms.

    A thread of ours and a broker's share the same processors: where ours was late, a broker's may
    have been, and a time measured meanwhile proves no more than that allows. Use it as a context.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._longest_s = 0.0
        self._thread = threading.Thread(target=self._wake_up, daemon=True, name="lateness")

    @property
    def longest_s(self) -> float:
        """The longest delay so far, seconds."""
        return self._longest_s

    def __enter__(self) -> "Lateness":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _wake_up(self) -> None:
        due = time.monotonic() + _EVERY_S
        while not pause(max(0.0, due - time.monotonic()), self._stop):
            now = time.monotonic()
            self._longest_s = max(self._longest_s, now - due)
            due = now + _EVERY_S
