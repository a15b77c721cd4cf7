"""The run of a scenario: the nemesis injects its faults while clients work."""

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.core.client_library import ClientLibrary
from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, WaitTimeout
from harness.core.fault import describe
from harness.core.scenario import Scenario, Step
from harness.core.schedule import Mix, Script
from harness.core.wait import wait_until
from harness.core.workload import WORKLOADS, ClientSpec, Grouped
from harness.run.churn import Churn
from harness.run.client_process import ClientProcess
from harness.run.cluster_watch import ClusterWatch
from harness.run.context import RunContext
from harness.run.ended_brokers import EndedBrokers
from harness.run.fault_journal import FaultJournal
from harness.run.group_watch import GroupWatch
from harness.run.injector import Injector
from harness.run.nemesis import Nemesis, never_heard, plan, plan_json, step_json

_STEADY_S = 180.0
"""The longest that clients may need to begin, seconds.

Six that run on Java, started at once beside a second cluster, needed 62 on two cores.
"""
_WORKING_S = 120.0
"""The longest that a healed cluster may need to serve every producer again, seconds.

A transactional producer whose coordinator was replaced gives its request up, and its client begins
anew, only after Kafka's default transaction timeout, 60 s.
"""
_READ_S = 60.0
"""The longest that consumers may need for what is left, seconds: of a group, a rebalance."""
_NEAR_THE_END = 0.95
"""Control records and aborted ones, which nobody is given, may lie behind the last record.

More than the verifier asks for (its rule readers-read), so that a run that got here keeps it.
"""
_FEW = 100
"""In a shorter log those may be most of it."""
_OF_ALL = 0.9
"""What is to be read of all logs together, short ones among them: as much as that rule asks for."""
_LOOK_S = 0.5
_SEEN_S = 60.0
"""So long after the last move of a group's members its witnesses are waited for, seconds."""
_CATCH_UP_S = 300.0
"""The longest that a group may need to process what is left, seconds."""


def settings_of(scenario: Scenario) -> dict[str, Any]:
    """Return every setting of a scenario as JSON: what a caller would change to get this one.

    Names and values are those of `harness.campaigns.configure.Overrides`.
    """
    schedule, cluster = scenario.schedule, scenario.cluster
    dealt = schedule if isinstance(schedule, Mix) else None
    return {
        "cluster": _cluster_settings(cluster),
        "contract": asdict(scenario.contract),
        "workload_name": WORKLOADS.name_of(scenario.workload),
        "workload": asdict(scenario.workload),  # type: ignore[call-overload]  # a dataclass
        "faults": dealt and [describe(fault) for fault in dealt.faults],
        "targets": dealt and [describe(target) for target in dealt.targets],
        "patterns": dealt and [describe(pattern) for pattern in dealt.patterns],
        "hold_s": dealt and dealt.hold_s,
        "gap_s": dealt and dealt.gap_s,
        "steps": [step_json(step) for step in schedule.script]
        if isinstance(schedule, Script)
        else None,
        "duration_s": scenario.duration_s,
        "max_at_once": scenario.max_at_once,
        "available_within_s": scenario.available_within_s,
        "lease_margin_s": scenario.lease_margin_s,
        "client": _written(scenario.client),
    }


