"""What the suites tell at their end: which waits a busier machine would break."""

import logging

import pytest

_close_waits: list[str] = []


class _CloseWaits(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _close_waits.append(record.getMessage())


def pytest_configure(config: pytest.Config) -> None:
    waits = logging.getLogger("harness.core.wait")
    waits.setLevel(logging.INFO)
    waits.addHandler(_CloseWaits())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _close_waits:
        terminalreporter.section("waits that needed most of their limit")
        for line in _close_waits:
            terminalreporter.write_line(line)
