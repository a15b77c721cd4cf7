"""Things by what they have in common."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def by_key(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return things by their key, keys and things in the order in which they come."""
    found: dict[K, list[T]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return found
