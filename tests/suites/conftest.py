"""What suites share, and tell at their end: which waits a busier machine would break."""

import logging
import os
import subprocess
from pathlib import Path

import pytest

from harness.machine.images import DEFAULT_KAFKA, broker_image, ensure_broker_image

HERE = Path(__file__).resolve().parent
FOREIGN_IMAGE = "kafka-chaos/plain-broker:suite"

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


@pytest.fixture(scope="module")
def foreign_image() -> str:
    """An image as others publish them: no supervisor of ours, a user that is not root."""
    return build_foreign_image(DEFAULT_KAFKA)


def build_foreign_image(kafka: str) -> str:
    """Build such an image of a version of Kafka, and return its name."""
    ensure_broker_image(kafka, say=print)
    name = f"{FOREIGN_IMAGE}-{kafka}"
    subprocess.run(
        ["docker", "build", "--tag", name, "--label", "kafka-chaos=1",
         "--build-arg", f"BASE={broker_image(kafka)}", str(HERE / "plain_broker")],
        check=True, timeout=600, env={**os.environ, "DOCKER_BUILDKIT": "0"},
    )  # fmt: skip
    return name