def _cluster_settings(cluster: ClusterSpec) -> dict[str, Any]:
    if cluster.is_ours:
        return asdict(cluster)
    # A user's own cluster brings the rest.
    own = ("compose",) if cluster.compose else ("bootstrap", "kafka")
    names = (*own, "client_config")
    return {name: getattr(cluster, name) for name in names}


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """Runs the clients of a scenario's workload while its schedule breaks the cluster."""

    scenario: Scenario

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.scenario.name

    @property
    def cluster(self) -> ClusterSpec:
        """What is started."""
        return self.scenario.cluster

    @property
    def client(self) -> ClientLibrary | None:
        """The library of the client processes; None: the harness's own."""
        return self.scenario.client

    @property
    def contract(self) -> Contract:
        """What the producers are promised."""
        return self.scenario.contract

    @property
    def full_isr_within_s(self) -> float:
        """Bound on the time in which the cluster must have full ISRs again after healing."""
        return self.scenario.full_isr_within_s

    def topics(self) -> tuple[TopicSpec, ...]:
        """Return the workload's topics."""
        return self.scenario.workload.topics(self.contract)

    def readers(self) -> tuple[ClientSpec, ...]:
        """Return the workload's final readers."""
        return self.scenario.workload.readers(self.contract)

    def described(self) -> Mapping[str, Any]:
        """Return what run.json says of a scenario."""
        clients = [*self.scenario.workload.clients(self.contract), *self.readers()]
        return {
            "scenario": self.scenario.name,
            "workload": WORKLOADS.name_of(self.scenario.workload),
            "client": _written(self.client),
            "provokes": sorted(self.scenario.provokes(self.contract)),
            "duration_s": self.scenario.duration_s,
            "available_within_s": self.scenario.available_within_s,
            "clients": [client.described() for client in clients],
            "settings": settings_of(self.scenario),
            **self._group(),
        }

    def _group(self) -> dict[str, Any]:
        workload = self.scenario.workload
        return {"group": workload.described()} if isinstance(workload, Grouped) else {}

    def again(self, run: Path, seed: int) -> str:  # noqa: ARG002 (the folder holds the seed)
        """Return the command line that repeats a run, whose folder holds all settings."""
        return shlex.join(["kafka-chaos", "run", "--again", str(run)])

    def plan_json(self, seed: int) -> str:
        """Return the schedule that the seed gives."""
        return plan_json(self.scenario, seed)

    def carry_out(self, context: RunContext) -> None:
        """Start the clients, wait until they work, and break the cluster under them."""
        context.await_working = partial(_await_working, context)
        context.catch_up = partial(_await_read, context)
        with context.phase("steady"):
            context.run_dir.update(origin_ns=time.monotonic_ns())
            context.start_clients(self.scenario.workload.clients(self.contract))
            _await_steady(context)
        workload = self.scenario.workload
        if not isinstance(workload, Grouped):
            self._break(context)
            return
        watch = GroupWatch(context.cluster.access, workload.group)
        churn = Churn(workload, self.scenario.moves(context.seed), context, watch, seen_s=_SEEN_S)
        context.at_end.append(churn.close)
        context.catch_up = partial(churn.catch_up, limit_s=_CATCH_UP_S)
        self._break(context, churn.run)

    def _break(self, context: RunContext, *beside: Callable[[threading.Event], None]) -> None:
        """Carry out the plan, and whatever else is to go on beside it, each in a thread.

        The run is ended at once, with everything healed, when it is interrupted, when a thread
        fails, or when a client has ended by itself.
        """
        steps = plan(self.scenario, context.seed)
        journal = FaultJournal(context.run_dir.path)
        injector = Injector(
            cluster=context.cluster,
            journal=journal,
            tell=context.progress.say,
            lease_margin_s=self.scenario.lease_margin_s,
        )
        watch = self._watch(context, steps, injector)
        nemesis = Nemesis(
            injector=injector,
            seed=context.seed,
            max_at_once=self.scenario.max_at_once,
            has_full_isr=lambda: context.cluster.has_full_isr(context.topics),
            listen=never_heard if watch is None else watch.listen,
            destroys_at_most=self.scenario.survivable_losses,
            is_vain=EndedBrokers(context.cluster).for_good,
        )
        ending = threading.Event()
        failures: list[BaseException] = []

        def guarded(work: Callable[[threading.Event], None]) -> None:
            try:
                work(ending)
            except BaseException as error:  # noqa: BLE001 (raised again by the main thread)
                failures.append(error)
                ending.set()

        works = (partial(nemesis.run, steps), *beside)
        with context.phase("faults"):
            end = time.monotonic() + self.scenario.duration_s
            looking = ExitStack()
            if watch is not None:
                watch.start()
                looking.enter_context(context.cluster.watched(watch.partitions))
            threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
            for thread in threads:
                thread.start()
            try:
                while not nemesis.has_given_up and (
                    any(thread.is_alive() for thread in threads) or time.monotonic() < end
                ):
                    context.report_counts()
                    context.ended_early = context.note_failures()
                    if context.ended_early or context.stop.is_set() or ending.wait(_LOOK_S):
                        break
            finally:
                ending.set()
                with context.phase("heal"):
                    for thread in threads:
                        thread.join()
                    looking.close()
                    if watch is not None:
                        watch.stop()
                        context.note(watch.failures)
                    journal.close()
        if failures:
            raise failures[0]

    def _watch(
        self, context: RunContext, steps: Sequence[Step], injector: Injector
    ) -> ClusterWatch | None:
        """Return what tells when the events come that steps wait for; None if none does."""
        workload = self.scenario.workload
        events = [step.after.event for step in steps if step.after is not None]
        if not events:
            return None
        return ClusterWatch(
            context.cluster,
            events=events,
            topics=context.topics,
            group=workload.group if isinstance(workload, Grouped) else None,
            healed=lambda: injector.healed,
        )


