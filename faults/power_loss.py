"""The broker loses power, and with it what it had not flushed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from faults.witness import answers, killed, restarted, why_unseen
from harness.core.cluster import Answer, Broker, CutLog, Disks, Processes
from harness.core.errors import ClusterBroken, UsageError
from harness.core.fault import Evidence, FaultTraits, fault


class Machines(Processes, Disks, Protocol):
    """Processes and the disks that they write to."""


@fault("power_loss")
@dataclass(frozen=True, slots=True)
class PowerLoss:
    """SIGKILL the brokers' JVMs and cut the unflushed ends of their logs; heal by starting them.

    Stands for a machine that loses power: what was acknowledged and lay in the page cache only is
    gone. By default it is the worst power cut that a broker must reckon with: each log ends at
    the first batch boundary at or above its recovery point, below which the broker has written
    down that all is flushed. It writes that down once a minute, so what it flushed since then,
    when a segment was full, counts as not flushed. Not for a damaged disk: nothing below the
    recovery point is touched, nor the metadata log, which KRaft flushes. The cut is final: the
    healing starts the broker, and other replicas give back what they have.

    Attributes:
        topic: only its logs; None for all, internal topics too.
        partition: only this partition of the topic.
        offset: cut at the first boundary at or above it; None for the recovery point.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        stops_process=True,
        destroys_data=True,
        ends_lead_by="power loss",
        proof="something must lie above the recovery point, to be cut from the files",
    )

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        """Reject a partition or an offset that is not wholly named.

        Raises:
            UsageError: a partition without its topic, or an offset without its partition.
        """
        if (self.partition is not None and self.topic is None) or (
            self.offset is not None and self.partition is None
        ):
            raise UsageError("A partition needs its topic, and an offset needs its partition.")

    def inject(self, cluster: Machines, victims: Sequence[Broker]) -> Evidence:
        """Kill and cut; processes must be gone, and every victim's files shorter by what was cut.

        Raises:
            ClusterBroken: nothing was cut: the offset lies below the recovery point, or there is
                no such log.
        """
        processes = killed(cluster, victims)
        cut: dict[int, tuple[CutLog, ...]] = {}
        shorter: dict[int, bool] = {}
        failure = ""
        for broker in victims:
            before = cluster.log_sizes(broker)
            try:
                logs = cluster.cut_tail(
                    broker, topic=self.topic, partition=self.partition, offset=self.offset
                )
            except ClusterBroken as error:
                if not any(cut.values()) and cluster.log_sizes(broker) == before:
                    raise
                # Data is gone, and whoever judges what was lost has to know it.
                failure = str(error)
                break
            cut[broker.node_id] = logs = tuple(log for log in logs if log.bytes_cut)
            after = cluster.log_sizes(broker)
            missing = {log: before[log] - after.get(log, 0) for log in before}
            shorter[broker.node_id] = bool(logs) and all(
                missing.get((log.topic, log.partition)) == log.bytes_cut for log in logs
            )
        listeners = answers(cluster, victims)
        return Evidence(
            "inject",
            observed=(
                all(processes.values())
                and set(listeners.values()) == {Answer.REFUSED}
                and len(shorter) == len(victims)
                and all(shorter.values())
            ),
            details={
                "process_after": None,
                "listener": listeners,
                "cut": {node: _by_log(logs) for node, logs in cut.items()},
                "files_shorter": shorter,
                **({"error": failure} if failure else {}),
            },
            question=why_unseen(listeners) or "was everything flushed, or nothing written?",
        )

    def heal(self, cluster: Machines, victims: Sequence[Broker]) -> Evidence:
        """Start; every victim must have a process again, and answer."""
        return restarted(cluster, victims)


def _by_log(logs: Sequence[CutLog]) -> Mapping[str, Mapping[str, Any]]:
    return {
        f"{log.topic}-{log.partition}": {
            "recovery_point": log.recovery_point,
            "end_before": log.end_before,
            "end_after": log.end_after,
            "bytes": log.bytes_cut,
        }
        for log in logs
    }
