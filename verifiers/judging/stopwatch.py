"""How long each step of a verification takes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """The duration of each step, measured in any thread.

    Attributes:
        seconds: the duration of each step that has ended, to the millisecond.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Measure the duration of a step."""
        begin_ns = time.monotonic_ns()
        try:
            yield
        finally:
            self.seconds[what] = round((time.monotonic_ns() - begin_ns) / 1e9, 3)
