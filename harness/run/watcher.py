"""Watchers: threads that ask the same questions again and again while a run goes on."""

import logging
import threading
from collections.abc import Callable

from harness.core.wait import pause

log = logging.getLogger(__name__)


class Watcher:
    """Repeats something in a thread of its own, from `start` to `stop`.

    An error ends one repetition and not the watcher, but it is not forgotten: `failure` tells it.

    Attributes:
        stopping: set as soon as it is to end.
        has_looked: set as soon as the first repetition has ended.

    Args:
        name: what watches, such as "monitor".
        repeat: what is repeated; an error of it that is no news it catches by itself.
        every_s: pause between two repetitions, seconds.
        at_end: called after the last repetition, unless that still hangs in a question.
    """

    def __init__(
        self,
        name: str,
        repeat: Callable[[], None],
        *,
        every_s: float,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._repeat = repeat
        self._every_s = every_s
        self._at_end = at_end
        self._error: Exception | None = None
        self.stopping = threading.Event()
        self.has_looked = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name=name)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, *, limit_s: float = 10.0) -> bool:
        """End; return whether the last repetition ended within the limit."""
        self.stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=limit_s)
        if self._thread.is_alive():
            return False
        self._at_end()
        return True

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits for the thread any more, which still hangs in a question."""
        return self.stopping.is_set() and self._thread.is_alive()

    @property
    def failure(self) -> str | None:
        """What went wrong first, as a sentence; None if nothing did."""
        if self._error is None:
            return None
        return f"The {self._name} failed, so it may have missed something: {self._error!r}."

    def _watch(self) -> None:
        while True:
            try:
                self._repeat()
            except Exception as error:
                if self.stopping.is_set():
                    # What it writes to may be closed by now.
                    return
                log.exception("the %s failed", self._name)
                self._error = self._error or error
            self.has_looked.set()
            if pause(self._every_s, self.stopping):
                return
