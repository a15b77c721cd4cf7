"""The broker process dies."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from faults.witness import answers, killed, restarted, why_unseen
from harness.core.cluster import Answer, Broker, Processes
from harness.core.fault import Evidence, FaultTraits, fault


@fault("broker_kill")
@dataclass(frozen=True, slots=True)
class BrokerKill:
    """SIGKILL the brokers' JVMs; heal by starting them again.

    Stands for a crashed process or an out-of-memory kill: connections are reset, the host stays.
    Not for a power cut: the page cache survives, so records that were acknowledged but not
    flushed come back.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        stops_process=True,
        ends_lead_by="crash",
        proof="the process must be gone and the listener refuse, then answer again",
    )

    def inject(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Kill; the kernel must no longer have the processes, and the listeners must refuse."""
        before = killed(cluster, victims)
        listeners = answers(cluster, victims)
        return Evidence(
            "inject",
            observed=all(before.values()) and set(listeners.values()) == {Answer.REFUSED},
            details={
                "process_before": {node: p and asdict(p) for node, p in before.items()},
                "process_after": None,
                "listener": listeners,
            },
            question=why_unseen(
                listeners, answered="was the broker started again by somebody else?"
            ),
        )

    def heal(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Start; every victim must have a process again, and answer."""
        return restarted(cluster, victims)
