"""The lab: what the script of a claim can do to a cluster, ask of it, and wait for.

Every action is journaled before it is carried out and observed before the next one begins. Every
wait is bounded; one that ends without its condition is a precondition that was not met, and the
claim is then UNKNOWN.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.cluster.docker_cluster import DockerCluster
from harness.core.cluster import FIRST_CONTROLLER, FIRST_ZOOKEEPER, Broker, Listener
from harness.core.contract import Contract
from harness.core.errors import KafkaChaosError, PreconditionUnmet
from harness.core.fault import Evidence, Fault, describe, fault_traits
from harness.core.run_dir import Journal
from harness.core.schedule import Mix
from harness.core.version import Versions
from harness.core.wait import pause
from harness.lab.clients import (
    POLL_S,
    WAIT_S,
    Batch,
    LabConsumer,
    LabProducer,
    await_precondition,
    start_client,
)
from harness.lab.groups import LabGroup
from harness.run.context import RunContext
from harness.run.fault_journal import FaultJournal
from harness.run.injector import Active, Header, Injector
from verifiers.replicas.checkpoints import epochs_in, offsets_in
from verifiers.replicas.isr_changes import IsrChange, isr_changes_in
from verifiers.replicas.segments import parse
from workloads.client_config import Isolation, consumer_config, producer_config
from workloads.outcome import single_attempt
from workloads.record import HEADER_BYTES
from workloads.send_poll import FIRST_CONSUMER, FIRST_PRODUCER

_HOLD_S = 240.0
"""How long a fault of a script may be in force before the agent heals it, seconds."""
_ASK_ONE_BROKER_S = 0.5
"""Each question to one broker alone needs a connection of its own."""


class Lab:
    """A cluster with one topic, called after its claim, as a script works on it.

    Args:
        context: the cluster and the folder.
        contract: of the claim.
        always: fields of the contract that the script cannot change.
        before: told of each thing that the script is about to do, before it does it.
    """

    def __init__(
        self,
        context: RunContext,
        contract: Contract,
        *,
        always: Mapping[str, Any] | None = None,
        before: Callable[["Lab", str], None] = lambda *_: None,
    ) -> None:
        self._context = context
        self._contract = contract
        self._always = dict(always or {})
        self._before = partial(before, self)
        self._faults = FaultJournal(context.run_dir.path)
        self._notes = Journal(context.run_dir.path / "lab.jsonl")
        self._injector = Injector(
            cluster=context.cluster, journal=self._faults, tell=context.progress.say
        )
        self._count = 0
        self._begin = time.monotonic()
        self._producers: dict[tuple[Contract, int, tuple[tuple[str, Any], ...]], LabProducer] = {}

    # -- the cluster -------------------------------------------------------------------------------

    @property
    def cluster(self) -> DockerCluster:
        """The cluster, for what the methods of the lab do not cover."""
        # Claims run on clusters of ours.
        return cast(DockerCluster, self._context.cluster)

    @property
    def topic(self) -> str:
        """The topic under test."""
        return self._context.topics[0]

    @property
    def kafka(self) -> str:
        """Version of the brokers."""
        return self.cluster.spec.kafka

    def since(self, version: str) -> bool:
        """Return whether the brokers are of this version or later."""
        return self.kafka in Versions(since=version)

    @property
    def has_zookeeper(self) -> bool:
        """Whether the cluster keeps its metadata in ZooKeeper."""
        return self.cluster.spec.mode == "zookeeper"

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers A, B, C, … by node id: `a, b, c = lab.brokers`."""
        return self.cluster.brokers

    @property
    def controllers(self) -> tuple[Broker, ...]:
        """The isolated controllers (KRaft), or the extra brokers that serve as such."""
        return tuple(
            node
            for node in self.cluster.nodes
            if FIRST_CONTROLLER <= node.node_id < FIRST_ZOOKEEPER
        )

    # -- what Kafka answers ------------------------------------------------------------------------

    def leader(self, partition: int = 0) -> Broker | None:
        """Return the leader, or None while there is none."""
        return self.cluster.leader_of(self.topic, partition)

    def isr(self, partition: int = 0) -> frozenset[Broker]:
        """Return the in-sync replicas."""
        return frozenset(self.cluster.isr_of(self.topic, partition))

    def await_leader(self, broker: Broker, *, partition: int = 0) -> float:
        """Wait until this broker leads; return how long that took, seconds."""
        return self.wait_until(
            lambda: self.leader(partition) == broker,
            what=f"{letter(broker)} to lead",
        )

    def await_failover(self, broker: Broker, *, partition: int = 0) -> Broker:
        """Wait until another broker leads, and return it."""
        new_leader: Broker | None = None

        def is_elected() -> bool:
            # Kept from this answer: the next broker asked may not have heard of the election yet.
            nonlocal new_leader
            new_leader = self.leader(partition)
            return new_leader not in (None, broker)

        what = f"another leader than {letter(broker)}"
        self.wait_until(is_elected, what=what)
        assert new_leader is not None  # noqa: S101 (what was waited for)
        return new_leader

    def await_end_of_lead(self, broker: Broker, *, known_by: Sequence[Broker]) -> float:
        """Wait until none of these brokers names `broker` as leader; return how long that took.

        Any broker may be asked who leads, and they learn of a change one after the other.
        """
        return self.wait_until(
            lambda: (
                self.leader() != broker
                and all(self.leader_known_by(other) != broker for other in known_by)
            ),
            what=f"the leadership of {letter(broker)} to end",
            interval_s=_ASK_ONE_BROKER_S,
        )

    def await_isr(
        self, brokers: Collection[Broker], *, partition: int = 0, timeout_s: float = WAIT_S
    ) -> float:
        """Wait until the ISR is exactly these; return how long that took, seconds."""
        names = ", ".join(sorted(letter(broker) for broker in brokers))
        return self.wait_until(
            lambda: self.isr(partition) == frozenset(brokers),
            what=f"the ISR to be exactly {{{names}}}",
            timeout_s=timeout_s,
        )

    def await_isr_at_leader(self, brokers: Collection[Broker], *, partition: int = 0) -> float:
        """Wait until the ISR is exactly these, and the leader acts on it.

        A controller that removes a replica from the ISR records that before it tells the leader,
        and the leader uses the old ISR until then.
        """
        begin = time.monotonic()
        self.await_isr(brokers, partition=partition)
        count = "kafka.cluster:type=Partition,name=InSyncReplicasCount"
        name = f"{count},topic={self.topic},partition={partition}"

        def counted() -> bool:
            leader = self.leader(partition)
            return leader is not None and self.measured(leader, name) == len(brokers)

        self.wait_until(
            counted,
            what=f"the leader to count {len(brokers)} in-sync replicas",
        )
        return time.monotonic() - begin

    def await_unregistered(self, *brokers: Broker) -> float:
        """Wait until these brokers are no longer registered, or no broker is left to ask."""
        names = ", ".join(letter(broker) for broker in brokers)
        return self.wait_until(
            lambda: not self.cluster.registered() & {broker.node_id for broker in brokers},
            what=f"the registration of {names} to end",
        )

    def await_full_isr(self, *, timeout_s: float = WAIT_S) -> float:
        """Wait until every broker is registered and every ISR is full."""
        return self.wait_until(
            lambda: self.cluster.has_full_isr(
                self._context.topics, without=self._context.left_down
            ),
            what="full in-sync replicas",
            timeout_s=timeout_s,
        )

    def leader_known_by(self, broker: Broker, partition: int = 0) -> Broker | None:
        """Return the leader that this broker names to its clients, or None."""
        return self.cluster.leader_known_by(broker, self.topic, partition)

    def await_follower(self, broker: Broker, *, of: Broker) -> float:
        """Wait until a broker knows its new leader; return how long that took, seconds."""
        return self.wait_until(
            lambda: self.leader_known_by(broker) == of,
            what=f"{letter(broker)} to know {letter(of)} as leader",
            interval_s=_ASK_ONE_BROKER_S,
        )

    def high_watermark(self, partition: int = 0) -> int:
        """Return the high watermark that the leader tells consumers at this moment."""
        return self.cluster.admin.end_offset(self.topic, partition)

    def measured(self, broker: Broker, names: str, attribute: str = "Value") -> int:
        """Return the sum of an attribute of those JMX beans of a broker that are called so."""
        return round(sum(self.cluster.jmx(broker, names, attribute).values()))

    def isr_changes(self, leader: Broker) -> list[IsrChange]:
        """Return every change of the topic's ISRs in a leader's own log."""
        changes = isr_changes_in(self.cluster.said(leader))
        return [change for change in changes if change.topic == self.topic]

    def timeline(self) -> list[Mapping[str, Any]]:
        """Return the lines of timeline.jsonl: leader and ISR, and when the monitor read them.

        The monitor reads the metadata about four times a second.
        """
        return list(self._context.run_dir.lines("timeline.jsonl"))

    # -- what lies on the brokers' disks -----------------------------------------------------------

    def checkpoint(self, broker: Broker, name: str, partition: int = 0) -> int | None:
        """Return a partition's offset in a broker's checkpoint file; None if it is not there.

        Args:
            broker: whose.
            name: `replication-offset-checkpoint` (the high watermark, written every five
                seconds), `recovery-point-offset-checkpoint` or `log-start-offset-checkpoint`.
            partition: of the topic under test.
        """
        text = self.cluster.read_data(broker, name).decode()
        return offsets_in(text).get((self.topic, partition))

    def log_end(self, broker: Broker, partition: int = 0) -> int:
        """Return the offset after the last record in a broker's log, as it lies on its disk."""
        path = f"{self.topic}-{partition}/{0:020d}.log"
        parts = parse(self.cluster.read_data(broker, path))
        lasts = [last for rows in parts for last in rows.column("last_offset").to_pylist()]
        return max((last + 1 for last in lasts if last is not None), default=0)

    def epochs(self, broker: Broker, partition: int = 0) -> tuple[tuple[int, int], ...]:
        """Return a broker's leader epochs, each with its first offset; empty before 0.11."""
        path = f"{self.topic}-{partition}/leader-epoch-checkpoint"
        return epochs_in(self.cluster.read_data(broker, path).decode())

    def await_high_watermark(self, offset: int | None, *, on: Sequence[Broker]) -> float:
        """Wait until these brokers have this high watermark in their checkpoints."""
        names = ", ".join(letter(broker) for broker in on)
        return self.wait_until(
            lambda: all(
                self.checkpoint(broker, "replication-offset-checkpoint") == offset for broker in on
            ),
            what=f"high watermark {offset} on the disks of {names}",
        )

    # -- records -----------------------------------------------------------------------------------

    def producer(
        self,
        *,
        partition: int = 0,
        config: dict[str, Any] | None = None,
        record_size_bytes: int = 100,
        **contract: Any,  # noqa: ANN401 (fields of Contract)
    ) -> LabProducer:
        """Return the producer with these settings; the first call starts it.

        Args:
            partition: where it writes to.
            config: settings of librdkafka beyond what follows from the contract.
            record_size_bytes: length of a record's value.
            contract: fields of `Contract` in which it differs from the claim's.
        """
        promised = replace(self._contract, **(contract | self._always))
        key = (promised, partition, (*(config or {}).items(), ("size", record_size_bytes)))
        if key not in self._producers:
            settings = {
                "topic": self.topic,
                "partitions": 1,
                "first_partition": partition,
                "record_size_bytes": max(record_size_bytes, HEADER_BYTES),
                "single_attempt": single_attempt(promised),
                "flush_s": promised.delivery_timeout_ms / 1000 + 2.0,
                "interval_s": 0.5,
                "config": {**producer_config(promised), **(config or {})},
            }
            client = start_client(
                self._context, FIRST_PRODUCER, "workloads.scripted_producer", settings
            )
            self._producers[key] = LabProducer(client, self._note, self._before)
        return self._producers[key]

    def produce(self, name: str, count: int, **how: Any) -> Batch:  # noqa: ANN401
        """Send records and wait for their outcome; other keywords are those of `producer`."""
        return self.producer(**how).send(name, count)

    def consumer(
        self, *, partition: int = 0, isolation: Isolation = "read_uncommitted"
    ) -> LabConsumer:
        """Start a consumer that reads a partition from its beginning."""
        settings = {
            "mode": "assign",
            "topic": self.topic,
            "partitions": [partition],
            "interval_s": 0.5,
            "config": consumer_config(isolation),
        }
        client = start_client(self._context, FIRST_CONSUMER, "workloads.consumer", settings)
        return LabConsumer(client)

    def group(
        self,
        name: str,
        commits: str,
        *,
        poll_records: int = 100,
        commit_every: int = 100,
        process_s: float = 0.0,
        config: dict[str, Any] | None = None,
    ) -> LabGroup:
        """Return a consumer group that has no members yet.

        Args:
            name: the last part of the group's id; the first part is the topic.
            commits: how its members commit, see `workloads.group_member`.
            poll_records: the most records that a poll returns.
            commit_every: after how many records a member commits that commits after processing.
            process_s: how long the processing of a record takes, seconds.
            config: settings of librdkafka beyond those of every subscriber.
        """
        settings = {
            "commits": commits,
            "poll_records": poll_records,
            "poll_s": 0.5,
            "commit_every": commit_every,
            "process_s": process_s,
        }
        return LabGroup(
            name=f"{self.topic}-{name}",
            context=self._context,
            settings=settings,
            config=config or {},
            note=self._note,
        )

    # -- faults ------------------------------------------------------------------------------------

    def inject(self, fault: Fault, *victims: Broker, hold_s: float = _HOLD_S) -> Active:
        """Inject a fault and return it, for `heal`.

        Raises:
            PreconditionUnmet: no witness saw it.
        """
        named = describe(fault)["name"].replace("_", " ")
        self._before(f"{named}: {' and '.join(letter(broker) for broker in victims)}")
        self._count += 1
        header = Header(
            fault_id=str(self._count),
            fault=fault,
            target=" and ".join(letter(broker) for broker in victims),
            at_s=round(time.monotonic() - self._begin, 3),
            hold_s=hold_s,
        )
        active = self._injector.inject(header, victims)
        if active is None or not active.evidence.observed:
            raise PreconditionUnmet(f"no witness saw fault {header.fault_id}, {header.name}")
        return active

    def heal(self, *faults: Active) -> list[Evidence]:
        """Heal faults and return the evidence."""
        for fault in faults:
            named = fault.header.name.replace("_", " ")
            self._before(f"end of {named}: {fault.header.target}")
        return [self._injector.heal(fault) for fault in faults]

    def kill(self, *brokers: Broker) -> Active:
        """SIGKILL brokers."""
        return self.inject(BrokerKill(), *brokers)

    def stop(self, *brokers: Broker) -> Active:
        """Stop brokers by SIGTERM: a controlled shutdown."""
        return self.inject(BrokerStop(), *brokers)

    def power_loss(
        self, broker: Broker, *, offset: int | None = None, partition: int = 0
    ) -> Active:
        """Kill a broker and cut the unflushed end of its log of the partition under test.

        Args:
            broker: the broker that loses power.
            offset: the first offset that is lost, at or above the recovery point; None for that
                point.
            partition: of the topic under test.
        """
        fault = PowerLoss(topic=self.topic, partition=partition, offset=offset)
        return self.inject(fault, broker)

    def pause(self, *brokers: Broker) -> Active:
        """SIGSTOP brokers."""
        return self.inject(BrokerPause(), *brokers)

    def cut(
        self,
        broker: Broker,
        others: Sequence[Broker],
        *,
        listener: Listener = "all",
        quiet: bool = False,
    ) -> Active:
        """Cut the links between one broker and others; all other links stay, clients' too.

        Args:
            broker: one side.
            others: the other side.
            listener: which traffic.
            quiet: the links carry no traffic now, so that no dropped packet proves the cut.
        """
        groups = ((broker.node_id,), tuple(other.node_id for other in others))
        fault = Partition(listener=listener, groups=groups, quiet=quiet)
        return self.inject(fault, broker, *others)

    def nemesis(self, mix: Mix, *, for_s: float) -> None:
        """Inject faults drawn from the seed, one at a time, each into a cluster with full ISRs.

        It takes longer than `for_s` where the cluster recovers slowly.

        Raises:
            PreconditionUnmet: a fault had no victim, or no witness saw it.
        """
        random = Random(self._context.seed)  # noqa: S311 (a draw that its seed repeats, no secret)
        begin = time.monotonic()
        for step in mix.steps(self._context.seed, for_s):
            self.wait(begin + step.at_s - time.monotonic())
            self.await_full_isr(timeout_s=2 * WAIT_S)
            victims = step.target.choose(self.cluster, random)
            self.require(victims, f"there was no victim for {describe(step.fault)['name']}")
            active = self.inject(step.fault, *victims, hold_s=step.hold_s)
            self.wait(step.hold_s)
            self.heal(active)

    def start(self, *brokers: Broker) -> None:
        """Start brokers that are down, and wait until they answer."""
        for active in self._down(brokers):
            self.heal(active)

    def _down(self, brokers: Sequence[Broker]) -> list[Active]:
        """Return the faults that keep brokers from running."""
        return [
            active
            for active in self._injector.active
            if fault_traits(active.header.fault).stops_process
            and set(active.victims) & set(brokers)
        ]

    def leave_down(self, *brokers: Broker) -> None:
        """Leave brokers down to the end of the run: nobody starts them or waits for them."""
        for active in self._down(brokers):
            self._injector.active.remove(active)
        self._context.left_down |= {broker.node_id for broker in brokers}
        self._note({"event": "left", "brokers": [broker.node_id for broker in brokers]})

    # -- notes -------------------------------------------------------------------------------------

    def observe(self, name: str, value: Any) -> None:  # noqa: ANN401 (a JSON value)
        """Record a fact for the judgement; several facts of one name are its samples."""
        self._note({"event": "fact", "name": name, "value": value})
        self._context.progress.say(f"observed {name}: {value}")

    def finish(self) -> None:
        """Heal every fault that is still in force, and close the journals.

        Raises:
            HealFailed: a fault could not be healed.
        """
        try:
            self._injector.heal_all()
        finally:
            self._faults.close()
            self._notes.close()

    def note_unmet(self, what: str) -> None:
        """Record a precondition that was not met."""
        self._note({"event": "unmet", "what": what})

    def _note(self, entry: dict[str, Any]) -> None:
        self._notes.append({"time_ns": time.monotonic_ns(), **entry})

    # -- time --------------------------------------------------------------------------------------

    def wait_until(
        self,
        condition: Callable[[], object],
        *,
        what: str,
        timeout_s: float = WAIT_S,
        interval_s: float = POLL_S,
    ) -> float:
        """Wait for a condition; return how long that took, seconds.

        Raises:
            PreconditionUnmet: it did not come true, so nothing can be concluded from this run.
        """
        begun_ns, is_met = time.monotonic_ns(), False
        try:
            took_s = await_precondition(
                condition,
                what=what,
                timeout_s=timeout_s,
                interval_s=interval_s,
                stop=self._context.stop,
            )
            is_met = True
        finally:
            self._note({"event": "wait", "what": what, "begun_ns": begun_ns, "met": is_met})
        return took_s

    def sees(self, condition: Callable[[], object], *, within_s: float) -> float | None:
        """Return after how many seconds a condition came true, or None if it did not.

        For what a claim is about; use `wait_until` for its preconditions.
        """
        try:
            return self.wait_until(condition, what="the condition", timeout_s=within_s)
        except PreconditionUnmet:
            return None

    def wait(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            PreconditionUnmet: the run is being stopped.
        """
        if pause(seconds, self._context.stop):
            raise PreconditionUnmet("the run was interrupted")

    def look(self) -> str:
        """Return leader, ISR and high watermark of each partition, for people."""
        return "\n".join(
            f"partition {number}: " + self._look_at(number)
            for _, number in sorted(self.cluster.metadata().partitions(self.topic))
        )

    def _look_at(self, partition: int) -> str:
        leader = self.leader(partition)
        isr = ", ".join(sorted(map(letter, self.isr(partition))))
        if leader is None:
            return f"no leader · ISR {{{isr}}}"
        try:
            mark = str(self.high_watermark(partition))
        except KafkaChaosError:
            mark = "not told"
        return f"leader {letter(leader)} · ISR {{{isr}}} · high watermark {mark}"

    def require(self, condition: object, what: str) -> None:
        """Go on only if this holds.

        Raises:
            PreconditionUnmet: it does not.
        """
        if not condition:
            raise PreconditionUnmet(what)


def letter(broker: Broker) -> str:
    """Return A for broker 1, B for broker 2, as the scripts of claims name them."""
    return chr(ord("A") + broker.node_id - 1) if broker.node_id <= 26 else str(broker.node_id)
