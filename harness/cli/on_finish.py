"""What `--on-finish` names: a program that is given the document of a night on its stdin."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

from harness.core.errors import UsageError
from harness.core.progress import Say
from harness.core.run_dir import canonical_json

LIMIT_S = 120.0
"""So long the program may take, seconds; a night must come to its end."""


def command_of(text: str | None) -> list[str] | None:
    """Return the words of a command line; None if there is none.

    Raises:
        UsageError: it is none, or there is no such program.
    """
    if text is None:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--on-finish {text!r} is no command line: {error}.") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(
            f"--on-finish {text!r} names no program that can be run: give the path of one, or the "
            "name of one that is on PATH."
        )
    return words


def give(
    document: Mapping[str, Any], command: list[str], *, say: Say, limit_s: float = LIMIT_S
) -> None:
    """Run a program with a document on its stdin; what it writes goes to stderr.

    That it fails, or takes too long, is said and nothing more: what a night has found does not
    depend on whether somebody could be told.

    Args:
        document: what it is given, as JSON.
        command: the program and its arguments.
        say: is told if it fails.
        limit_s: after so many seconds it is killed, its children too.
    """
    said = shlex.join(command)
    try:
        # Its stdout is not ours, which holds one document at most.
        process = subprocess.Popen(  # noqa: S603  # the user's own command line, no shell
            command, stdin=subprocess.PIPE, stdout=2, start_new_session=True
        )
    except OSError as error:
        say(f"--on-finish: `{said}` could not be started ({error.strerror}).")
        return
    with process:
        try:
            process.communicate(canonical_json(document).encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            say(f"--on-finish: `{said}` did not end within {limit_s:g} s and was killed.")
            return
    if process.returncode != 0:
        say(f"--on-finish: `{said}` failed with exit code {process.returncode}.")
