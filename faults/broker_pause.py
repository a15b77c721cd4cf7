"""The broker process is frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from faults.witness import answers, await_answers, why_unseen
from harness.core.cluster import Answer, Broker, Processes
from harness.core.fault import Evidence, FaultTraits, fault
from harness.core.wait import wait_until

_SOON_S = 10.0
_THAW_S = 60.0


@fault("broker_pause")
@dataclass(frozen=True, slots=True)
class BrokerPause:
    """SIGSTOP the brokers' JVMs; heal with SIGCONT.

    Stands for a stalled virtual machine, a hung disk, a debugger: connections stay open and are
    silent. Not for garbage collection, where the kernel still runs the JVM's other threads: that
    is gc_pause.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        stops_process=True,
        proof="the kernel must show the process stopped and a probe stay unanswered",
    )

    def inject(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Stop; the kernel must show the processes as stopped, and probes must stay unanswered."""
        for broker in victims:
            cluster.signal(broker, "SIGSTOP")
        wait_until(
            lambda: set(_states(cluster, victims).values()) == {"T"},
            timeout_s=_SOON_S,
            what="the kernel to show the brokers as stopped",
            interval_s=0.05,
        )
        listeners = answers(cluster, victims)
        return Evidence(
            "inject",
            observed=set(listeners.values()) == {Answer.SILENT},
            details={"process_state": _states(cluster, victims), "listener": listeners},
            question=why_unseen(listeners),
        )

    def heal(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        """Continue; no process may be stopped any more, and every one must answer."""
        for broker in victims:
            cluster.signal(broker, "SIGCONT")
        await_answers(cluster, victims, timeout_s=_THAW_S)
        states = _states(cluster, victims)
        return Evidence(
            "heal",
            observed=not {"T", "none"} & set(states.values()),
            details={"process_state": states},
        )


def _states(cluster: Processes, victims: Sequence[Broker]) -> dict[int, str]:
    processes = {broker.node_id: cluster.process_of(broker) for broker in victims}
    return {node: process.state if process else "none" for node, process in processes.items()}
