"""Who can be asked whether a broker still answers."""

from collections.abc import Sequence

from harness.core.cluster import Answer, Broker, Cluster

PROBE_S = 1.0
"""Longer than a JVM on a busy machine needs to answer, seconds."""


def answers(
    cluster: Cluster, victims: Sequence[Broker], *, timeout_s: float = PROBE_S
) -> dict[int, Answer]:
    """Return what each victim's replication listener answers, by node id.

    Each is asked from its own network: the question is whether the process lives, and a
    partition that is in force at the same time must not answer in its place.
    """
    seen = cluster.probe([(victim, victim) for victim in victims], timeout_s=timeout_s)
    return {target: answer for (_, target), answer in seen.items()}
