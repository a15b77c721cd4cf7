"""Events: what a run can see of a cluster, and a step of a plan can wait for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.core.registry import Registry
from harness.core.view import View

Need = Literal["controller", "committed", "groups", "transactions"]
"""What is asked of a cluster only where an event needs it; partitions and brokers always are."""


@runtime_checkable
class Event(Protocol):
    """Something that happens to a cluster; a frozen dataclass whose fields are parameters.

    A class variable `needs` names what must be asked to see it; without one, nothing beyond
    partitions and brokers. A class variable `topics` names topics whose partitions it looks at,
    besides that of a field `topic`.
    """

    def happens(self, before: View, after: View) -> bool:
        """Return whether it happened between two looks at the cluster."""


@dataclass(slots=True, kw_only=True)
class Awaited:
    """An event that somebody waits for.

    Attributes:
        event: what is waited for.
        came_ns: when it was seen, on the monotonic clock; None as long as it was not.
    """

    event: Event
    came_ns: int | None = None


def needs_of(event: Event) -> frozenset[Need]:
    """Return what must be asked to see an event."""
    needs: frozenset[Need] = getattr(event, "needs", frozenset())
    return needs


def topics_of(event: Event) -> frozenset[str]:
    """Return the topics whose partitions an event looks at."""
    topics: frozenset[str] = getattr(event, "topics", frozenset())
    topic: str | None = getattr(event, "topic", None)
    return topics if topic is None else topics | {topic}


EVENTS: Registry[Callable[..., Event]] = Registry("event", "faults")
event = EVENTS.register
