"""What unit tests share: waits that do not wait."""

import threading
import time

import pytest


@pytest.fixture
def instant_time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let every wait pass at once, on a clock of the test's own; returns the clock, in seconds."""
    clock = [1000.0]

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        if not self.is_set():
            # A rest that is too small for the clock's last digit would never pass.
            clock[0] += max(timeout or 0.0, 1e-6)
        return self.is_set()

    monkeypatch.setattr(threading.Event, "wait", wait)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "monotonic_ns", lambda: int(clock[0] * 1e9))
    return clock
