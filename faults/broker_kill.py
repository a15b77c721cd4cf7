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
        proof="the process must be gone and the listener refuse, then answer again",
    )

    def inject(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Kill; the kernel must no longer have the processes, and the listeners must refuse."""
        before = {b.node_id: cluster.process_of(b) for b in victims}
        killed(cluster, victims)
        seen = answers(cluster, victims)
        was_running = [node for node, process in before.items() if process is not None]
        refused = [node for node, answer in seen.items() if answer is Answer.REFUSED]
        return Evidence(
            "inject",
            observed=len(was_running) == len(refused) == len(victims),
            details={
                "process_before": {n: p and asdict(p) for n, p in before.items()},
                "process_after": None,
                "listener": {node: str(answer) for node, answer in seen.items()},
            },
            question=why_unseen(seen, answered="was the broker started again by somebody else?"),
        )

    def heal(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Start; every victim must have a process again, and answer."""
        return restarted(cluster, victims)