def _written(client: ClientLibrary | None) -> str | None:
    return None if client is None else str(client)


def _await_working(context: RunContext) -> bool:
    """Wait until every producer is acknowledged again; return whether it came to that in time.

    A run that ended while its clients still wait for brokers that were healed long ago has not seen
    that the cluster works again: the verifier then calls it UNKNOWN.
    """
    if context.ended_early:
        return True
    healed_ns = time.monotonic_ns()
    before: dict[int, int] = {}

    def is_served(client: ClientProcess) -> bool:
        if not client.is_running:
            return True
        counts: Mapping[str, int] = client.counts
        # What it said before may leave out what was acknowledged before.
        return counts.get("t_ns", 0) > healed_ns and (
            counts["ok"] > before.setdefault(client.spec.process, counts["ok"])
        )

    producers = [client for client in context.clients if client.spec.role == "producer"]
    try:
        # Each is looked at, whatever the one before it says: counts are compared from now on.
        wait_until(
            lambda: all([is_served(client) for client in producers]),
            timeout_s=_WORKING_S, stop=context.stop, interval_s=_LOOK_S,
            what="an acknowledgement for every producer after the last healing",
        )  # fmt: skip
    except WaitTimeout as error:
        context.progress.say(str(error))
        return False
    return True


def _await_read(context: RunContext) -> None:
    """Wait until the consumers are near the ends of all logs, or their time is over.

    A consumer that was stopped in the middle of a rebalance has not seen what it was to see.
    """
    ends = {topic: context.cluster.log_ends(topic) for topic in context.topics}
    readers: dict[str, list[ClientProcess]] = {}
    for client in context.clients:
        if client.spec.role == "consumer" and client.is_running:
            # The members of a group are one reader; clients of others need not say all this.
            group = client.spec.settings.get("config", {}).get("group.id")
            readers.setdefault(str(group or client.spec.process), []).append(client)

    def has_read(members: Sequence[ClientProcess]) -> bool:
        settings = members[0].spec.settings
        topic = str(settings.get("topic", ""))
        known = ends.get(topic, {})
        polled = [client.counts.get("last_polled", {}) for client in members]
        read = length = 0
        for number in settings.get("partitions", known):
            end, place = known.get(number, 0), f"{topic}-{number}"
            position = 1 + max(last.get(place, -1) for last in polled)
            if end >= _FEW and position < _NEAR_THE_END * end:
                return False
            read, length = read + min(position, end), length + end
        return read >= _OF_ALL * length

    def is_read() -> bool:
        context.report_counts()
        return all(map(has_read, readers.values()))

    with suppress(WaitTimeout):
        wait_until(
            is_read, timeout_s=_READ_S, stop=context.stop, interval_s=_LOOK_S,
            what="consumers to come near the ends of the logs",
        )  # fmt: skip


def _await_steady(context: RunContext) -> None:
    producers = [client for client in context.clients if client.spec.role == "producer"]
    consumers = [client for client in context.clients if client.spec.role == "consumer"]

    def is_steady() -> bool:
        context.report_counts()
        for client in context.clients:
            if failure := client.failure():
                raise ClusterBroken(failure)
        return all(client.counts.get("ok", 0) > 0 for client in producers) and (
            not consumers or sum(client.counts.get("polled", 0) for client in consumers) > 0
        )

    try:
        wait_until(
            is_steady, timeout_s=_STEADY_S, stop=context.stop, interval_s=0.2,
            what="the first acknowledgement for every producer, and the first record polled",
        )  # fmt: skip
    except WaitTimeout as error:
        if not context.stop.is_set():
            raise ClusterBroken(f"The cluster was ill before any fault: {error}") from error
