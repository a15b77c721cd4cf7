"""The default experiment."""

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.gc_pause import GcPause
from faults.partition import Partition
from faults.targets import Controller, FollowerOf, LeaderAndFollower, LeaderOf, RandomBroker
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.limits import short_limits
from harness.core.scenario import Scenario, scenario
from harness.core.schedule import Mix
from workloads.send_poll import SendPoll


@scenario("mixed")
def mixed() -> Scenario:
    """Kills, partitions, GC pauses and freezes in random order: acks=all must lose nothing.

    min.insync.replicas=2 and one fault at a time, so that a majority always stays: any single fault
    may cost time, never an acknowledged record. Five brokers, and partitions of its own for each
    producer, so that every fault leaves partitions that are written to. The brokers' limits are
    short enough for a minute's faults to pass them.
    """
    return Scenario(
        name="mixed",
        cluster=ClusterSpec(brokers=5),
        contract=Contract(),
        workload=SendPoll(partitions=9, producers=3, own_partitions=True),
        broker_config=short_limits,
        schedule=Mix(
            faults=(BrokerKill(), Partition(), GcPause(), BrokerPause()),
            targets=(
                LeaderOf("orders", 0),
                FollowerOf("orders", 0),
                Controller(),
                RandomBroker(),
                LeaderAndFollower("orders", 0),
            ),
        ),
        duration_s=60,
    )
