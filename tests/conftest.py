"""What all tests share: how examples are drawn, which tests run where, waits that do not wait."""

import re
import threading
import time

import pytest
from hypothesis import HealthCheck, settings

from kafka_chaos.pytest_plugin import require_engine

# How fast examples come says how busy the machine is, and nothing about what is tested. And a gate
# asks of each change the same: what is drawn anew each time is drawn at night.
settings.register_profile(
    "gate",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "night", parent=settings.get_profile("gate"), derandomize=False, max_examples=1000
)
settings.load_profile("gate")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked nightly, unless -m names that mark or -k names its file."""
    if "nightly" in (config.getoption("-m") or ""):
        return
    named = set(re.findall(r"\w+", config.getoption("-k") or ""))
    left_out = [
        item
        for item in items
        if item.get_closest_marker("nightly") and item.path.stem.removeprefix("test_") not in named
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a Docker engine where there is none; under CI, fail them."""
    if item.get_closest_marker("docker"):
        require_engine()


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
