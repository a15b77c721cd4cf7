"""The experiment of a search: every fault, alone and in patterns that follow events."""

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.client_link import ClientLink
from faults.fetch_stall import FetchStall
from faults.gc_pause import GcPause
from faults.link import Link
from faults.partition import Partition
from faults.patterns import (
    Alternation,
    Blackout,
    Divided,
    LastInSync,
    Late,
    Recovering,
    Relapse,
    Returned,
    Successor,
)
from faults.power_loss import PowerLoss
from faults.targets import (
    Controller,
    CoordinatorOf,
    FollowerOf,
    LastRestarted,
    LeaderAndFollower,
    LeaderOf,
    Minority,
    RandomBroker,
    TransactionCoordinatorOf,
    TwoFollowers,
)
from harness.core.cluster import ClusterSpec
from harness.core.contract import Contract
from harness.core.limits import short_limits
from harness.core.scenario import Scenario, scenario
from harness.core.schedule import Mix
from workloads.send_poll import SendPoll


@scenario("search")
def search() -> Scenario:
    """Look for what nobody has scripted: cascades of every fault, up to three at a time.

    Most windows in which a replicated log loses records are open for a second or less, right after
    an election or a return. Steps that wait for such an event fall into them; independent draws
    hardly ever do. Two partitions are aimed at, all of them are hit: every broker leads some. Where
    the workload has a consumer group or transactions, so are their coordinators, and they alone are
    cut off from clients. Data is destroyed on no more brokers at a time than the contract survives.
    """
    return Scenario(
        name="search",
        cluster=ClusterSpec(),
        contract=Contract(),
        workload=SendPoll(partitions=6, producers=3, own_partitions=True),
        broker_config=short_limits,
        schedule=Mix(
            faults=(
                BrokerKill(),
                BrokerStop(),
                BrokerPause(),
                GcPause(),
                Partition(),
                Partition(listener="replication"),
                PowerLoss(),
                Link(),
                FetchStall(),
                ClientLink(),
            ),
            targets=(
                LeaderOf("orders", 0),
                LeaderOf("orders", 1),
                FollowerOf("orders", 0),
                Controller(),
                RandomBroker(),
                LastRestarted(),
                Minority(),
                LeaderAndFollower("orders", 0),
                TwoFollowers("orders", 0),
                CoordinatorOf(),
                TransactionCoordinatorOf(),
            ),
            patterns=(
                Successor(),
                Returned(),
                Recovering(),
                Relapse(),
                LastInSync(),
                Alternation(),
                Divided(),
                Blackout(),
                Late(),
            ),
            gap_s=2.0,
            around_clients=True,
        ),
        duration_s=90,
        # A cluster that hangs, as those before Kafka 1.1 do now and then (KAFKA-2729), costs a run.
        full_isr_within_s=60,
        max_at_once=3,
        keeps_within_contract=True,
    )
