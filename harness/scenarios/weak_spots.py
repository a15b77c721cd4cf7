"""The scenario of the matrix: each stroke finds out one weakness of a contract."""

from faults.broker_kill import BrokerKill
from faults.client_link import ClientLink
from faults.partition import Partition
from faults.power_loss import PowerLoss
from faults.targets import LeaderOf
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.scenario import Scenario, Step, scenario
from harness.core.schedule import Script
from workloads.send_poll import SendPoll

LAG_TIME_MS = 8_000
"""So long may a follower lag; the checker looks every half of that, so it leaves by 12 s."""


@scenario("weak_spots")
def weak_spots() -> Scenario:
    """Three strokes at the leader, each of which a weak contract does not survive.

    First its answers to clients are swallowed for longer than clients wait for them: whoever
    retries without idempotence writes twice. Then it is cut off from its followers for less than
    replica.lag.time.max.ms, goes on alone, and is killed: what acks=0 and acks=1 acknowledged is
    gone. Last it is cut off for longer, so that it is the whole ISR by itself, and loses its power:
    with min.insync.replicas=1 even acks=all acknowledged what nobody else has. What survives all
    three is acks=all with min.insync.replicas=2 and idempotence, at the price of time; and that
    only where replicas are eligible that left the ISR when it fell below the minimum (new clusters
    since 4.1). Before, the last of the ISR leads on with the log that the power cut left it, and
    all others follow it: KIP-966 calls it the last replica standing.
    """
    leader = LeaderOf("orders", 0)
    cut = Partition(listener="replication")
    return Scenario(
        name="weak_spots",
        cluster=ClusterSpec(config=(("replica.lag.time.max.ms", str(LAG_TIME_MS)),)),
        contract=Contract(),
        workload=SendPoll(partitions=1),
        schedule=Script(
            script=(
                # Clients give a request up after 10 s (socket.timeout.ms of all workloads).
                Step(at_s=3, fault=ClientLink(direction="to_client"), target=leader, hold_s=12),
                Step(at_s=22, fault=cut, target=leader, hold_s=7),
                Step(at_s=26, fault=BrokerKill(), target=leader, hold_s=6),
                Step(at_s=48, fault=cut, target=leader, hold_s=19),
                Step(at_s=63, fault=PowerLoss(), target=leader, hold_s=6),
            )
        ),
        duration_s=80,
        max_at_once=2,
        provokes=provoked,
    )


def provoked(contract: Contract) -> frozenset[str]:
    """Return what the three strokes must cause under a contract; less has shown nothing."""
    alone = contract.acks != "all" or contract.min_isr == 1
    # Under acks=0 nobody waits for an answer, so nobody misses one.
    repeats = not contract.idempotent and contract.retries != 0 and contract.acks != "0"
    return frozenset(
        name for name, holds in (("lost-write", alone), ("duplicate", repeats)) if holds
    )
