"""The command line as a process: signals, and what its parser complains of."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.cli import console

INTERRUPTED = 130


@contextmanager
def stoppable(
    first: str = "SIGNAL: the load is stopped, everything healed, and what was recorded is "
    "verified. Again: heal only.",
) -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C (or SIGTERM) sets; the second interrupts at once.

    Args:
        first: what is said then, with the signal's name for SIGNAL.
    """
    stop = threading.Event()

    def handle(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        console.say(first.replace("SIGNAL", signal.Signals(number).name))

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_wrong_usage(error: Exception) -> bool:
    """Show an error of the command line's parser; return whether it is one.

    Typer brings a click of its own, or uses the one installed, depending on its version: the
    class is known by its name only.
    """
    show = getattr(error, "show", None)
    if show is None or "ClickException" not in {base.__name__ for base in type(error).__mro__}:
        return False
    show()
    return True
