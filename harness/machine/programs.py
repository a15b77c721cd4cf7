"""Programs of the machine, run with a limit: nothing that we start may hang for ever."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.errors import EnvironmentBroken
from harness.core.progress import Say

_PROGRESS_S = 10.0


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short command and return how it ended; a failure is the caller's to judge.

    Args:
        command: program and arguments.
        timeout_s: limit in seconds; then it and its children are killed.
        folder: where it runs; None for where we are.
        variables: of its environment, beside ours.

    Raises:
        EnvironmentBroken: there is no such program, or it was too slow.
    """
    process = _start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        cwd=folder, env={**os.environ, **variables} if variables else None,
    )  # fmt: skip
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentBroken(
                f"`{' '.join(command)}` did not end within {timeout_s:g} s and was killed."
            ) from error
        finally:
            _kill(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _start(command: Sequence[str], **settings: Any) -> subprocess.Popen[Any]:  # noqa: ANN401 (of Popen)
    try:
        return subprocess.Popen(  # noqa: S603  # our own command lines, no shell
            command, stdin=subprocess.DEVNULL, start_new_session=True, **settings
        )
    except FileNotFoundError as error:
        raise EnvironmentBroken(
            f"The program {command[0]} is not there: `kafka-chaos doctor --fix` installs it."
        ) from error


def _kill(process: subprocess.Popen[Any]) -> None:
    """Kill what still runs of a program, its children too: `docker` runs Compose as a child."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_checked(command: Sequence[str], *, timeout_s: float, purpose: str) -> str:
    """Run a short command that must succeed and return its stdout, stripped.

    Args:
        command: program and arguments.
        timeout_s: limit in seconds.
        purpose: completes "Could not …" in the error.

    Raises:
        EnvironmentBroken: it failed; the message has the last line of its stderr.
    """
    done = run(command, timeout_s=timeout_s)
    if done.returncode != 0:
        raise EnvironmentBroken(f"Could not {purpose}: {last_words(done)}")
    return done.stdout.strip()


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a program wrote to stderr, or that there was none."""
    lines = done.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.returncode} without a word"


def run_logged(
    command: Sequence[str],
    *,
    log: Path,
    timeout_s: float,
    what: str,
    say: Say,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a long command with its output in a file, and say every ten seconds how far it is.

    Args:
        command: program and arguments.
        log: takes stdout and stderr; overwritten.
        timeout_s: limit in seconds; then the command and its children are killed.
        what: what is being made, as a noun phrase.
        say: is told the start, the progress and the end.
        environment: variables beyond our own.

    Raises:
        EnvironmentBroken: it failed or was too slow; the message shows its last lines.
    """
    say(f"Making {what} (at most {timeout_s / 60:.0f} min); log: {log}")
    started = time.monotonic()
    with log.open("wb") as output:
        variables = os.environ | dict(environment or {})
        process = _start(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
        try:
            _wait_telling(process, log=log, timeout_s=timeout_s, what=what, say=say)
        finally:
            _kill(process)
    if process.returncode != 0:
        raise EnvironmentBroken(
            f"Making {what} failed with exit code {process.returncode}; log: {log}\n{tail(log)}"
        )
    say(f"Made {what} in {time.monotonic() - started:.0f} s.")


def _wait_telling(
    process: subprocess.Popen[bytes], *, log: Path, timeout_s: float, what: str, say: Say
) -> None:
    started = time.monotonic()
    while True:
        left = timeout_s - (time.monotonic() - started)
        if left <= 0:
            raise EnvironmentBroken(
                f"Making {what} took longer than {timeout_s:g} s and was ended; log: {log}\n"
                + tail(log)
            )
        try:
            process.wait(timeout=min(_PROGRESS_S, left))
        except subprocess.TimeoutExpired:
            lines = tail(log, lines=1).strip()
            say(f"  {time.monotonic() - started:.0f} s: {lines[:100] or 'nothing said yet'}")
        else:
            return


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log, indented."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 8000))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-lines:])
