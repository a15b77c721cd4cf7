"""The nemesis: the one thread that carries out a schedule."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from harness.core.cluster import Broker, Cluster, Lease
from harness.core.errors import HealFailed, KafkaChaosError, WaitTimeout
from harness.core.fault import Evidence, describe, phrase
from harness.core.scenario import Scenario, Step
from harness.core.wait import pause, wait_until
from harness.run_dir import SCHEMA, Journal, canonical_json

log = logging.getLogger(__name__)

_LEASE_MARGIN_S = 30.0
"""The agent heals so long after a fault should have ended: time for late heals, not for a night."""
_VICTIM_S = 20.0
_WHOLE_S = 90.0


def plan(scenario: Scenario, seed: int) -> tuple[Step, ...]:
    """Return the steps that a seed gives; the same for the same scenario and seed."""
    return tuple(scenario.schedule.steps(Random(seed), scenario.duration_s))  # noqa: S311


def plan_json(scenario: Scenario, seed: int, steps: Sequence[Step]) -> str:
    """Return the text of plan.json: the same bytes for the same scenario and seed."""
    return canonical_json(
        {
            "schema": SCHEMA,
            "scenario": scenario.name,
            "seed": seed,
            "duration_s": scenario.duration_s,
            "max_at_once": scenario.max_at_once,
            "steps": [
                {
                    "id": str(number),
                    "at_s": step.at_s,
                    "hold_s": step.hold_s,
                    "fault": describe(step.fault),
                    "target": describe(step.target),
                }
                for number, step in enumerate(steps, start=1)
            ],
        }
    )


@dataclass(slots=True)
class _Active:
    """A fault in force: what undoes it, and when that is due."""

    fault_id: str
    step: Step
    cluster: Cluster
    victims: tuple[Broker, ...]
    due_ns: int


@dataclass(slots=True, kw_only=True)
class Nemesis:
    """Injects, holds and heals the steps of a plan, and journals each before it begins.

    Attributes:
        cluster: who is broken.
        journal: faults.jsonl.
        seed: the seed of the run; draws of victims come from a stream of their own.
        max_at_once: how many faults may be in force at one time.
        is_whole: whether the cluster has recovered from earlier faults; asked before each fault
            that begins alone.
        tell: called with a sentence when something begins or ends.
    """

    cluster: Cluster
    journal: Journal
    seed: int
    max_at_once: int
    is_whole: Callable[[], bool]
    tell: Callable[[str], None] = lambda _: None
    _active: list[_Active] = field(default_factory=list)

    def run(self, steps: Sequence[Step], stop: threading.Event) -> None:
        """Carry out the steps; when `stop` is set, heal at once and begin nothing more.

        Raises:
            HealFailed: a fault could not be taken back; nothing more was begun.
        """
        begin_ns = time.monotonic_ns()
        waiting = [(str(number), step) for number, step in enumerate(steps, start=1)]
        try:
            while (waiting or self._active) and not stop.is_set():
                self._heal_due()
                if not waiting:
                    due = [entry.due_ns for entry in self._active]
                    self._idle_until(min(due, default=0), stop)
                    continue
                fault_id, step = waiting[0]
                at_ns = begin_ns + int(step.at_s * 1e9)
                if time.monotonic_ns() < at_ns or len(self._active) >= self.max_at_once:
                    due = [entry.due_ns for entry in self._active]
                    full = len(self._active) >= self.max_at_once
                    self._idle_until(min(due) if full else min([at_ns, *due]), stop)
                    continue
                waiting.pop(0)
                self._begin(fault_id, step, stop)
        finally:
            self.heal_all()

    def heal_all(self) -> None:
        """Heal whatever is in force, the newest first.

        Raises:
            HealFailed: some could not be healed; the others were tried all the same.
        """
        failures = []
        for entry in sorted(self._active, key=lambda e: e.due_ns, reverse=True):
            try:
                self._end(entry)
            except HealFailed as failure:
                failures.append(str(failure))
        if failures:
            raise HealFailed(" ".join(failures))

    def _heal_due(self) -> None:
        now_ns = time.monotonic_ns()
        for entry in sorted(self._active, key=lambda e: e.due_ns):
            if entry.due_ns <= now_ns:
                self._end(entry)

    @staticmethod
    def _idle_until(time_ns: int, stop: threading.Event) -> None:
        pause((time_ns - time.monotonic_ns()) / 1e9, stop)

    def _begin(self, fault_id: str, step: Step, stop: threading.Event) -> None:
        what = describe(step.fault)
        header = {
            "id": fault_id,
            "event": "decided",
            "fault": what["name"],
            "parameters": what["parameters"],
            "target": phrase(describe(step.target)),
            "at_s": step.at_s,
            "hold_s": step.hold_s,
        }
        try:
            victims = self._choose(fault_id, step, stop)
        except KafkaChaosError as error:
            self._note({**header, "victims": [], "lease_s": 0.0})
            self._note({"id": fault_id, "event": "failed", "error": str(error)})
            self.tell(f"fault {fault_id}: {what['name']} not injected: {error}")
            return
        lease = Lease(fault_id=fault_id, hold_s=step.hold_s, limit_s=step.hold_s + _LEASE_MARGIN_S)
        cluster = self.cluster.leased(lease)
        ids = [broker.node_id for broker in victims]
        self._note({**header, "victims": ids, "lease_s": lease.limit_s}, sync=True)
        self.tell(f"fault {fault_id}: {phrase(what)} on {_who(victims)} for {step.hold_s:g} s")
        entry = _Active(fault_id, step, cluster, victims, due_ns=0)
        self._active.append(entry)
        try:
            evidence = step.fault.inject(cluster, victims)
        except KafkaChaosError as error:
            # Half of it may be in force: it is healed at once, and both errors are kept.
            self._note({"id": fault_id, "event": "failed", "error": f"inject: {error}"})
            self.tell(f"fault {fault_id}: {what['name']} failed: {error}")
            self._end(entry)
            return
        self._note({"id": fault_id, "event": "injected", "evidence": _json(evidence)})
        # Held from the moment at which it was seen to be in force, not from that of the decision.
        entry.due_ns = time.monotonic_ns() + int(step.hold_s * 1e9)
        if not evidence.observed:
            self.tell(f"fault {fault_id}: {what['name']} has no witness: {dict(evidence.details)}")

    def _choose(self, fault_id: str, step: Step, stop: threading.Event) -> tuple[Broker, ...]:
        if not self._active:
            try:
                wait_until(
                    self.is_whole, timeout_s=_WHOLE_S, interval_s=0.3, stop=stop,
                    what="the cluster to recover from the fault before",
                )  # fmt: skip
            except WaitTimeout as error:
                raise KafkaChaosError(f"The cluster was not whole: {error}") from error
        # A stream of its own for each fault, so that one more draw here shifts nothing elsewhere.
        random = Random(f"{self.seed}/{fault_id}/victims")  # noqa: S311
        target = phrase(describe(step.target))
        return wait_until(
            lambda: step.target.choose(self.cluster, random),
            timeout_s=_VICTIM_S,
            stop=stop,
            what=f"somebody to hit: {target}",
        )

    def _end(self, entry: _Active) -> None:
        name = describe(entry.step.fault)["name"]
        try:
            evidence = entry.step.fault.heal(entry.cluster, entry.victims)
        except KafkaChaosError as error:
            self._note({"id": entry.fault_id, "event": "failed", "error": f"heal: {error}"})
            raise HealFailed(
                f"Fault {entry.fault_id}, {name} on {_who(entry.victims)}, could not be healed: "
                f"{error} The agent tries again when its lease ends; `kafka-chaos heal` does now."
            ) from error
        finally:
            self._active.remove(entry)
        self._note({"id": entry.fault_id, "event": "healed", "evidence": _json(evidence)})
        self.tell(f"fault {entry.fault_id}: {name} on {_who(entry.victims)} healed")

    def _note(self, entry: dict[str, Any], *, sync: bool = False) -> None:
        self.journal.append({"time_ns": time.monotonic_ns(), **entry}, sync=sync)


def _json(evidence: Evidence) -> dict[str, Any]:
    return {
        "phase": evidence.phase,
        "observed": evidence.observed,
        "details": dict(evidence.details),
    }


def _who(brokers: Sequence[Broker]) -> str:
    ids = ", ".join(str(broker.node_id) for broker in brokers)
    return f"broker{'s' if len(brokers) > 1 else ''} {ids}"
