"""The nemesis carries out a schedule: one thread begins every step, and others heal."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from harness.core.cluster import Broker
from harness.core.errors import HealFailed, KafkaChaosError, WaitTimeout
from harness.core.event import Awaited, Event
from harness.core.fault import Evidence, Fault, describe, fault_traits, phrase
from harness.core.run_dir import SCHEMA, canonical_json
from harness.core.scenario import Scenario, Step
from harness.core.wait import pause, wait_until
from harness.run.injector import Active, Header, Injector

_VICTIM_S = 40.0
"""Time for somebody to be there, once what is in force is due to be healed, seconds."""
_CHOOSE_EVERY_S = 0.03
_LISTEN_EVERY_NS = 20_000_000
_FULL_ISR_S = 90.0
_IMPATIENT_S = 5.0
_ENDED = "a broker has ended by itself."
"""An ISR that was waited for in vain is not waited for as long again."""
ALONE = "alone"
"""The pattern of one fault: several of these may be in force beside each other."""


def plan(scenario: Scenario, seed: int) -> tuple[Step, ...]:
    """Return the steps that a seed gives; the same for the same scenario and seed."""
    return tuple(scenario.schedule.steps(seed, scenario.duration_s))


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
                {"id": str(number), **step_json(step)}
                for number, step in enumerate(plan(scenario, seed), start=1)
            ],
        }
    )


def step_json(step: Step) -> dict[str, Any]:
    """Return a step as plan.json holds it, but for its id."""
    after = step.after
    waits = after and {
        "after": {
            "event": describe(after.event),
            "delay_s": after.delay_s,
            "within_s": after.within_s,
        }
    }
    return {
        "at_s": float(step.at_s),
        "hold_s": float(step.hold_s),
        "fault": describe(step.fault),
        "target": describe(step.target),
        **(waits or {}),
        **({"pattern": step.pattern} if step.pattern else {}),
    }


@dataclass(slots=True)
class _Waiting:
    """A step that has not begun.

    Attributes:
        fault_id: of its fault.
        step: what is planned.
        due_ns: not before, on the monotonic clock.
        opens: whether it is the first of a pattern of several.
        listening_ns: since when its event is listened for.
        awaited: tells when the event came.
    """

    fault_id: str
    step: Step
    due_ns: int
    opens: bool = False
    listening_ns: int = 0
    awaited: Awaited | None = None

    def begins_ns(self, now_ns: int) -> int:
        """Return when it begins; of one whose event has not come, when to look again."""
        after = self.step.after
        if after is None or self.awaited is None:
            return self.due_ns
        # Who listens begins no sooner than his own time.
        since_ns = max(self.due_ns, self.listening_ns)
        last_ns = since_ns + int(after.within_s * 1e9)
        came_ns = self.awaited.came_ns
        if came_ns is None:
            return min(last_ns, now_ns + _LISTEN_EVERY_NS) if now_ns < last_ns else last_ns
        return max(self.due_ns, came_ns + int(after.delay_s * 1e9))

    def awaited_json(self) -> dict[str, Any] | None:
        """Return what it waited for, and when that came; None if it waited for nothing."""
        if self.step.after is None or self.awaited is None:
            return None
        return {
            "event": phrase(describe(self.step.after.event)),
            "delay_s": self.step.after.delay_s,
            "came_ns": self.awaited.came_ns,
        }


def opens_pattern(step: Step, before: Step | None) -> bool:
    """Return whether a step is the first of a pattern that takes several."""
    if step.after is not None or step.pattern in ("", ALONE):
        return False
    if before is None or before.pattern != step.pattern:
        return True
    return step.at_s >= before.at_s + before.hold_s


def never_heard(event: Event) -> Awaited:
    """Return an event that does not come: nobody listens for it."""
    return Awaited(event=event)


@dataclass(slots=True, kw_only=True)
class Nemesis:
    """Injects, holds and heals the steps of a plan, and journals each before it begins.

    Attributes:
        injector: breaks and heals the cluster.
        seed: the seed of the run; draws of victims come from a stream of their own.
        max_at_once: how many faults may be in force at one time.
        has_full_isr: whether every ISR is full after earlier faults; asked before each fault
            that begins alone, unless it follows an event, and before the first one of a pattern,
            which is to find the cluster whole. Beside faults that are only being healed a fault is
            alone: these are waited for.
        listen: begins to listen for an event; only asked if steps wait for some.
        destroys_at_most: on so many brokers data may be destroyed before every ISR is full again;
            None for any number.
        is_vain: tells, while nothing is in force, whether ISRs will never be full again: nothing
            more is begun then.
        has_given_up: whether that is so.
    """

    injector: Injector
    seed: int
    max_at_once: int
    has_full_isr: Callable[[], bool]
    listen: Callable[[Event], Awaited] = field(default=never_heard)
    destroys_at_most: int | None = None
    is_vain: Callable[[], bool] = lambda: False
    has_given_up: bool = field(default=False, init=False)
    _healing: dict[str, Future[Evidence]] = field(default_factory=dict)
    _injecting: list[Future[Active | None]] = field(default_factory=list)
    _destroyed: set[Broker] = field(default_factory=set)
    _patience_s: float = _FULL_ISR_S

    def run(self, steps: Sequence[Step], stop: threading.Event) -> None:
        """Carry out the steps; when `stop` is set, heal at once and begin nothing more.

        Raises:
            HealFailed: a fault could not be taken back; nothing more was begun.
        """
        begin_ns = time.monotonic_ns()
        waiting = [
            _Waiting(
                str(number), step, due_ns=begin_ns + int(step.at_s * 1e9),
                opens=opens_pattern(step, steps[number - 2] if number > 1 else None),
            )
            for number, step in enumerate(steps, start=1)
        ]  # fmt: skip
        active = self.injector.active
        try:
            self._listen_for(waiting[:1])
            while (waiting or active) and not stop.is_set():
                self._heal_due()
                now_ns = time.monotonic_ns()
                next_ns = [self._due_ns(entry, now_ns) for entry in tuple(active)]
                if waiting and len(active) < self.max_at_once:
                    next_ns.append(now_ns if self.has_given_up else waiting[0].begins_ns(now_ns))
                    if now_ns >= next_ns[-1]:
                        # Its own effect may be what the next one waits for.
                        self._listen_for(waiting[1:2])
                        begun = waiting.pop(0)
                        self._begin(begun, stop)
                        self._keep_distances(begun, waiting, begin_ns)
                        continue
                pause((min(next_ns, default=0) - time.monotonic_ns()) / 1e9, stop)
        finally:
            # What is being healed is not healed twice; its failure must not cost the others, and is
            # raised below.
            under_way: list[Future[Any]] = [*self._injecting, *self._healing.values()]
            for each in under_way:
                each.exception()
            try:
                self.injector.heal_all()
            finally:
                self._raise_failures()

    def _keep_distances(
        self, begun: "_Waiting", waiting: Sequence["_Waiting"], begin_ns: int
    ) -> None:
        """Move what is planned within the hold of a fault as far as that came late.

        A broker is to lose its power so many seconds after it was cut off, not so many seconds
        after the beginning.
        """
        step = begun.step
        (late_ns,) = [
            entry.due_ns - int((step.hold_s + step.at_s) * 1e9) - begin_ns
            for entry in tuple(self.injector.active)
            if entry.header.fault_id == begun.fault_id
        ] or [0]
        for entry in waiting:
            if entry.step.after is None and entry.step.at_s < step.at_s + step.hold_s:
                planned_ns = begin_ns + int(entry.step.at_s * 1e9)
                entry.due_ns = max(entry.due_ns, planned_ns + late_ns)

    def _listen_for(self, waiting: Sequence["_Waiting"]) -> None:
        for entry in waiting:
            if entry.step.after is not None:
                entry.listening_ns = time.monotonic_ns()
                entry.awaited = self.listen(entry.step.after.event)

    def _heal_due(self) -> None:
        """Begin to heal what is due.

        Raises:
            HealFailed: something that was begun earlier could not be healed.
        """
        self._raise_failures()
        now_ns = time.monotonic_ns()
        for entry in sorted(self.injector.active, key=lambda entry: entry.due_ns):
            fault_id = entry.header.fault_id
            if fault_id not in self._healing and self._due_ns(entry, now_ns) <= now_ns:
                self._healing[fault_id] = self.injector.hands.submit(self.injector.heal, entry)

    def _raise_failures(self) -> None:
        for fault_id in [fault_id for fault_id, heal in self._healing.items() if heal.done()]:
            self._healing.pop(fault_id).result()

    def _due_ns(self, entry: Active, now_ns: int) -> int:
        """Return when a fault is healed, or when to look at it again.

        A cut link opens only when its ends can answer over it: not before the processes behind it
        are being healed, and not after that either, since one may need the others to start.
        """
        is_blocked = entry.traits.cuts_links and any(
            other.traits.stops_process
            and other.header.fault_id not in self._healing
            and not set(other.victims).isdisjoint(entry.victims)
            for other in tuple(self.injector.active)
        )
        if is_blocked or entry.header.fault_id in self._healing:
            return max(entry.due_ns, now_ns + _LISTEN_EVERY_NS)
        return entry.due_ns

    def _is_free(self, fault: Fault, victims: Sequence[Broker]) -> bool:
        """Return whether a fault on brokers can be proven beside those in force.

        Nobody answers for a broker that is down, and a link that is cut twice does not open when
        one of the cuts is healed. A broker behind a cut can be killed, but not shut down in order:
        it would wait for a controller to take its leads.
        """
        new = fault_traits(fault)
        return all(
            set(entry.victims).isdisjoint(victims)
            or not (
                entry.traits.stops_process
                or (entry.traits.cuts_links and new.cuts_links)
                or (new.stops_process and not entry.traits.cuts_links)
                or (new.ends_lead_by == "shutdown" and entry.traits.cuts_links)
            )
            for entry in tuple(self.injector.active)
        )

    def _survives(self, fault: Fault, victims: Sequence[Broker]) -> bool:
        """Return whether the contract survives a fault beside the data that is destroyed already.

        What another broker holds is copied anew until every ISR is full again.
        """
        if self.destroys_at_most is None or not fault_traits(fault).destroys_data:
            return True
        if self._destroyed and len(self._destroyed.union(victims)) > self.destroys_at_most:
            in_force = any(e.traits.destroys_data for e in tuple(self.injector.active))
            if in_force or not self.has_full_isr():
                return False
            self._destroyed.clear()
        if len(self._destroyed.union(victims)) > self.destroys_at_most:
            return False
        self._destroyed.update(victims)
        return True

    def _begin(self, waiting: "_Waiting", stop: threading.Event) -> None:
        step = waiting.step
        header = Header(
            fault_id=waiting.fault_id, fault=step.fault, target=phrase(describe(step.target)),
            at_s=step.at_s, hold_s=step.hold_s, after=waiting.awaited_json(),
        )  # fmt: skip
        try:
            victims = self._choose(waiting, stop)
        except HealFailed:
            raise
        except KafkaChaosError as error:
            self.injector.refuse(header, error)
            return
        injecting = self.injector.hands.submit(self.injector.inject, header, victims)
        self._injecting = [injecting]
        while not injecting.done():
            self._heal_due()
            pause(_CHOOSE_EVERY_S)
        injecting.result()

    def _nothing_is_held(self) -> bool:
        """Return whether nothing is in force but what is being healed, or is to be."""
        now_ns = time.monotonic_ns()
        return all(entry.due_ns <= now_ns for entry in tuple(self.injector.active))

    def _is_over(self) -> bool:
        """Return whether everything was healed, and the cluster has recovered.

        Raises:
            WaitTimeout: it never will.
        """
        self._heal_due()
        if self.injector.active:
            return False
        if self.has_full_isr():
            return True
        if self.is_vain():
            self.has_given_up = True
            raise WaitTimeout(_ENDED)
        return False

    def _choose(self, waiting: "_Waiting", stop: threading.Event) -> tuple[Broker, ...]:
        fault_id, step = waiting.fault_id, waiting.step
        if self.has_given_up:
            raise KafkaChaosError(_ENDED)
        if waiting.opens or (step.after is None and self._nothing_is_held()):
            try:
                wait_until(
                    self._is_over, timeout_s=self._patience_s, interval_s=0.3, stop=stop,
                    what="full in-sync replicas after the fault before",
                )  # fmt: skip
            except WaitTimeout as error:
                self._patience_s = _IMPATIENT_S
                raise KafkaChaosError(f"The in-sync replicas were not full: {error}") from error
        # A stream of its own for each fault, so that one more draw here shifts nothing elsewhere.
        random = Random(f"{self.seed}/{fault_id}/victims")  # noqa: S311 (a draw that its seed repeats, no secret)
        target = phrase(describe(step.target))

        def somebody() -> tuple[Broker, ...]:
            # Nobody may be there until what is in force has been healed.
            self._heal_due()
            victims = step.target.choose(self.injector.cluster, random)
            is_free = self._is_free(step.fault, victims) and self._survives(step.fault, victims)
            return victims if is_free else ()

        now_ns = time.monotonic_ns()
        in_force_ns = max((entry.due_ns for entry in tuple(self.injector.active)), default=now_ns)
        return wait_until(
            somebody,
            timeout_s=max(0, in_force_ns - now_ns) / 1e9 + _VICTIM_S,
            interval_s=_CHOOSE_EVERY_S,
            stop=stop,
            what=f"somebody to hit: {target}",
        )
