"""The broker does nothing but collect garbage."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from harness.core.cluster import Broker, GarbageCollections
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.fault import Evidence, FaultTraits, fault
from harness.core.wait import wait_until

_FIRST_PAUSE_S = 10.0
_MARGIN_S = 6.0
_MOST_LONGER_S = 18.0
"""Collections go on for so much longer, at most, where pauses are lacking."""
_MORE = 1.1
"""What the JVM counts as collecting is more than what it logs as pauses."""
_END_S = 60.0
_QUESTION = "was the JVM busy, paused or killed by something else?"


@fault("gc_pause")
@dataclass(frozen=True, slots=True)
class GcPause:
    """Make the brokers' JVMs collect garbage back to back, for the time that the fault is held.

    Stands for a heap that is too small: real stop-the-world pauses, with a few microseconds
    between them in which threads may run. Not for a frozen machine: that is broker_pause.

    Attributes:
        share: part of the held time that the pauses in the broker's own GC log must add up to.
        nodes: length of the list that each collection must follow, 16 bytes of heap each: the
            longer, the longer is each pause. 50 to 60 million took 1 s on a quiet machine, and 12 s
            on a busy one. 0: 2 million, for pauses of tenths of a second, between which a request
            slips through now and then.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        proof="the pauses in the broker's GC log must add up to most of the time held"
    )

    share: float = 0.8
    nodes: int = 0

    def __post_init__(self) -> None:
        """Reject a share that proves nothing or cannot be.

        Raises:
            UsageError: the share is not in (0, 1], or there are fewer than no nodes.
        """
        if not 0 < self.share <= 1:
            raise UsageError(f"share={self.share} is not a part of the time: 0 < share ≤ 1.")
        if self.nodes < 0:
            raise UsageError(f"nodes={self.nodes} is no length of a list.")

    def inject(self, cluster: GarbageCollections, victims: Sequence[Broker]) -> Evidence:
        """Begin; every victim's own GC log must show a pause."""
        # It lasts longer than the hold, which counts from the first pause that is seen, and ends
        # by itself: a JVM that does nothing but collect may not take the command to stop.
        hold_s = cluster.lease.hold_s
        for broker in victims:
            cluster.collect_garbage(
                broker,
                duration_s=_usual_s(hold_s),
                nodes=self.nodes,
                pauses_s=_MORE * self.share * hold_s,
            )
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
        return Evidence(
            "inject", observed=begun, details=_pauses(cluster, victims), question=_QUESTION
        )

    def heal(self, cluster: GarbageCollections, victims: Sequence[Broker]) -> Evidence:
        """End; the logged pauses must add up to the share of the time held.

        On a busy machine the other threads take longer between two pauses. The missing pauses are
        then waited for, as long as the collections go on by themselves after the hold.
        """
        hold_s = cluster.lease.hold_s
        wanted_s = self.share * hold_s
        # A broker that has logged no pause is not waited for: no collections began there.
        with suppress(WaitTimeout):
            wait_until(
                lambda: all(
                    not pauses or sum(pauses) >= wanted_s
                    for pauses in map(cluster.gc_pauses_s, victims)
                ),
                timeout_s=_most_s(hold_s) - hold_s,
                what="the pauses to add up",
            )
        for broker in victims:
            wait_until(
                lambda broker=broker: _ended(cluster, broker),  # type: ignore[misc]  # a default hides the type
                timeout_s=_END_S,
                what=f"broker {broker.node_id} to end its collections",
                interval_s=1.0,
            )
        details = _pauses(cluster, victims)
        return Evidence(
            "heal",
            observed=all(pauses["total_s"] >= wanted_s for pauses in details.values()),
            details={**details, "wanted_s": round(wanted_s, 3)},
            question=_QUESTION,
        )


def _usual_s(hold_s: float) -> float:
    """Return for how long collections go on where no pause is lacking by then, seconds."""
    return hold_s + min(hold_s, _MARGIN_S)


def _most_s(hold_s: float) -> float:
    """Return for how long they go on where pauses are lacking, seconds."""
    usual_s = _usual_s(hold_s)
    return usual_s + min(2 * usual_s, _MOST_LONGER_S)


def _ended(cluster: GarbageCollections, broker: Broker) -> bool:
    try:
        cluster.end_collections(broker)
    except ClusterBroken:
        return False
    return True


def _pauses(cluster: GarbageCollections, victims: Sequence[Broker]) -> dict[str, dict[str, float]]:
    pauses_by_node = {broker.node_id: cluster.gc_pauses_s(broker) for broker in victims}
    return {
        f"broker_{node}": {
            "pauses": len(pauses),
            "total_s": round(sum(pauses), 3),
            "longest_s": round(max(pauses, default=0.0), 3),
        }
        for node, pauses in pauses_by_node.items()
    }
