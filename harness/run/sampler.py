"""The sampler: notes, while a run goes on, how far the partitions are committed, and whose clock.

Every line of samples.jsonl says when a question was asked and when its answer was there, on our
monotonic clock: what was answered held at some moment between the two, and no other clock is
needed to use it.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from harness.cluster.pool import RunCluster
from harness.core.errors import KafkaChaosError
from harness.core.run_dir import Journal
from harness.core.view import Partition, PartitionState
from harness.run.watcher import Watcher

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_REPLICAS_EVERY_S = 5.0
_COUNT = "kafka.cluster:type=Partition,name=InSyncReplicasCount,topic={},partition=*"

States = Callable[[], Mapping[Partition, PartitionState]]


class Sampler:
    """Writes samples.jsonl.

    High watermarks and the clock of the brokers' machine every second, where each replica ends
    every five, and how many replicas a leader itself holds in sync, once its ISR is seen to be too
    small.

    Attributes:
        watcher: starts and stops it.

    Args:
        cluster: who is asked.
        states: what the monitor has seen last.
        min_isr: the contract's min.insync.replicas.
        journal: samples.jsonl.
    """

    def __init__(self, cluster: RunCluster, states: States, min_isr: int, journal: Journal) -> None:
        self._cluster = cluster
        self._states = states
        self._min_isr = min_isr
        self._journal = journal
        self.watcher = Watcher("sampler", self._sample, every_s=_EVERY_S, at_end=self._note_clock)
        self._next_replicas_s = 0.0
        # The states below min.insync.replicas that their leaders have confirmed.
        self._confirmed: dict[Partition, PartitionState] = {}

    def _sample(self) -> None:
        self._note_clock()
        states = self._states()
        self._note_high_watermarks(states)
        if states and time.monotonic() >= self._next_replicas_s:
            self._next_replicas_s = time.monotonic() + _REPLICAS_EVERY_S
            self._note_replicas(sorted({topic for topic, _ in states}))
        self._ask_small(states)

    def _note_clock(self) -> None:
        asked_ns = time.monotonic_ns()
        try:
            shown_ns = self._cluster.host_clock_ns()
        except KafkaChaosError as error:
            log.debug("No clock: %s", error)
            return
        self._write("clock", asked_ns, time.monotonic_ns(), host_ns=shown_ns)

    def _note_high_watermarks(self, states: Mapping[Partition, PartitionState]) -> None:
        led = [partition for partition, state in states.items() if state.leader is not None]
        for (topic, number), mark in self._cluster.high_watermarks(led).items():
            self._write(
                "high-watermark",
                mark.asked_ns,
                mark.answered_ns,
                topic=topic,
                partition=number,
                offset=mark.offset,
                leader_epoch=mark.leader_epoch,
            )

    def _note_replicas(self, topics: Sequence[str]) -> None:
        asked_ns = time.monotonic_ns()
        try:
            ends = self._cluster.replica_ends(topics)
        except KafkaChaosError as error:
            log.debug("No ends of replicas: %s", error)
            return
        answered_ns = time.monotonic_ns()
        for end in ends:
            self._write(
                "replica", asked_ns, answered_ns, broker=end.node_id, topic=end.topic,
                partition=end.partition, log_end=end.log_end, high_watermark=end.high_watermark,
            )  # fmt: skip

    def _ask_small(self, states: Mapping[Partition, PartitionState]) -> None:
        """Ask the leaders of partitions whose ISR is too small whether they know it."""
        for partition, state in states.items():
            if len(state.isr) >= self._min_isr:
                self._confirmed.pop(partition, None)
        small = {
            partition: state
            for partition, state in states.items()
            if state.leader is not None
            and len(state.isr) < self._min_isr
            and self._confirmed.get(partition) != state
        }
        for leader, topic in sorted({(state.leader, of[0]) for of, state in small.items()}):
            broker = next((b for b in self._cluster.brokers if b.node_id == leader), None)
            if broker is None or self.watcher.stopping.is_set():
                continue
            asked_ns = time.monotonic_ns()
            try:
                counts = self._cluster.jmx(broker, _COUNT.format(topic), "Value")
            except KafkaChaosError as error:
                log.debug("Broker %d does not tell its ISRs: %s", leader, error)
                continue
            answered_ns = time.monotonic_ns()
            for name, count in counts.items():
                number = int(name.rsplit("partition=", 1)[1].split(",")[0])
                asked_about = small.get((topic, number))
                if asked_about is None or asked_about.leader != leader:
                    continue
                self._write(
                    "isr-count", asked_ns, answered_ns,
                    broker=leader, topic=topic, partition=number, count=int(count),
                )  # fmt: skip
                if count < self._min_isr:
                    self._confirmed[topic, number] = asked_about

    def _write(self, what: str, asked_ns: int, answered_ns: int, **more: object) -> None:
        if self.watcher.is_stopped:
            # The journal may be closed by now, and nobody waits for the answer any more.
            return
        line = {"sample": what, "asked_ns": asked_ns, "answered_ns": answered_ns, **more}
        self._journal.append(line)
