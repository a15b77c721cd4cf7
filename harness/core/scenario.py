"""Scenarios: whole experiments, and the schedules that they follow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from harness.core.client_library import ClientLibrary
from harness.core.cluster import LEASE_MARGIN_S, ClusterSpec
from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.event import Event
from harness.core.fault import Fault, Target, brief, describe, phrase
from harness.core.registry import Registry
from harness.core.workload import Grouped, Move, Workload

LONGEST_WAIT_S = 30.0
"""For an event, unless a step says otherwise, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """What a step waits for.

    Attributes:
        event: it is listened for from the moment at which the step before is injected.
        delay_s: from the event to the injection, seconds.
        within_s: an event that has not come by then, seconds, is waited for no longer: the fault
            is injected all the same.
    """

    event: Event
    delay_s: float = 0.0
    within_s: float = LONGEST_WAIT_S

    def __post_init__(self) -> None:
        """Reject waits that cannot be.

        Raises:
            UsageError: the delay is negative, or there is no time for the event to come.
        """
        if self.delay_s < 0 or self.within_s <= 0:
            raise UsageError(
                f"A step cannot follow an event by {self.delay_s:g} s, or wait {self.within_s:g} s "
                "for it: choose a delay of 0 or more, and more than 0 to wait."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One planned fault.

    Attributes:
        at_s: when it is injected, seconds after the workload was steady; with `after`, not before.
        fault: what is broken.
        target: who is hit; decided at inject time.
        hold_s: how long it lasts from when it was seen to be in force, seconds.
        after: what it waits for, if not for the time alone.
        pattern: name of the pattern that it was drawn with; empty: with none. Steps that differ in
            it alone do the same.
    """

    at_s: float
    fault: Fault
    target: Target
    hold_s: float
    after: After | None = None
    pattern: str = field(default="", compare=False)

    def words(self) -> tuple[str, str, str, str]:
        """Return when, what, whom and for how long, for people."""
        when = f"{self.at_s:g} s"
        if self.after is not None:
            when = f"{self.after.delay_s:g} s after {phrase(describe(self.after.event))}"
        fault, target = brief(self.fault), phrase(describe(self.target))
        return when, fault, target, f"{self.hold_s:g} s"


class Schedule(Protocol):
    """Draws the steps of one run."""

    def steps(self, seed: int, duration_s: float) -> Sequence[Step]:
        """Return the steps in the order of their times; the same for the same seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """An experiment: cluster, contract, workload, and what is broken when.

    Attributes:
        name: as registered.
        cluster: what is started.
        contract: what the producers are promised.
        workload: what the clients do.
        schedule: what is broken, when and for how long.
        duration_s: how long the workload runs under the schedule, seconds.
        max_at_once: how many faults may be in force at one time.
        provokes: anomalies that this damage must cause under the given contract; if they are not
            found the experiment has shown nothing, and the verdict is UNKNOWN.
        full_isr_within_s: bound on the time from healing until every ISR is full again, seconds.
        available_within_s: bound on the time in which no send of a partition is acknowledged,
            while the faults leave enough brokers for it; None asks for nothing.
        lease_margin_s: so long after a fault should have ended the agent heals it by itself,
            seconds: time for a late heal, not for a night.
        keeps_within_contract: whether faults that destroy data spare so many replicas as the
            contract needs; what is lost then was lost by Kafka.
        broker_config: properties of the brokers that the scenario wants of a cluster of ours; what
            the cluster itself configures counts more.
        client: the library of the client processes; None: the harness's own.
    """

    name: str
    cluster: ClusterSpec
    contract: Contract
    workload: Workload
    schedule: Schedule
    duration_s: float
    max_at_once: int = 1
    provokes: Callable[[Contract], frozenset[str]] = field(default=lambda _: frozenset())
    full_isr_within_s: float = 120.0
    available_within_s: float | None = None
    lease_margin_s: float = LEASE_MARGIN_S
    keeps_within_contract: bool = False
    broker_config: Callable[[ClusterSpec], Mapping[str, str]] = field(default=lambda _: {})
    client: ClientLibrary | None = None

    def __post_init__(self) -> None:
        """Reject experiments that cannot be.

        Raises:
            UsageError: more replicas than brokers, or nothing would be allowed to happen.
        """
        if self.contract.replication_factor > self.cluster.brokers:
            raise UsageError(
                f"Replication factor {self.contract.replication_factor} needs as many brokers, "
                f"and there are {self.cluster.brokers}: raise --brokers or lower "
                "--replication-factor."
            )
        if self.duration_s <= 0:
            raise UsageError(f"A run of {self.duration_s:g} s shows nothing: choose more than 0.")
        if self.available_within_s is not None and self.available_within_s <= 0:
            raise UsageError(
                f"Partitions cannot be available within {self.available_within_s:g} s: choose "
                "more than 0, or leave it out to ask for nothing."
            )
        if self.lease_margin_s <= 0:
            raise UsageError(
                f"The agent cannot heal {self.lease_margin_s:g} s after a fault should have ended: "
                "choose more than 0."
            )
        if self.max_at_once < 1:
            raise UsageError(
                f"{self.max_at_once} faults at one time break nothing: choose 1 or more."
            )

    @property
    def survivable_losses(self) -> int | None:
        """On how many brokers data may be destroyed at a time; None for any number."""
        return self.contract.survivable_losses if self.keeps_within_contract else None

    def moves(self, seed: int) -> tuple[Move, ...]:
        """Return what the members of the workload's group do; nothing if it has none."""
        if not isinstance(self.workload, Grouped):
            return ()
        # A stream of its own: faults and members do not change each other's draws.
        return tuple(self.workload.moves(Random(f"{seed}/members"), self.duration_s))  # noqa: S311 (a draw that its seed repeats, no secret)


SCENARIOS: Registry[Callable[[], Scenario]] = Registry("scenario", "harness.scenarios")
scenario = SCENARIOS.register
