"""A process gives way as far as it was told, and takes its own session with it, no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.core.niceness import give_way

TOLD = "import os, sys; from harness.core.niceness import give_way; give_way(7); "
NICENESS = TOLD + "print(os.nice(0))"
AUTOGROUP = TOLD + "print(open('/proc/self/autogroup').read())"


def has_autogroups() -> bool:
    file = Path("/proc/self/autogroup")
    return file.exists() and "nice" in file.read_text()


def say(program: str, *, own_session: bool) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        start_new_session=own_session,
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_process_is_as_nice_as_it_was_told() -> None:
    assert int(say(NICENESS, own_session=False)) == min(os.nice(0) + 7, 19)


@pytest.mark.skipif(not has_autogroups(), reason="this kernel has no autogroups")
@pytest.mark.parametrize("own_session", [True, False])
def test_a_session_gives_way_with_the_process_that_leads_it(own_session: bool) -> None:
    assert say(AUTOGROUP, own_session=own_session).endswith("nice 7") is own_session


def test_a_kernel_without_autogroups_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda niceness: niceness)
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())

    def missing(*_: object, **__: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "write_text", missing)

    give_way(7)
