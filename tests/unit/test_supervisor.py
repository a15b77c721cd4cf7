"""The first process of a broker container, run here around a harmless program."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.core.wait import wait_until
from harness.machine.images import compose_folder


@dataclass
class Supervised:
    """A running supervisor and its folder."""

    process: subprocess.Popen[bytes]
    folder: Path

    def child(self) -> int | None:
        """Return the pid of the program below it, once it has become that program."""
        for pid in self._children():
            # At first there are others, mkfifo for one, which may be gone by now.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "tail":
                    return pid
        return None

    def _children(self) -> list[int]:
        own = self.process.pid
        return [int(word) for word in Path(f"/proc/{own}/task/{own}/children").read_text().split()]

    def await_child(self, *, other_than: int | None = None) -> int:
        def seen() -> int | None:
            child = self.child()
            return None if child == other_than else child

        return wait_until(seen, timeout_s=120, what="the program", interval_s=0.01) or 0

    def tell(self, wish: str) -> None:
        with (self.folder / "wishes").open("w") as fifo:
            fifo.write(f"{wish}\n")

    def await_wish(self, wish: str) -> None:
        path = self.folder / "wish"
        wait_until(
            lambda: path.exists() and path.read_text().strip() == wish,
            timeout_s=120,
            what=f"the wish {wish}",
            interval_s=0.01,
        )

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def exits(self) -> list[int]:
        path = self.folder / "exits"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["status"] for line in lines]


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    program = [str(compose_folder() / "broker" / "supervisor"), "tail", "-f", "/dev/null"]
    environment = os.environ | {"KC_RUN_FOLDER": str(tmp_path)}
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(program, env=environment, stdout=said) as process,
    ):
        running = Supervised(process, tmp_path)
        try:
            running.await_child()
            yield running
        finally:
            process.terminate()


def test_a_program_that_died_is_not_started_again_by_itself(supervised: Supervised) -> None:
    os.kill(supervised.await_child(), signal.SIGKILL)
    supervised.await_wish("down")

    assert supervised.child() is None
    assert supervised.exits() == [137]
    assert supervised.process.poll() is None


def test_a_program_that_died_is_started_when_told(supervised: Supervised) -> None:
    first = supervised.await_child()
    os.kill(first, signal.SIGKILL)
    supervised.await_wish("down")

    supervised.tell("up")

    assert supervised.await_child(other_than=first) != first


def test_a_program_that_runs_is_not_started_twice(supervised: Supervised) -> None:
    first = supervised.await_child()

    supervised.tell("up")
    supervised.tell("down")
    supervised.await_wish("down")

    assert supervised.child() == first


def test_no_wish_is_lost_among_many(supervised: Supervised) -> None:
    for _ in range(200):
        supervised.tell("up")
        supervised.tell("down")
    supervised.tell("no word of ours")

    wait_until(
        lambda: "not understood: no word of ours" in supervised.said(),
        timeout_s=120,
        what="the last wish",
        interval_s=0.01,
    )
    assert supervised.said().count("not understood") == 1


def test_a_stop_reaches_even_a_frozen_program(supervised: Supervised) -> None:
    os.kill(supervised.await_child(), signal.SIGSTOP)

    supervised.process.terminate()

    assert supervised.process.wait(timeout=120) == 0
    assert supervised.exits() == [143]
