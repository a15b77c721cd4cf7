"""Faults: what is broken, who is hit, and what witnesses saw of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any, Literal, Protocol, runtime_checkable

from harness.core.cluster import Broker, Cluster
from harness.core.registry import Registry, registered_name


@dataclass(frozen=True, slots=True)
class Evidence:
    """What witnesses other than the call itself saw of an injection or of a healing.

    Attributes:
        phase: "inject" or "heal".
        observed: whether the effect was seen; a fault is proven if both phases were observed.
        details: what was seen, by witness; JSON values only.
        question: what a person should ask who wonders why the effect was not seen; may be empty.
    """

    phase: Literal["inject", "heal"]
    observed: bool
    details: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTraits:
    """What others need to know of a fault without knowing its class.

    The traits are written to faults.jsonl with the decision to inject the fault, so that a run can
    be verified where the fault is not installed.

    Attributes:
        hits_pairs: the fault needs exactly two victims, the ends of a link.
        cuts_links: the fault cuts links between nodes, so a cluster of one node cannot have it.
        cuts_clients: the fault cuts links to clients alone: no broker loses a role by it.
        reads_requests: the fault tells requests by what they carry: where brokers talk TLS it
            cannot.
        stops_process: the victims do not run while the fault is in force: they are dead or frozen.
        destroys_data: the fault may take data away that a broker had on its disk.
        damages_data: the fault may change bytes, on their way or on a disk.
        fails_disk: disks of the victims may refuse to read or write while it is in force.
        ends_lead_by: how a victim ceases to lead: it crashes, its session with the controller
            expires, it shuts down in order, or it loses power.
        needs_container: the victims must run in containers, where the fault agent reaches them.
        proof: what witnesses must see before the fault counts, a clause that follows "To count,".
    """

    hits_pairs: bool = False
    cuts_links: bool = False
    cuts_clients: bool = False
    reads_requests: bool = False
    stops_process: bool = False
    destroys_data: bool = False
    damages_data: bool = False
    fails_disk: bool = False
    ends_lead_by: Literal["crash", "session end", "shutdown", "power loss"] = "session end"
    needs_container: bool = True
    proof: str = "its witnesses must see the effect and its end"

    @property
    def takes_roles(self) -> bool:
        """Whether who is hit can lose a role by it, or a place in the ISR."""
        return not (self.hits_pairs or self.cuts_clients)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTraits:
    """What others need to know of a target without knowing its class.

    Attributes:
        hits_pairs: the target chooses exactly two nodes, the ends of a link.
        needs_followers: so many replicas besides the leader there must be to choose from.
        hits_all: the target chooses every broker, so that no links are left to cut.
        needs_group: there is nobody to choose in a run whose workload has no consumer group.
        needs_transactions: there is nobody to choose in a run whose workload has no transactions.
        hits_controllers: the target may choose an isolated controller, which has no log of a topic
            to lose and no link to replicate over.
        needs_container: outside Docker nobody can tell whom the target means.
    """

    hits_pairs: bool = False
    needs_followers: int = 0
    hits_all: bool = False
    needs_group: bool = False
    needs_transactions: bool = False
    hits_controllers: bool = False
    needs_container: bool = False


@runtime_checkable
class Fault(Protocol):
    """Something that can be broken and healed; a frozen dataclass whose fields are parameters.

    A class variable `traits` says what others need to know of it; without one, all of
    `FaultTraits` is as it is by default.
    """

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """Break the victims and return what was seen of it."""

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """Take it back and return what was seen; idempotent, and safe before inject."""


@runtime_checkable
class Target(Protocol):
    """Who is hit; asked when the fault is injected, not when it is planned.

    A class variable or a property `traits` says what others need to know of it, as with faults. A
    field `topic`, `group` or `transactional_id` that a plan leaves out is that of the run.
    """

    def choose(self, cluster: Cluster, random: Random) -> tuple[Broker, ...]:
        """Return the victims; empty if there is nobody to hit now."""


# Plans ask for traits by the ten thousand.
_DEFAULT_FAULT, _DEFAULT_TARGET = FaultTraits(), TargetTraits()


def fault_traits(fault: Fault) -> FaultTraits:
    """Return the traits that a fault declares, or the default ones."""
    traits: FaultTraits = getattr(fault, "traits", _DEFAULT_FAULT)
    return traits


def target_traits(target: Target) -> TargetTraits:
    """Return the traits that a target declares, or the default ones."""
    traits: TargetTraits = getattr(target, "traits", _DEFAULT_TARGET)
    return traits


def recorded_traits(decided: Mapping[str, Any]) -> FaultTraits:
    """Return the traits of a fault by its `decided` line in faults.jsonl.

    A line without traits is of an older run: the fault of that name is asked. If there is none, the
    traits are the default ones.
    """
    recorded = decided.get("traits")
    if isinstance(recorded, Mapping):
        known = {entry.name for entry in fields(FaultTraits)}
        return FaultTraits(**{key: value for key, value in recorded.items() if key in known})
    name = str(decided.get("fault"))
    return getattr(FAULTS[name], "traits", _DEFAULT_FAULT) if name in FAULTS else _DEFAULT_FAULT


def describe(thing: object) -> dict[str, Any]:
    """Return name and parameters of a fault, a target, an event or a pattern, as plans do."""
    parameters = {
        entry.name: getattr(thing, entry.name)
        for entry in fields(thing)  # type: ignore[arg-type]  # the protocols ask for dataclasses
    }
    return {"name": registered_name(thing), "parameters": parameters}


def phrase(described: Mapping[str, Any]) -> str:
    """Return `name` or `name(value, value)` for what `describe` returned."""
    values = ", ".join(
        str(value)
        for value in described["parameters"].values()
        if value not in (None, (), []) and value is not False
    )
    return f"{described['name']}({values})" if values else str(described["name"])


def brief(thing: object) -> str:
    """Return `name`, or `name(value, value)` with those values that are not the default ones."""
    described = describe(thing)
    defaults = {entry.name: entry.default for entry in fields(thing)}  # type: ignore[arg-type]  # as above
    told = {k: v for k, v in described["parameters"].items() if v != defaults[k]}
    return phrase({**described, "parameters": told})


FAULTS: Registry[Callable[..., Fault]] = Registry("fault", "faults")
TARGETS: Registry[Callable[..., Target]] = Registry("target", "faults")
fault = FAULTS.register
target = TARGETS.register
