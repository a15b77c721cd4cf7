"""What tests of the command line share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main as cli

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke_raw(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Invoke:
    """Run the command line in an empty folder and return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", *words])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capfd.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


@pytest.fixture
def invoke(invoke_raw: Invoke) -> Invoke:
    """Run the command line likewise; stderr comes in one line, however it was wrapped."""

    def run(*words: str) -> tuple[int, str, str]:
        code, out, err = invoke_raw(*words)
        return code, out, " ".join(err.split())

    return run


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no container engine."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
