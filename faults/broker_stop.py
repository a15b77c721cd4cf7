"""The broker is shut down in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from faults.witness import answers, killed, restarted, why_unseen
from harness.core.cluster import Answer, Broker, Processes
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.fault import Evidence, FaultTraits, fault
from harness.core.wait import wait_until

_ENDS_S = 60.0
"""So long after the healing begins a JVM that was told to end is given to do so, seconds."""
_IN_ORDER = (0, 143)
"""What a JVM ends with that was asked to: 128 + SIGTERM, unless something made it 0."""


@fault("broker_stop")
@dataclass(frozen=True, slots=True)
class BrokerStop:
    """SIGTERM the brokers' JVMs and wait for their end; heal by starting them again.

    Stands for a rolling restart: leadership is handed over, logs are flushed and closed.
    Not for a crash: that is broker_kill. A shutdown that takes too long is reported, and not helped
    along with a SIGKILL before the healing has waited for its end in vain: a broker that gives up
    may wait in its shutdown for itself (KAFKA-4039).

    Attributes:
        limit_s: how long the shutdowns may take, seconds.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        stops_process=True,
        ends_lead_by="shutdown",
        proof="the process must end by SIGTERM in time and leave its clean-shutdown marker",
    )

    limit_s: float = 25.0

    def __post_init__(self) -> None:
        """Reject a limit that nothing can meet.

        Raises:
            UsageError: it is not above 0.
        """
        if self.limit_s <= 0:
            raise UsageError(f"limit_s={self.limit_s} is no time: give seconds above 0.")

    def inject(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Stop; the JVMs must end by SIGTERM, listeners refuse, and clean-shutdown markers exist.

        With its marker in each log directory a broker says that everything was flushed and closed;
        it removes an old marker when it starts. Isolated controllers leave none.
        """
        before = {broker: len(cluster.exit_statuses(broker)) for broker in victims}
        for broker in victims:
            cluster.hold_down(broker)
            cluster.signal(broker, "SIGTERM")
        try:
            wait_until(
                lambda: all(len(cluster.exit_statuses(b)) > before[b] for b in victims),
                timeout_s=self.limit_s,
                what="the brokers to shut down",
            )
        except WaitTimeout:
            running = [b.node_id for b in victims if cluster.process_of(b) is not None]
            return Evidence(
                "inject",
                observed=False,
                details={"still_running": running, "limit_s": self.limit_s},
                question="does its shutdown take longer than limit_s?",
            )
        ended = {b.node_id: list(cluster.exit_statuses(b)[before[b] :]) for b in victims}
        gone = all(cluster.process_of(broker) is None for broker in victims)
        listeners = answers(cluster, victims)
        clean = {
            b.node_id: cluster.is_shut_down_cleanly(b) for b in victims if b in cluster.brokers
        }
        in_order = all(len(codes) == 1 and codes[0] in _IN_ORDER for codes in ended.values())
        refused = set(listeners.values()) == {Answer.REFUSED}
        return Evidence(
            "inject",
            observed=gone and in_order and all(clean.values()) and refused,
            details={
                "exit_status": {node: codes[-1] for node, codes in ended.items()},
                "clean_shutdown": clean,
                "listener": listeners,
            },
            question=why_unseen(listeners),
        )

    def heal(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Start, once the old processes have ended; every victim must answer again.

        Those that do not end are killed, and named as `killed`.
        """
        hung = [broker for broker in victims if not _starts(cluster, broker)]
        killed(cluster, hung)
        return restarted(cluster, victims, hung=hung)


def _starts(cluster: Processes, broker: Broker) -> bool:
    try:
        return wait_until(
            lambda: _started(cluster, broker),
            timeout_s=_ENDS_S,
            what=f"broker {broker.node_id} to end, so that it can be started",
        )
    except WaitTimeout:
        return False


def _started(cluster: Processes, broker: Broker) -> bool:
    try:
        cluster.start(broker)
    except ClusterBroken:
        # The agent starts nothing in place of a JVM that was told to end and has not.
        return False
    return True
