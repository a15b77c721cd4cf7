"""Who is told how a run goes on."""

from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]
"""Called with sentences for a person."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Callbacks by which a run reports how it goes on.

    Attributes:
        phase: called with the name of each phase as it begins.
        say: called with sentences.
        counts: called about once a second with the clients' counts, summed.
    """

    phase: Callable[[str], None] = lambda _: None
    say: Say = lambda _: None
    counts: Callable[[dict[str, int]], None] = lambda _: None
