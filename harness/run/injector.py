"""The injector: puts one fault in force or takes it back, and journals each before it begins."""

import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from harness.core.cluster import LEASE_MARGIN_S, Broker, Cluster, Lease
from harness.core.errors import HealFailed, KafkaChaosError
from harness.core.fault import Evidence, Fault, FaultTraits, brief, describe, fault_traits
from harness.core.run_dir import Journal

log = logging.getLogger(__name__)

_NOT_YET_NS = sys.maxsize
"""What is being injected is not due."""


@dataclass(slots=True, kw_only=True)
class Active:
    """A fault in force: what undoes it, and when that is due.

    Attributes:
        header: what was decided about it.
        cluster: with the right to break it.
        victims: who is hit.
        due_ns: when it is to be healed, on the monotonic clock.
        evidence: what was seen when it was injected.
    """

    header: "Header"
    cluster: Cluster
    victims: tuple[Broker, ...]
    due_ns: int
    evidence: Evidence

    @property
    def traits(self) -> FaultTraits:
        """What others need to know of the fault."""
        return fault_traits(self.header.fault)


@dataclass(slots=True, kw_only=True)
class Injector:
    """Injects and heals faults, and knows which are in force.

    Attributes:
        cluster: who is broken.
        journal: faults.jsonl.
        tell: called with a sentence when something begins or ends.
        lease_margin_s: how long a lease outlasts its fault, seconds.
        hands: who injects and heals where that is not to be waited for: a broker takes seconds to
            start again, and half a minute to shut down.
        active: what is in force, in the order in which it was injected.
        healed: how many faults have been taken back.
    """

    cluster: Cluster
    journal: Journal
    tell: Callable[[str], None] = lambda _: None
    lease_margin_s: float = LEASE_MARGIN_S
    hands: Executor = field(
        default_factory=partial(ThreadPoolExecutor, thread_name_prefix="injector")
    )
    active: list[Active] = field(default_factory=list)
    healed: int = 0

    def refuse(self, header: "Header", error: Exception) -> None:
        """Journal a fault for which nobody to hit was found."""
        self._note({**header.entry(), "victims": [], "lease_s": 0.0})
        self._note({"id": header.fault_id, "event": "failed", "error": str(error)})
        self.tell(f"fault {header.fault_id}: {header.name} not injected: {error}")

    def inject(self, header: "Header", victims: Sequence[Broker]) -> Active | None:
        """Put a fault in force and return it; None if that failed, and it was taken back at once.

        Raises:
            HealFailed: it failed, and could not be taken back either.
        """
        lease = Lease(
            fault_id=header.fault_id,
            hold_s=header.hold_s,
            limit_s=header.hold_s + self.lease_margin_s,
        )
        cluster = self.cluster.leased(lease)
        ids = [broker.node_id for broker in victims]
        self._note({**header.entry(), "victims": ids, "lease_s": lease.limit_s}, sync=True)
        self.tell(
            f"fault {header.fault_id}: {brief(header.fault)} on {who(victims)} "
            f"for {header.hold_s:g} s"
        )
        entry = Active(
            header=header, cluster=cluster, victims=tuple(victims), due_ns=_NOT_YET_NS,
            evidence=Evidence("inject", observed=False),
        )  # fmt: skip
        self.active.append(entry)
        try:
            evidence = header.fault.inject(cluster, victims)
        except KafkaChaosError as error:
            # Half of it may be in force: it is healed at once, and both errors are kept.
            self._note({"id": header.fault_id, "event": "failed", "error": f"inject: {error}"})
            self.tell(f"fault {header.fault_id}: {header.name} failed: {error}")
            self.heal(entry)
            return None
        entry.evidence = evidence
        self._note({"id": header.fault_id, "event": "injected", "evidence": _json(evidence)})
        # Held from the moment at which it was seen to be in force, not from that of the decision.
        entry.due_ns = time.monotonic_ns() + int(header.hold_s * 1e9)
        if not evidence.observed:
            self.tell(
                f"fault {header.fault_id}: {header.name} has no witness: {dict(evidence.details)}"
            )
        return entry

    def heal(self, entry: Active) -> Evidence:
        """Take a fault back and return what was seen.

        Raises:
            HealFailed: that did not work; it no longer counts as in force.
        """
        fault_id, what = entry.header.fault_id, f"{entry.header.name} on {who(entry.victims)}"
        try:
            evidence = entry.header.fault.heal(entry.cluster, entry.victims)
        except Exception as error:
            # A fault may be anybody's, and fail in any way: what it broke is not healed.
            self._note({"id": fault_id, "event": "failed", "error": f"heal: {error}"})
            raise HealFailed(
                f"Fault {fault_id}, {what}, could not be healed: {error} The agent tries again "
                "when its lease ends; `kafka-chaos heal` does now."
            ) from error
        finally:
            self.active.remove(entry)
        self.healed += 1
        self._note({"id": fault_id, "event": "healed", "evidence": _json(evidence)})
        self.tell(f"fault {fault_id}: {what} healed")
        return evidence

    def heal_all(self) -> None:
        """Heal whatever is in force, all of it side by side.

        Only a broker that runs again can answer over a link, and only over a link does a broker
        of a cluster with KRaft find the others that it needs to run.

        Raises:
            HealFailed: some could not be healed; the others were tried all the same.
        """
        heals = [self.hands.submit(self.heal, entry) for entry in tuple(self.active)]
        failures = [str(failure) for heal in heals if (failure := heal.exception())]
        if failures:
            raise HealFailed(" ".join(failures))

    def _note(self, entry: dict[str, Any], *, sync: bool = False) -> None:
        self.journal.append({"time_ns": time.monotonic_ns(), **entry}, sync=sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What was decided about a fault before anybody was chosen.

    Attributes:
        fault_id: its id in the journal.
        fault: what is broken.
        target: who was meant, in words.
        at_s: when it was planned, seconds after the workload was steady.
        hold_s: how long it is meant to last, seconds.
        after: the event that it waited for, the delay, and when it came; None if for none.
    """

    fault_id: str
    fault: Fault
    target: str
    at_s: float
    hold_s: float
    after: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The fault's name."""
        return str(describe(self.fault)["name"])

    def entry(self) -> dict[str, Any]:
        """Return the line of the journal, but for the victims."""
        what = describe(self.fault)
        return {
            "id": self.fault_id,
            "event": "decided",
            "fault": what["name"],
            "parameters": what["parameters"],
            "traits": asdict(fault_traits(self.fault)),
            "target": self.target,
            "at_s": self.at_s,
            "hold_s": self.hold_s,
            **({} if self.after is None else {"after": dict(self.after)}),
        }


def who(brokers: Sequence[Broker]) -> str:
    """Return "broker 1" or "brokers 1, 2"."""
    ids = ", ".join(str(broker.node_id) for broker in brokers)
    return f"broker{'s' if len(brokers) > 1 else ''} {ids}"


def _json(evidence: Evidence) -> dict[str, Any]:
    question = {} if evidence.observed or not evidence.question else {"question": evidence.question}
    return {
        "phase": evidence.phase,
        "observed": evidence.observed,
        "details": dict(evidence.details),
        **question,
    }
