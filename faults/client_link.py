"""The link between brokers and their clients is cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from faults.witness import answers, swallowed, why_unseen
from harness.core.cluster import Answer, Broker, ClientDirection, Links
from harness.core.errors import WaitTimeout
from harness.core.fault import Evidence, FaultTraits, fault
from harness.core.wait import wait_until

_PROBE_S = 1.0
_ANSWER_S = 10.0
"""Time for a broker on a busy machine to answer; a dead one refuses at once, seconds."""
_MENDED_S = 15.0


@fault("client_link")
@dataclass(frozen=True, slots=True)
class ClientLink:
    """Swallow packets between the brokers and the clients outside the cluster, both ways or one.

    Stands for a network in which applications cannot hear, or reach, a broker that is well and
    that all other brokers reach: with "to_client", requests arrive and are carried out, and
    their acknowledgements are lost. Not for a broker that is cut off from brokers: that is
    partition. What was swallowed is sent again after the healing, if the connection lives so
    long: a client only learns of the loss if its own time limit is shorter.

    Attributes:
        direction: "both", or only what goes "to_client", or only what goes "to_broker".
    """

    traits: ClassVar[FaultTraits] = FaultTraits(
        cuts_clients=True,
        proof="clients' packets must have been dropped: who leads nothing hears none",
    )

    direction: ClientDirection = "both"

    def inject(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Cut; clients' packets must be swallowed, and a probe must get nothing but from inside.

        The probe from this machine adds packets to be swallowed: they are counted before it.
        """
        cluster.cut_clients(victims, direction=self.direction)
        dropped = swallowed(cluster)
        outside = cluster.probe_from_outside(victims, timeout_s=_PROBE_S)
        inside = answers(cluster, victims, timeout_s=_ANSWER_S)
        return Evidence(
            "inject",
            observed=(
                dropped > 0
                and set(outside.values()) <= {Answer.SILENT, Answer.UNREACHABLE}
                and set(inside.values()) == {Answer.ANSWERED}
            ),
            details={"dropped_packets": dropped, "from_outside": outside, "listener": inside},
            question="was the topic idle?" if dropped == 0 else why_unseen(inside),
        )

    def heal(self, cluster: Links, victims: Sequence[Broker]) -> Evidence:
        """Mend; every victim whose process answers inside must answer a probe from outside."""
        dropped = cluster.dropped_packets()
        cluster.mend()
        outside: dict[int, Answer] = {}
        inside: dict[int, Answer] = {}

        def all_are_heard() -> bool:
            outside.update(cluster.probe_from_outside(victims, timeout_s=_PROBE_S))
            inside.update(answers(cluster, victims))
            # A broker that another fault keeps dead or frozen answers nobody.
            return all(
                answer is Answer.ANSWERED or inside[node] is not Answer.ANSWERED
                for node, answer in outside.items()
            )

        try:
            heard = wait_until(all_are_heard, timeout_s=_MENDED_S, what="an answer to clients")
        except WaitTimeout:
            heard = False
        return Evidence(
            "heal",
            observed=heard,
            details={"dropped_packets": dropped, "from_outside": outside, "listener": inside},
        )
