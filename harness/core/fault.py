"""Faults: what is broken, who is hit, and what was seen of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from harness.core.cluster import Broker, Cluster
from harness.core.registry import Registry


@dataclass(frozen=True, slots=True)
class Evidence:
    """What witnesses other than the call itself saw of an injection or of a healing.

    Attributes:
        phase: "inject" or "heal".
        observed: whether the effect was seen; a fault is proven if both phases were observed.
        details: what was seen, by witness; JSON values only.
    """

    phase: Literal["inject", "heal"]
    observed: bool
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Fault(Protocol):
    """Something that can be broken and healed; a frozen dataclass whose fields are parameters."""

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """Break the victims and return what was seen of it."""
        ...

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """Take it back and return what was seen; idempotent, and safe before inject."""
        ...


@runtime_checkable
class Target(Protocol):
    """Who is hit; asked when the fault is injected, not when it is planned."""

    def choose(self, cluster: Cluster, random: Random) -> tuple[Broker, ...]:
        """Return the victims; empty if there is nobody to hit now."""
        ...


def hits_pairs(thing: Fault | Target) -> bool:
    """Return whether a fault needs, or a target chooses, exactly two nodes: the ends of a link.

    Such faults and targets say so by a class variable of this name.
    """
    return bool(getattr(thing, "hits_pairs", False))


def describe(thing: Fault | Target) -> dict[str, Any]:
    """Return name and parameters of a fault or a target, as plan and journal hold them."""
    registry: Registry[Any] = FAULTS if isinstance(thing, Fault) else TARGETS
    parameters = {
        entry.name: getattr(thing, entry.name)
        for entry in fields(thing)  # type: ignore[arg-type]  # the protocols ask for dataclasses
    }
    return {"name": registry.name_of(thing), "parameters": parameters}


def phrase(described: Mapping[str, Any]) -> str:
    """Return `name` or `name(value, value)` for what `describe` returned."""
    values = ", ".join(
        str(value) for value in described["parameters"].values() if value not in (None, ())
    )
    return f"{described['name']}({values})" if values else str(described["name"])


FAULTS: Registry[Callable[..., Fault]] = Registry("fault", "faults")
TARGETS: Registry[Callable[..., Target]] = Registry("target", "faults")
fault = FAULTS.register
target = TARGETS.register
