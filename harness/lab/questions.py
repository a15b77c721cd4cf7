"""What a script can see and wait for: what Kafka says, and what lies on the brokers' disks."""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.topology import FIRST_CONTROLLER, ZOOKEEPER_ID
from harness.core.cluster import Broker
from harness.core.errors import PreconditionUnmet, WaitTimeout
from harness.core.version import Versions
from harness.core.wait import pause, wait_until
from harness.run.context import Stage
from verifiers.replicas.checkpoints import epochs_in, offsets_in
from verifiers.replicas.isr_changes import IsrChange, isr_changes_in
from verifiers.replicas.segments import parse

WAIT_S = 60.0
"""The longest that a state is waited for unless a script says otherwise, seconds."""
POLL_S = 0.05
"""How often the lab looks, seconds."""


def await_precondition(
    condition: Callable[[], object],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = POLL_S,
    stop: threading.Event | None = None,
) -> None:
    """Wait for what a script needs.

    Raises:
        PreconditionUnmet: it did not come true, so nothing can be concluded from this run.
    """
    try:
        wait_until(condition, timeout_s=timeout_s, interval_s=interval_s, what=what, stop=stop)
    except WaitTimeout as error:
        raise PreconditionUnmet(str(error)) from error


class Sight:
    """Asks Kafka and reads the brokers' disks; changes nothing.

    Args:
        stage: the cluster and the folder.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    # -- who there is ------------------------------------------------------------------------------

    @property
    def cluster(self) -> DockerCluster:
        """The cluster, for what the words below do not say."""
        return self._stage.cluster

    @property
    def topic(self) -> str:
        """The topic under test."""
        return self._stage.topics[0]

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
            node for node in self.cluster.nodes if FIRST_CONTROLLER <= node.node_id < ZOOKEEPER_ID
        )

    # -- what Kafka says ---------------------------------------------------------------------------

    def leader(self, partition: int = 0) -> Broker | None:
        """Return the leader, or None while there is none."""
        return self.cluster.leader_of(self.topic, partition)

    def isr(self, partition: int = 0) -> frozenset[Broker]:
        """Return the in-sync replicas."""
        return frozenset(self.cluster.isr_of(self.topic, partition))

    def await_leader(
        self, broker: Broker, *, partition: int = 0, timeout_s: float = WAIT_S
    ) -> float:
        """Wait until this broker leads; return how long that took, seconds."""
        return self.wait_until(
            lambda: self.leader(partition) == broker,
            what=f"{letter(broker)} to lead",
            timeout_s=timeout_s,
        )

    def await_failover(
        self, broker: Broker, *, partition: int = 0, timeout_s: float = WAIT_S
    ) -> Broker:
        """Wait until another broker leads, and return it."""
        seen: list[Broker] = []

        def is_another() -> bool:
            leader = self.leader(partition)
            if leader is None or leader == broker:
                return False
            # Asked again, somebody might answer who has not heard of it yet.
            seen.append(leader)
            return True

        what = f"another leader than {letter(broker)}"
        self.wait_until(is_another, what=what, timeout_s=timeout_s)
        return seen[-1]

    def await_end_of_lead(
        self, broker: Broker, *, known_by: Sequence[Broker], timeout_s: float = WAIT_S
    ) -> float:
        """Wait until a broker leads no more and none of these names it; return how long that took.

        Any broker may be asked who leads, and they hear of a change one after the other.
        """
        return self.wait_until(
            lambda: (
                self.leader() != broker
                and all(self.leader_known_by(other) != broker for other in known_by)
            ),
            what=f"the lead of {letter(broker)} to end",
            timeout_s=timeout_s,
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

    def await_isr_at_leader(
        self, brokers: Collection[Broker], *, partition: int = 0, timeout_s: float = WAIT_S
    ) -> float:
        """Wait until the ISR is exactly these, and the leader acts on it.

        A controller that takes a replica out of the ISR writes it down before it tells the leader,
        which goes by the old ISR until then.
        """
        begin = time.monotonic()
        self.await_isr(brokers, partition=partition, timeout_s=timeout_s)
        count = "kafka.cluster:type=Partition,name=InSyncReplicasCount"
        name = f"{count},topic={self.topic},partition={partition}"

        def counted() -> bool:
            leader = self.leader(partition)
            if leader is None:
                return False
            return list(self.cluster.jmx(leader, name, "Value").values()) == [len(brokers)]

        self.wait_until(
            counted,
            what=f"the leader to count {len(brokers)} in-sync replicas",
            timeout_s=timeout_s,
        )
        return time.monotonic() - begin

    def await_unregistered(self, *brokers: Broker, timeout_s: float = WAIT_S) -> float:
        """Wait until the cluster has given these brokers up, or nobody is left to ask."""
        names = ", ".join(letter(broker) for broker in brokers)
        return self.wait_until(
            lambda: not self.cluster.registered() & {broker.node_id for broker in brokers},
            what=f"the registration of {names} to end",
            timeout_s=timeout_s,
        )

    def await_whole(self, *, timeout_s: float = WAIT_S) -> float:
        """Wait until every broker is registered and every ISR is full."""
        return self.wait_until(
            lambda: self.cluster.is_whole(self._stage.topics, without=self._stage.left_down),
            what="the cluster to be whole",
            timeout_s=timeout_s,
        )

    def leader_known_by(self, broker: Broker, partition: int = 0) -> Broker | None:
        """Return the leader that a broker itself would name to its clients, or None."""
        return self.cluster.leader_known_by(broker, self.topic, partition)

    def await_follower(self, broker: Broker, *, of: Broker, timeout_s: float = WAIT_S) -> float:
        """Wait until a broker has heard that another one leads; return how long that took."""
        return self.wait_until(
            lambda: self.leader_known_by(broker) == of,
            what=f"{letter(broker)} to know {letter(of)} as leader",
            timeout_s=timeout_s,
        )

    def high_watermark(self, partition: int = 0) -> int:
        """Return how far consumers can read at this moment, as the leader tells them."""
        return self.cluster.admin.end_offset(self.topic, partition)

    def isr_changes(self, leader: Broker) -> list[IsrChange]:
        """Return every change of the topic's ISRs that a leader has announced in its own log."""
        changes = isr_changes_in(self.cluster.said(leader))
        return [change for change in changes if change.topic == self.topic]

    def timeline(self) -> list[Mapping[str, Any]]:
        """Return who led and who was in the ISR, and when we saw it: the lines of timeline.jsonl.

        Another thread asks the metadata, about four times a second.
        """
        return list(self._stage.run_dir.lines("timeline.jsonl"))

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

    def await_high_watermark(
        self, offset: int | None, *, on: Sequence[Broker], timeout_s: float = WAIT_S
    ) -> float:
        """Wait until these brokers have written this high watermark down."""
        names = ", ".join(letter(broker) for broker in on)
        return self.wait_until(
            lambda: all(
                self.checkpoint(broker, "replication-offset-checkpoint") == offset for broker in on
            ),
            what=f"high watermark {offset} on the disks of {names}",
            timeout_s=timeout_s,
        )

    # -- time --------------------------------------------------------------------------------------

    def wait_until(
        self, condition: Callable[[], object], *, what: str, timeout_s: float = WAIT_S
    ) -> float:
        """Wait for a condition; return how long that took, seconds.

        Raises:
            PreconditionUnmet: it did not come true, so nothing can be concluded from this run.
        """
        begin = time.monotonic()
        await_precondition(condition, what=what, timeout_s=timeout_s, stop=self._stage.stop)
        return time.monotonic() - begin

    def sees(self, condition: Callable[[], object], *, within_s: float) -> float | None:
        """Return after how many seconds a condition came true, or None if it did not.

        For what a claim is about; for what it needs, there is `wait_until`.
        """
        begin = time.monotonic()
        try:
            wait_until(
                condition, timeout_s=within_s, interval_s=POLL_S, what="it", stop=self._stage.stop
            )
        except WaitTimeout:
            return None
        return time.monotonic() - begin

    def wait(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            PreconditionUnmet: the run is being stopped.
        """
        if pause(seconds, self._stage.stop):
            raise PreconditionUnmet("the run was interrupted")

    def require(self, condition: object, what: str) -> None:
        """Go on only if this holds.

        Raises:
            PreconditionUnmet: it does not.
        """
        if not condition:
            raise PreconditionUnmet(what)


def letter(broker: Broker) -> str:
    """Return A for broker 1, B for broker 2, as recipes call them."""
    return chr(ord("A") + broker.node_id - 1) if broker.node_id <= 26 else str(broker.node_id)
