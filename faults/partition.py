"""The network between brokers is cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import ClassVar

from faults.witness import by_link, mended, swallowed
from harness.core.cluster import Answer, Broker, Links, Listener
from harness.core.errors import UsageError
from harness.core.fault import Evidence, FaultTraits, fault

_PROBE_S = 0.5

Pairs = list[tuple[Broker, Broker]]


@fault("partition")
@dataclass(frozen=True, slots=True)
class Partition:
    """Swallow every packet between groups of nodes, both ways.

    Stands for a failed switch or link: silence, not refusals; established connections hang.
    Clients still reach every broker. Not for a slow or lossy network.

    Attributes:
        listener: "all" traffic between the groups, or only what goes to the "replication" or to
            the "controller" listener: brokers that cannot copy from each other and still
            heartbeat, or the reverse.
        groups: node ids of each side; a node in no group keeps all its links. Empty: the victims
            on one side and all other nodes on the other.
        quiet: the links may carry nothing at the time: that probes are swallowed and get no
            answer is then proof enough of the cut.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        cuts_links=True,
        proof="packets must have been dropped and probes unanswered: an idle link shows neither",
    )

    listener: Listener = "all"
    groups: tuple[tuple[int, ...], ...] = ()
    quiet: bool = False

    def __post_init__(self) -> None:
        """Reject groups that overlap, or that are alone.

        Raises:
            UsageError: naming the groups.
        """
        members = [node for group in self.groups for node in group]
        if len(members) != len(set(members)) or len(self.groups) == 1:
            raise UsageError(
                f"The groups {self.groups} make no partition: name two or more, "
                "and each node in one of them at most."
            )

    def inject(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Cut; rules must have swallowed the cluster's own packets, and probes must get nothing."""
        pairs = self._pairs(cluster, victims)
        cluster.cut(pairs, listener=self.listener)
        # Of quiet links only our own probes, below, can be swallowed.
        dropped = 0 if self.quiet else swallowed(cluster)
        probes = self._probe(cluster, pairs)
        if self.quiet:
            dropped = cluster.dropped_packets()
        blocked = self.listener == "controller" or set(probes.values()) == {Answer.UNREACHABLE}
        return Evidence(
            "inject",
            observed=dropped > 0 and blocked,
            details={"dropped_packets": dropped, "probes": by_link(probes)},
            question="was the topic idle?" if dropped == 0 else "",
        )

    def heal(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Mend; every link must carry packets again, if only to a process that refuses them."""
        return mended(cluster, self._pairs(cluster, victims), probe_s=_PROBE_S)

    def _pairs(self, cluster: Links, victims: Sequence[Broker]) -> Pairs:
        pairs = self._all_pairs(cluster, victims)
        if self.listener != "replication":
            return pairs
        # Nothing is replicated to controllers or ZooKeeper: those links stay, and answer.
        brokers = set(cluster.brokers)
        return [pair for pair in pairs if brokers.issuperset(pair)]

    def _all_pairs(self, cluster: Links, victims: Sequence[Broker]) -> Pairs:
        if not self.groups:
            rest = [node for node in cluster.nodes if node not in victims]
            return list(product(victims, rest))
        nodes = {node.node_id: node for node in cluster.nodes}
        unknown = {node for group in self.groups for node in group} - set(nodes)
        if unknown:
            raise UsageError(f"The cluster has no nodes {sorted(unknown)}: it has {sorted(nodes)}.")
        sides = [[nodes[node] for node in group] for group in self.groups]
        return [pair for left, right in combinations(sides, 2) for pair in product(left, right)]

    @staticmethod
    def _probe(cluster: Links, pairs: Pairs) -> dict[tuple[int, int], Answer]:
        both_ways = [*pairs, *((second, first) for first, second in pairs)]
        return cluster.probe(both_ways, timeout_s=_PROBE_S)
