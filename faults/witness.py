"""Who can be asked whether a broker still answers."""

from collections.abc import Sequence

from harness.core.cluster import Answer, Broker, Cluster

PROBE_S = 1.0
"""Longer than a JVM on a busy machine needs to answer, seconds."""


def answers(
    cluster: Cluster, victims: Sequence[Broker], *, timeout_s: float = PROBE_S
) -> dict[int, Answer]:
    """Return what each victim's replication listener answers to a neighbour.

    The question is put from inside another node's network, the way replication goes; where the
    victims are all there is, each is asked from its own.
    """
    others = [node for node in cluster.nodes if node not in victims]
    pairs = [(others[0] if others else victim, victim) for victim in victims]
    seen = cluster.probe(pairs, timeout_s=timeout_s)
    return {target: answer for (_, target), answer in seen.items()}
