"""Brokers that have ended, or never come to the end of it, though nothing breaks them."""

import time
from collections.abc import Collection

from harness.core.cluster import Nodes

_LOOK_S = 2.0
_GONE_S = 10.0
"""A broker that is not there so long after everything was healed does not come back, seconds."""


class EndedBrokers:
    """Tells, while nothing is broken, whether a broker has ended by itself: nobody starts it again.

    Attributes:
        nodes: the ids of those that were gone at the last look.

    Args:
        cluster: who is looked at.
        left_down: node ids of brokers that are broken on purpose.
    """

    def __init__(self, cluster: Nodes, left_down: Collection[int] = ()) -> None:
        self.nodes: tuple[int, ...] = ()
        self._cluster = cluster
        self._left_down = frozenset(left_down)
        self._since_s = self._looked_s = 0.0

    def for_good(self) -> bool:
        """Return whether some have been gone for a while; the kernels are asked now and then."""
        now_s = time.monotonic()
        rested_s = now_s - self._looked_s
        if rested_s < _LOOK_S:
            return False
        self._looked_s = now_s
        running = self._cluster.running()
        ending = self._cluster.ending(running)
        there = {broker.node_id for broker in running if broker not in ending} | self._left_down
        before = self.nodes
        self.nodes = tuple(b.node_id for b in self._cluster.brokers if b.node_id not in there)
        # What was seen long ago may have been a fault's doing.
        if self.nodes != before or rested_s > _GONE_S:
            self._since_s = now_s
        return bool(self.nodes) and now_s - self._since_s > _GONE_S
