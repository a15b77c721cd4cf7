"""Two brokers cannot copy from each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from faults.link import ends_of
from faults.witness import by_link, mended, swallowed
from harness.core.cluster import Answer, Broker, Links
from harness.core.fault import Evidence, FaultTraits, fault

_THROUGH_S = 2.0


@fault("fetch_stall")
@dataclass(frozen=True, slots=True)
class FetchStall:
    """Swallow the fetch requests between exactly two brokers, and nothing else.

    Stands for a fetcher thread that has died or hangs: a follower copies nothing, while heartbeats,
    the controller's requests, produce requests and clients all pass, so that it learns of every
    election. A link that is cut hides those from it, where one of the two is the controller.
    Not for a slow follower, nor for brokers that cannot reach each other: that is link. Who fetches
    is read from the requests, so nothing is swallowed where brokers talk TLS.

    Source: Kafka protocol guide (API key 1); KIP-461 for fetcher threads that end.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        hits_pairs=True,
        cuts_links=True,
        reads_requests=True,
        proof="fetch requests must have been dropped, and probes answered: all else passes",
    )

    def inject(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Stall; the cluster's own requests must be swallowed, and probes must get through."""
        pair = ends_of(victims)
        cluster.stall_fetches([pair])
        dropped = swallowed(cluster)
        probes = cluster.probe([pair, pair[::-1]], timeout_s=_THROUGH_S)
        return Evidence(
            "inject",
            observed=dropped > 0 and Answer.UNREACHABLE not in probes.values(),
            details={"dropped_packets": dropped, "probes": by_link(probes)},
            question="do neither of the two lead what the other follows?" if dropped == 0 else "",
        )

    def heal(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Let requests pass; the link must carry packets, if only to a process that refuses."""
        return mended(cluster, [ends_of(victims)], probe_s=_THROUGH_S)
