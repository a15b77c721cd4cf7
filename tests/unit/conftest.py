"""What tests of the command line share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main as cli

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Invoke:
    """Run the command line in an empty folder; return exit code, stdout, and stderr in one line."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kafka-chaos", *words])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capfd.readouterr()
        return int(exit_.value.code or 0), out, " ".join(err.split())

    return run
