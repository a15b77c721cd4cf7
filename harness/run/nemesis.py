"""The nemesis: the one thread that carries out a schedule."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random

from harness.core.cluster import Broker
from harness.core.errors import KafkaChaosError, WaitTimeout
from harness.core.fault import describe, phrase
from harness.core.run_dir import SCHEMA, canonical_json
from harness.core.scenario import Scenario, Step
from harness.core.wait import pause, wait_until
from harness.run.injector import Header, Injector

_VICTIM_S = 20.0
_FULL_ISR_S = 90.0


def plan(scenario: Scenario, seed: int) -> tuple[Step, ...]:
    """Return the steps that a seed gives; the same for the same scenario and seed."""
    return tuple(scenario.schedule.steps(Random(seed), scenario.duration_s))  # noqa: S311


def plan_json(scenario: Scenario, seed: int) -> str:
    """Return the text of plan.json: the same bytes for the same scenario and seed."""
    moves = [asdict(move) for move in scenario.moves(seed)]
    return canonical_json(
        {
            **({"moves": moves} if moves else {}),
            "schema": SCHEMA,
            "scenario": scenario.name,
            "seed": seed,
            "duration_s": float(scenario.duration_s),
            "max_at_once": scenario.max_at_once,
            "steps": [
                {
                    "id": str(number),
                    "at_s": step.at_s,
                    "hold_s": step.hold_s,
                    "fault": describe(step.fault),
                    "target": describe(step.target),
                }
                for number, step in enumerate(plan(scenario, seed), start=1)
            ],
        }
    )


@dataclass(slots=True, kw_only=True)
class Nemesis:
    """Injects, holds and heals the steps of a plan, and journals each before it begins.

    Attributes:
        injector: breaks and heals the cluster.
        seed: the seed of the run; draws of victims come from a stream of their own.
        max_at_once: how many faults may be in force at one time.
        has_full_isr: whether every ISR is full after earlier faults; asked before each fault
            that begins alone.
    """

    injector: Injector
    seed: int
    max_at_once: int
    has_full_isr: Callable[[], bool]

    def run(self, steps: Sequence[Step], stop: threading.Event) -> None:
        """Carry out the steps; when `stop` is set, heal at once and begin nothing more.

        Raises:
            HealFailed: a fault could not be taken back; nothing more was begun.
        """
        begin_ns = time.monotonic_ns()
        waiting = [(str(number), step) for number, step in enumerate(steps, start=1)]
        active = self.injector.active
        try:
            while (waiting or active) and not stop.is_set():
                self._heal_due()
                next_ns = [entry.due_ns for entry in active]
                if waiting and len(active) < self.max_at_once:
                    fault_id, step = waiting[0]
                    next_ns.append(begin_ns + int(step.at_s * 1e9))
                    if time.monotonic_ns() >= next_ns[-1]:
                        waiting.pop(0)
                        self._begin(fault_id, step, stop)
                        continue
                pause((min(next_ns, default=0) - time.monotonic_ns()) / 1e9, stop)
        finally:
            self.injector.heal_all()

    def _heal_due(self) -> None:
        now_ns = time.monotonic_ns()
        for entry in sorted(self.injector.active, key=lambda e: e.due_ns):
            if entry.due_ns <= now_ns:
                self.injector.heal(entry)

    def _begin(self, fault_id: str, step: Step, stop: threading.Event) -> None:
        header = Header(
            fault_id=fault_id, fault=step.fault, target=phrase(describe(step.target)),
            at_s=step.at_s, hold_s=step.hold_s,
        )  # fmt: skip
        try:
            victims = self._choose(fault_id, step, stop)
        except KafkaChaosError as error:
            self.injector.refuse(header, error)
            return
        self.injector.inject(header, victims)

    def _choose(self, fault_id: str, step: Step, stop: threading.Event) -> tuple[Broker, ...]:
        if not self.injector.active:
            try:
                wait_until(
                    self.has_full_isr, timeout_s=_FULL_ISR_S, interval_s=0.3, stop=stop,
                    what="full in-sync replicas after the fault before",
                )  # fmt: skip
            except WaitTimeout as error:
                raise KafkaChaosError(f"The in-sync replicas were not full: {error}") from error
        # A stream of its own for each fault, so that one more draw here shifts nothing elsewhere.
        random = Random(f"{self.seed}/{fault_id}/victims")  # noqa: S311
        target = phrase(describe(step.target))
        return wait_until(
            lambda: step.target.choose(self.injector.cluster, random),
            timeout_s=_VICTIM_S,
            stop=stop,
            what=f"somebody to hit: {target}",
        )
