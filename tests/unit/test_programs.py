"""Programs that take too long are ended, and so are their children."""

import os
import stat
from pathlib import Path

import pytest

from harness.cluster.containers import Compose
from harness.core.errors import ClusterBroken, EnvironmentBroken
from harness.core.wait import wait_until
from harness.machine.programs import run


def slow_program(folder: Path) -> Path:
    """Return a program that leaves its work to a child, as `docker compose` does."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\nsleep 300 &\necho $! > {folder}/child\nwait\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return program


def assert_no_child(folder: Path) -> None:
    pid = int((folder / "child").read_text())
    wait_until(lambda: not _is_alive(pid), timeout_s=30, what="the child to end", interval_s=0.01)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    # In a container without an init nobody may reap it.
    return state != "Z"


def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentBroken, match=r"did not end within 0\.3 s and was killed"):
        run([str(slow_program(tmp_path))], timeout_s=0.3)

    assert_no_child(tmp_path)


def test_compose_does_not_go_on_when_its_time_is_over(tmp_path: Path) -> None:
    compose = Compose(
        tmp_path, compose_file_name="compose.yaml", pull=False, wait=False, limit_s=0.3,
        docker_command_path=str(slow_program(tmp_path)),
    )  # fmt: skip

    with pytest.raises(ClusterBroken, match="up --detach` did not end within"):
        compose.start()

    assert_no_child(tmp_path)


def test_what_compose_complains_of_is_explained(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    words = 'The container name "/kafka-1" is already in use by container 4f'
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    program.chmod(0o755)
    compose = Compose(tmp_path, compose_file_name="c.yaml", docker_command_path=str(program))

    with pytest.raises(ClusterBroken, match="The container name kafka-1 that the Compose file"):
        compose.stop()


def test_what_a_program_writes_and_how_it_ended_is_returned(tmp_path: Path) -> None:
    done = run(["sh", "-c", "pwd; echo no >&2; exit 3"], timeout_s=30, folder=tmp_path)

    assert (done.returncode, done.stderr) == (3, "no\n")
    assert os.path.samefile(done.stdout.strip(), tmp_path)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(EnvironmentBroken, match="no-such-program is not there"):
        run(["no-such-program"], timeout_s=1)
