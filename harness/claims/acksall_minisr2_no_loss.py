"""Claim 21: acks=all with min.insync.replicas=2 survives any single fault."""

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.gc_pause import GcPause
from faults.partition import Partition
from faults.targets import FollowerOf, LeaderOf
from harness.core.contract import Contract
from harness.core.schedule import Mix
from harness.lab.claim import Claim, Expectation, claim
from harness.lab.expectations import all_of, finds_no, keeps_all
from harness.lab.lab import Lab

FEWEST = 100_000
"""Acknowledged records below which the absence of a loss says too little."""
RATE_PER_S = 3000.0


def script(lab: Lab) -> None:
    """Write without a pause while one broker after the other is damaged."""
    producer = lab.producer()
    lab.consumer()
    producer.flow("soak", RATE_PER_S)
    lab.nemesis(
        Mix(
            faults=(BrokerKill(), BrokerStop(), BrokerPause(), Partition(), GcPause()),
            targets=(LeaderOf(lab.topic), LeaderOf(lab.topic), FollowerOf(lab.topic)),
            hold_s=(3.0, 4.0),
        ),
        for_s=40.0,
    )
    lab.wait_until(
        lambda: producer.acked >= FEWEST,
        what=f"{FEWEST} records acknowledged",
        timeout_s=150.0,
    )
    producer.halt().settle(timeout_s=180.0)


@claim("acksall-minisr2-no-loss")
def acksall_minisr2_no_loss() -> Claim:
    """Kill, stop, freeze, isolation, garbage collection: none of them costs a record.

    Five faults a run, each kind once, most of them on the leader, and the next one only when the
    cluster is whole: two failures in quick succession are claim 1.
    """
    return Claim(
        number=21,
        subject="acks and min.insync.replicas",
        sentence="With three replicas, acks=all, min.insync.replicas=2 and unclean election off, "
        "no single fault loses an acknowledged record.",
        source="Kafka's documentation of the producer's acks and of min.insync.replicas",
        contract=Contract(),
        config=lambda _: {"replica.lag.time.max.ms": "4000"},
        script=script,
        expects=(
            Expectation(
                words="loses nothing",
                test=all_of(
                    keeps_all(at_least=FEWEST),
                    finds_no("dirty-read", "inconsistent-offsets", "replica-divergence", "phantom"),
                ),
            ),
        ),
    )
