"""Requests over one connection: a program for each would cost more than what it does."""

import fcntl
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import BinaryIO


def serve(requests: BinaryIO, answers: BinaryIO, perform: Callable[[str, str], str]) -> None:
    """Carry out requests until their input ends, each in a process of its own.

    A process, since a verb may take its time, enter namespaces and end in any way. Nothing is
    written before the first request: the engine's client reads only then.

    Args:
        requests: lines `NUMBER VERB JSON`.
        answers: gets a line `NUMBER JSON` for each, in the order in which they are done.
        perform: carries out a verb with its argument and returns its answer, both JSON.
    """
    # The kernel reaps what has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with tempfile.TemporaryFile() as turn:
        for line in requests:
            number, _, request = line.decode().rstrip("\n").partition(" ")
            if os.fork() == 0:
                _answer(number, request, answers, turn.fileno(), perform)


def _answer(
    number: str, request: str, answers: BinaryIO, turn: int, perform: Callable[[str, str], str]
) -> None:
    """Carry out one request, write its answer, and end this process."""
    # What a verb starts is waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        verb, _, argument = request.partition(" ")
        try:
            answer = perform(verb, argument)
        except Exception as error:  # noqa: BLE001 (whatever it is, who asked is told)
            traceback.print_exc(file=sys.stderr)
            answer = json.dumps({"error": f"{verb} went wrong: {error!r}."})
        # Long answers of several processes would mix.
        fcntl.lockf(turn, fcntl.LOCK_EX)
        answers.write(f"{number} {answer}\n".encode())
        answers.flush()
    finally:
        os._exit(0)
