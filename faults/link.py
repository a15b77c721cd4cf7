"""The link between two nodes is cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from faults.witness import by_link, mended, swallowed
from harness.core.cluster import Answer, Broker, Direction, Links, Listener
from harness.core.errors import UsageError
from harness.core.fault import Evidence, FaultTraits, fault

_PROBE_S = 0.5
_THROUGH_S = 2.0
"""Time for a short packet that must pass, on a busy machine, seconds."""
_MOST_MIN_BYTES = 1400
"""A packet that is sent again comes in pieces no longer than the network takes, 1500 bytes at
most, so a longer limit would let everything through at the second try."""


@fault("link")
@dataclass(frozen=True, slots=True)
class Link:
    """Swallow packets between exactly two nodes, both ways or one.

    Stands for a bad route or a broken cable between two machines that everybody else still
    reaches: clients, controller and all other nodes keep their links. Silence, not refusals;
    established connections hang. Not for a slow or lossy network, nor for a node that is cut
    off: that is partition.

    With `min_bytes` only long packets are dropped: requests, acknowledgements and empty answers
    pass, and answers that carry records do not. Sizes are those of IP packets as the packet
    filter sees them, and between containers these may be many segments merged into one. Seen
    between two brokers of 4.3.1 with one partition: acknowledgements 52 bytes, fetch requests 125
    to 176, empty answers 73; of an answer with records a front of up to 167, and the records in a
    packet of their own: 52 bytes and the batches (140 for one record of 20 bytes). So 200 stops
    batches of 150 bytes and more; make the records long, rather than the limit short.

    Attributes:
        direction: "both"; "forth" drops what the first victim sends to the second, "back" what
            the second sends to the first. No TCP connection outlives either.
        listener: "all" traffic, or only what goes to the "replication" or to the "controller"
            listener, whichever of the two opened the connection.
        min_bytes: packets longer than this are dropped, 64 to 1400; 0 drops all.
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        hits_pairs=True,
        cuts_links=True,
        proof="packets must have been dropped and probes unanswered: an idle link shows neither",
    )

    direction: Direction = "both"
    listener: Listener = "all"
    min_bytes: int = 0

    def __post_init__(self) -> None:
        """Reject lengths that cut nothing, or everything.

        Raises:
            UsageError: with the bounds.
        """
        if self.min_bytes and not 64 <= self.min_bytes <= _MOST_MIN_BYTES:
            raise UsageError(
                f"min_bytes={self.min_bytes}: choose 64 (bare acknowledgements are shorter) to "
                f"{_MOST_MIN_BYTES} (what is sent again comes in packets of 1500 bytes), or 0."
            )

    def inject(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Cut; the cluster's own packets must be swallowed, and probes must get nothing.

        With `min_bytes` the probes, which are short, must on the contrary get through; a cut of
        the controller listener alone is not probed.
        """
        pair = ends_of(victims)
        cluster.cut(
            [pair], listener=self.listener, direction=self.direction, longer_than=self.min_bytes
        )
        dropped = swallowed(cluster)
        probe_s = _THROUGH_S if self.min_bytes else _PROBE_S
        probes = cluster.probe([pair, pair[::-1]], timeout_s=probe_s)
        unreachable = [link for link, answer in probes.items() if answer is Answer.UNREACHABLE]
        if self.min_bytes:
            as_cut = not unreachable
        else:
            as_cut = self.listener == "controller" or len(unreachable) == len(probes)
        return Evidence(
            "inject",
            observed=dropped > 0 and as_cut,
            details={"dropped_packets": dropped, "probes": by_link(probes)},
            question="was the topic idle?" if dropped == 0 else "",
        )

    def heal(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Mend; the link must carry packets again, if only to a process that refuses them."""
        return mended(cluster, [ends_of(victims)], probe_s=_PROBE_S)


def ends_of(victims: Sequence[Broker]) -> tuple[Broker, Broker]:
    """Return the two ends of a link.

    Raises:
        UsageError: there are not two of them.
    """
    if len(victims) != 2 or victims[0] == victims[1]:
        ids = [victim.node_id for victim in victims]
        raise UsageError(f"A link is between two nodes, not {ids}: use leader_and_follower.")
    return victims[0], victims[1]
