"""The broker does nothing but collect garbage."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.cluster import Broker, Cluster
from harness.core.errors import UsageError, WaitTimeout
from harness.core.fault import Evidence, fault
from harness.core.wait import wait_until

_FIRST_PAUSE_S = 10.0


@fault("gc_pause")
@dataclass(frozen=True, slots=True)
class GcPause:
    """Make the brokers' JVMs collect garbage back to back, for the time that the fault is held.

    Stands for a heap that is too small: real stop-the-world pauses, with a few microseconds
    between them in which threads may run. Not for a frozen machine: that is broker_pause.

    Attributes:
        share: part of the held time that the pauses in the broker's own GC log must add up to.
    """

    share: float = 0.8

    def __post_init__(self) -> None:
        """Reject a share that proves nothing or cannot be.

        Raises:
            UsageError: the share is not in (0, 1].
        """
        if not 0 < self.share <= 1:
            raise UsageError(f"share={self.share} is not a part of the time: 0 < share ≤ 1.")

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """Begin; every victim's own GC log must show a pause."""
        # It goes on until it is healed, or its lease ends: were it to last for the hold alone, it
        # would be over before a hold that counts from the first pause seen.
        for broker in victims:
            cluster.collect_garbage(broker, duration_s=cluster.lease.limit_s)
        try:
            wait_until(
                lambda: all(cluster.gc_pauses_s(broker) for broker in victims),
                timeout_s=_FIRST_PAUSE_S,
                what="a first pause in the GC logs",
            )
        except WaitTimeout:
            begun = False
        else:
            begun = True
        return Evidence("inject", observed=begun, details=_pauses(cluster, victims))

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        """End; the logged pauses must add up to the share of the time held."""
        for broker in victims:
            cluster.end_collections(broker)
        details = _pauses(cluster, victims)
        wanted_s = self.share * cluster.lease.hold_s
        return Evidence(
            "heal",
            observed=all(seen["total_s"] >= wanted_s for seen in details.values()),
            details={**details, "wanted_s": round(wanted_s, 3)},
        )


def _pauses(cluster: Cluster, victims: Sequence[Broker]) -> dict[str, dict[str, float]]:
    seen = {broker.node_id: cluster.gc_pauses_s(broker) for broker in victims}
    return {
        f"broker_{node}": {
            "pauses": len(pauses),
            "total_s": round(sum(pauses), 3),
            "longest_s": round(max(pauses, default=0.0), 3),
        }
        for node, pauses in seen.items()
    }
