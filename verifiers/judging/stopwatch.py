"""How long each step of a verification took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """Seconds by step, in whichever thread it was taken.

    Attributes:
        seconds: what is known so far; to the millisecond.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Take the time of a step."""
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self.seconds[what] = round((time.monotonic_ns() - begin_ns) / 1e9, 3)
