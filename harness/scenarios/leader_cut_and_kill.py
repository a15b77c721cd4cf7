"""The control: an experiment that must lose records under acks=1."""

from faults.broker_kill import BrokerKill
from faults.partition import Partition
from faults.targets import LeaderOf
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.scenario import Scenario, Step, scenario
from harness.core.schedule import Script
from workloads.send_poll import SendPoll


@scenario("leader_cut_and_kill")
def leader_cut_and_kill() -> Scenario:
    """A leader is cut off from its followers, goes on alone, and is killed: acks=1 must lose.

    The cut is of the replication listener only, and shorter than replica.lag.time.max.ms: the
    followers stay in the ISR while they miss everything, the controller sees nothing wrong. What
    the leader acknowledged alone is gone when one of them takes over. A run in which acks=1 loses
    nothing has shown nothing, and is UNKNOWN. Under acks=all the same damage must lose nothing.
    """
    leader = LeaderOf("orders", 0)
    return Scenario(
        name="leader_cut_and_kill",
        cluster=ClusterSpec(),
        contract=Contract(acks="1"),
        workload=SendPoll(partitions=1),
        schedule=Script(
            script=(
                Step(at_s=5, fault=Partition(listener="replication"), target=leader, hold_s=8),
                Step(at_s=9, fault=BrokerKill(), target=leader, hold_s=14),
            )
        ),
        duration_s=40,
        max_at_once=2,
        provokes=lambda contract: (
            frozenset() if contract.acks == "all" else frozenset({"lost-write"})
        ),
    )
