"""Frames that are made of other frames, for whichever checkers ask for them, and only then."""

import inspect
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import DataFrame

from harness.core.registry import Registry

FrameMaker = Callable[..., DataFrame]
"""A pure function of frames, asked for by the names of its parameters."""

SHARED_FRAMES: Registry[FrameMaker] = Registry("frame", "verifiers.frames")
shared_frame = SHARED_FRAMES.register
"""Declares how the frame of a name is made: a checker that needs an aggregate of its own declares
it in its module, and asks for it like for any other frame."""


class Frames(Mapping[str, DataFrame]):
    """Frames by name: those that are there, and those that are made of them on demand.

    Args:
        by_name: those that are there; they go before what is declared under their names.
    """

    def __init__(self, by_name: Mapping[str, DataFrame]) -> None:
        self._by_name = dict(by_name)

    def __getitem__(self, name: str) -> DataFrame:
        """Return a frame.

        Raises:
            UsageError: nobody has it, and nobody says how it is made.
        """
        if name not in self._by_name:
            make = SHARED_FRAMES[name]
            wanted = inspect.signature(make).parameters
            self._by_name[name] = make(**{other: self[other] for other in wanted})
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def made_of(name: str) -> frozenset[str]:
    """Return the frames, none of them declared, that a frame is made of; itself if it is none."""
    if name not in SHARED_FRAMES:
        return frozenset({name})
    wanted = inspect.signature(SHARED_FRAMES[name]).parameters
    return frozenset().union(*(made_of(other) for other in wanted))
