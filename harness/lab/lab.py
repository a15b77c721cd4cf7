"""The lab: the few words in which claims are scripted.

Every deed is journaled before it is done and observed before the next; every wait is bounded, and
one that ends without its condition is a precondition that was not met: the claim is then UNKNOWN.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.gc_pause import GcPause
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.core.cluster import Broker, Listener
from harness.core.contract import Contract
from harness.core.errors import PreconditionUnmet
from harness.core.fault import Evidence, Fault, describe
from harness.core.run_dir import Journal
from harness.core.schedule import Mix
from harness.core.workload import ClientSpec
from harness.lab.clients import Batch, LabConsumer, LabProducer
from harness.lab.groups import LabGroup
from harness.lab.questions import WAIT_S, Sight, letter
from harness.run.context import Stage
from harness.run.injector import Active, Header, Injector
from workloads.client_config import Isolation, consumer_config, producer_config
from workloads.outcome import single_attempt
from workloads.record import HEADER_BYTES

_HOLD_S = 240.0
"""So long may a fault of a script stay in force before the agent takes it back, seconds."""
_FIRST_CONSUMER = 100


class Lab(Sight):
    """What a script can do and ask; one topic, called after its claim.

    Args:
        stage: the cluster and the folder.
        contract: of the claim.
    """

    def __init__(self, stage: Stage, contract: Contract) -> None:
        super().__init__(stage)
        self._contract = contract
        self._faults = Journal(stage.run_dir.path / "faults.jsonl")
        self._notes = Journal(stage.run_dir.path / "lab.jsonl")
        self._injector = Injector(
            cluster=stage.cluster, journal=self._faults, tell=stage.progress.say
        )
        self._count = 0
        self._begin = time.monotonic()
        self._producers: dict[tuple[Contract, int, tuple[tuple[str, Any], ...]], LabProducer] = {}
        self._next_producer, self._next_consumer = 0, _FIRST_CONSUMER

    # -- records -----------------------------------------------------------------------------------

    def producer(
        self,
        *,
        partition: int = 0,
        config: dict[str, Any] | None = None,
        record_size_bytes: int = 100,
        **contract: Any,  # noqa: ANN401 (fields of Contract)
    ) -> LabProducer:
        """Return the producer with these settings, started if need be.

        Args:
            partition: where it writes to.
            config: settings of librdkafka beyond what follows from the contract.
            record_size_bytes: length of a record's value.
            contract: fields of `Contract` in which it differs from the claim's.
        """
        promised = replace(self._contract, **contract)
        key = (promised, partition, (*(config or {}).items(), ("size", record_size_bytes)))
        if key not in self._producers:
            settings = {
                "topic": self.topic,
                "partition": partition,
                "record_size_bytes": max(record_size_bytes, HEADER_BYTES),
                "single_attempt": single_attempt(promised),
                "flush_s": promised.delivery_timeout_ms / 1000 + 2.0,
                "interval_s": 0.5,
                "config": {**producer_config(promised), **(config or {})},
            }
            spec = ClientSpec(
                process=self._next_producer,
                role="producer",
                module="workloads.scripted_producer",
                settings=settings,
            )
            self._next_producer += 1
            (client,) = self._stage.start_clients([spec])
            self._producers[key] = LabProducer(client, self._note)
        return self._producers[key]

    def produce(self, name: str, count: int, *, timeout_s: float = WAIT_S, **how: Any) -> Batch:  # noqa: ANN401
        """Send records and wait for their outcome; keywords are those of `producer`."""
        return self.producer(**how).send(name, count, timeout_s=timeout_s)

    def consumer(
        self, *, partition: int = 0, isolation: Isolation = "read_uncommitted"
    ) -> LabConsumer:
        """Start a consumer that reads a partition from its beginning."""
        spec = ClientSpec(
            process=self._next_consumer,
            role="consumer",
            module="workloads.consumer",
            settings={
                "mode": "assign",
                "topic": self.topic,
                "partitions": [partition],
                "interval_s": 0.5,
                "config": consumer_config(isolation),
            },
        )
        self._next_consumer += 1
        (client,) = self._stage.start_clients([spec])
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
        """Return a consumer group, without members yet.

        Args:
            name: the group is called after the topic and this.
            commits: how its members commit, see `workloads.group_member`.
            poll_records: at most so many records a poll.
            commit_every: members that commit after processing do so after so many records.
            process_s: how long the processing of a record takes, seconds.
            config: settings of librdkafka beyond those of every subscriber.
        """
        settings = {
            "poll_records": poll_records,
            "poll_s": 0.5,
            "commit_every": commit_every,
            "process_s": process_s,
        }
        return LabGroup(
            self._stage,
            f"{self.topic}-{name}",
            commits=commits,
            settings=settings,
            config=config or {},
            note=self._note,
        )

    # -- faults ------------------------------------------------------------------------------------

    def inject(self, fault: Fault, *victims: Broker, hold_s: float = _HOLD_S) -> Active:
        """Put a fault in force and return it, for `heal`.

        Raises:
            PreconditionUnmet: no witness saw it.
        """
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
            raise PreconditionUnmet(f"fault {header.fault_id}, {header.name}, was not witnessed")
        return active

    def heal(self, *faults: Active) -> list[Evidence]:
        """Take faults back and return what was seen."""
        return [self._injector.heal(fault) for fault in faults]

    def kill(self, *brokers: Broker) -> Active:
        """SIGKILL brokers."""
        return self.inject(BrokerKill(), *brokers)

    def stop(self, *brokers: Broker) -> Active:
        """Stop brokers in order: SIGTERM, and a controlled shutdown."""
        return self.inject(BrokerStop(), *brokers)

    def power_loss(
        self, broker: Broker, *, offset: int | None = None, partition: int = 0
    ) -> Active:
        """Kill a broker and cut the unflushed end of its log of the partition under test.

        Args:
            broker: who loses power.
            offset: the first one to be lost, not below the recovery point; None for that point.
            partition: of the topic under test.
        """
        fault = PowerLoss(topic=self.topic, partition=partition, offset=offset)
        return self.inject(fault, broker)

    def pause(self, *brokers: Broker) -> Active:
        """SIGSTOP brokers."""
        return self.inject(BrokerPause(), *brokers)

    def collect_garbage(self, broker: Broker, *, for_s: float) -> Active:
        """Let a broker collect garbage back to back: a real pause of the whole JVM."""
        return self.inject(GcPause(), broker, hold_s=for_s)

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
            quiet: the links carry nothing at the time, so no lost packet can be waited for.
        """
        groups = ((broker.node_id,), tuple(other.node_id for other in others))
        fault = Partition(listener=listener, groups=groups, quiet=quiet)
        return self.inject(fault, broker, *others)

    def nemesis(self, mix: Mix, *, for_s: float) -> None:
        """Deal faults as the seed has it, one at a time, each to a cluster that is whole.

        It takes longer than `for_s` where the cluster is slow to recover.

        Raises:
            PreconditionUnmet: nobody was there to be hit, or no witness saw it.
        """
        random = Random(self._stage.seed)  # noqa: S311
        begin = time.monotonic()
        for step in mix.steps(random, for_s):
            self.wait(begin + step.at_s - time.monotonic())
            self.await_whole(timeout_s=2 * WAIT_S)
            victims = step.target.choose(self.cluster, random)
            self.require(victims, f"there was nobody to hit with {describe(step.fault)['name']}")
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
            if not isinstance(active.fault, Partition) and set(active.victims) & set(brokers)
        ]

    def leave_down(self, *brokers: Broker) -> None:
        """Leave brokers as they are to the end of the run: nobody starts or waits for them."""
        for active in self._down(brokers):
            self._injector.active.remove(active)
        self._stage.left_down |= {broker.node_id for broker in brokers}
        self._note({"event": "left", "brokers": [broker.node_id for broker in brokers]})

    # -- notes -------------------------------------------------------------------------------------

    def observe(self, name: str, value: Any) -> None:  # noqa: ANN401 (a JSON value)
        """Note a fact for the judgement; a name may be used again, for several samples."""
        self._note({"event": "fact", "name": name, "value": value})
        self._stage.progress.say(f"observed {name}: {value}")

    def finish(self) -> None:
        """Heal all that is still in force, and close the journals.

        Raises:
            HealFailed: something could not be taken back.
        """
        try:
            self._injector.heal_all()
        finally:
            self._faults.close()
            self._notes.close()

    def note_unmet(self, what: str) -> None:
        """Note a precondition that was not observed."""
        self._note({"event": "unmet", "what": what})

    def _note(self, entry: dict[str, Any]) -> None:
        self._notes.append({"time_ns": time.monotonic_ns(), **entry})
