"""Each fault: proven when it bites, unproven when it does nothing, healed without a trace."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import chain, repeat
from random import Random
from typing import Any

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.client_link import ClientLink
from faults.events import CoordinatorElected, TransactionCoordinatorElected
from faults.fetch_stall import FetchStall
from faults.gc_pause import GcPause
from faults.link import Link
from faults.own_command import OwnCommand
from faults.partition import Partition
from faults.power_loss import PowerLoss
from faults.targets import (
    AllBrokers,
    BrokerOfId,
    Controller,
    CoordinatorOf,
    FollowerOf,
    IsrDownTo,
    LastRestarted,
    LeaderAndFollower,
    LeaderOf,
    Majority,
    Minority,
    RandomBroker,
    TransactionCoordinatorOf,
)
from harness.core.cluster import Answer, Broker, ClusterSpec, CutLog, Lease, ProcessState
from harness.core.coordinators import coordinating_partition
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.fault import FAULTS, Fault, brief, fault_traits
from tests.unit.fake_cluster import FakeCluster

LEASE = Lease(fault_id="1", hold_s=6.0, limit_s=30.0)
ONE = (Broker(1, "broker-1"),)
TWO = (Broker(1, "broker-1"), Broker(2, "broker-2"))
FAULT_LIST: list[Fault] = [
    BrokerKill(),
    BrokerPause(),
    BrokerStop(),
    ClientLink(),
    FetchStall(),
    GcPause(),
    Link(),
    Link(min_bytes=200),
    Partition(),
    PowerLoss(),
]


def hit(fault: Fault) -> tuple[Broker, ...]:
    return TWO if fault_traits(fault).hits_pairs else ONE


@pytest.fixture(autouse=True)
def _instant(instant_time: list[float]) -> None:
    """No test here waits."""


@pytest.mark.parametrize("fault", FAULT_LIST, ids=lambda f: type(f).__name__)
def test_a_fault_that_bites_is_proven(fault: Fault) -> None:
    cluster = FakeCluster()
    leased = cluster.leased(LEASE)

    injected = fault.inject(leased, hit(fault))
    healed = fault.heal(leased, hit(fault))

    assert injected.observed, injected.details
    assert healed.observed, healed.details


NEVER_COMES = {
    "BrokerKill": "Waited 10 s for the death of broker 1",
    "BrokerPause": "Waited 10 s for the kernel to show the brokers as stopped",
    "PowerLoss": "Waited 10 s for the death of broker 1",
}
"""What is waited for in vain when a process does not do as it was told."""


@pytest.mark.parametrize("fault", FAULT_LIST, ids=str)
def test_a_fault_that_does_nothing_is_never_proven(fault: Fault) -> None:
    leased = FakeCluster(ignores_damage=True).leased(LEASE)

    if name := NEVER_COMES.get(type(fault).__name__):
        with pytest.raises(WaitTimeout, match=name):
            fault.inject(leased, hit(fault))
    else:
        assert not fault.inject(leased, hit(fault)).observed


# -- one witness disagrees -------------------------------------------------------------------------


def asked(fault: Fault, phase: str) -> set[str]:
    """The witnesses that a fault asks in one of its phases."""
    cluster = FakeCluster()
    leased = cluster.leased(LEASE)
    if phase == "heal":
        fault.inject(leased, hit(fault))
        cluster.asked.clear()
        fault.heal(leased, hit(fault))
    else:
        fault.inject(leased, hit(fault))
    return cluster.asked


# Where the damage leaves a witness with nothing else to say, or what it says is a detail only.
NO_WITNESS = {
    ("ClientLink", "inject", "probe"),
    ("ClientLink", "heal", "probe"),
    ("ClientLink", "heal", "dropped_packets"),
    ("Link", "heal", "dropped_packets"),
    ("Partition", "heal", "dropped_packets"),
    # The probes of these two must pass.
    ("FetchStall", "inject", "probe"),
    ("FetchStall", "heal", "probe"),
    ("FetchStall", "heal", "dropped_packets"),
    ("Link(min_bytes=200)", "inject", "probe"),
    ("Link(min_bytes=200)", "heal", "probe"),
    ("Link(min_bytes=200)", "heal", "dropped_packets"),
    # What it says at the end of the hold is what it has said since the beginning.
    ("GcPause", "heal", "gc_pauses_s"),
}


def label(fault: Fault) -> str:
    return "Link(min_bytes=200)" if fault == Link(min_bytes=200) else type(fault).__name__


LIES = [
    (fault, phase, name)
    for fault in FAULT_LIST
    for phase in ("inject", "heal")
    for name in sorted(asked(fault, phase))
    if (label(fault), phase, name) not in NO_WITNESS
]
VAIN = {
    ("BrokerKill", "inject", "process_of"): "the death of broker 1",
    ("BrokerPause", "inject", "process_of"): "the kernel to show the brokers as stopped",
    ("PowerLoss", "inject", "process_of"): "the death of broker 1",
    ("BrokerKill", "heal", "probe"): "node 1 to answer",
    ("BrokerPause", "heal", "probe"): "node 1 to answer",
    ("BrokerStop", "heal", "probe"): "node 1 to answer",
    ("PowerLoss", "heal", "probe"): "node 1 to answer",
}
"""Where the word of a witness is waited for in vain, and what the error then names."""


def test_the_witnesses_of_the_faults_are_these() -> None:
    witnesses: dict[str, set[str]] = {}
    for fault, phase, name in LIES:
        witnesses.setdefault(f"{label(fault)} {phase}", set()).add(name)

    assert witnesses == {
        "BrokerKill inject": {"process_of", "probe"},
        "BrokerKill heal": {"process_of", "probe"},
        "BrokerPause inject": {"process_of", "probe"},
        "BrokerPause heal": {"process_of", "probe"},
        "BrokerStop inject": {"exit_statuses", "is_shut_down_cleanly", "process_of", "probe"},
        "BrokerStop heal": {"process_of", "probe"},
        "ClientLink inject": {"dropped_packets", "probe_from_outside"},
        "ClientLink heal": {"probe_from_outside"},
        "FetchStall inject": {"dropped_packets"},
        "GcPause inject": {"gc_pauses_s"},
        "Link inject": {"dropped_packets", "probe"},
        "Link heal": {"probe"},
        "Link(min_bytes=200) inject": {"dropped_packets"},
        "Partition inject": {"dropped_packets", "probe"},
        "Partition heal": {"probe"},
        "PowerLoss inject": {"cut_tail", "log_sizes", "process_of", "probe"},
        "PowerLoss heal": {"process_of", "probe"},
    }


@pytest.mark.parametrize(("fault", "phase", "name"), LIES, ids=str)
def test_a_fault_that_one_witness_does_not_confirm_is_not_proven(
    fault: Fault, phase: str, name: str
) -> None:
    cluster = FakeCluster()
    leased = cluster.leased(LEASE)
    deed = fault.inject
    if phase == "heal":
        assert fault.inject(leased, hit(fault)).observed
        deed = fault.heal
    cluster.lie(name)

    if vain := VAIN.get((label(fault), phase, name)):
        with pytest.raises(WaitTimeout, match=vain):
            deed(leased, hit(fault))
    else:
        assert not deed(leased, hit(fault)).observed


def test_a_client_link_of_a_broker_that_is_ill_is_not_proven() -> None:
    class Ill(FakeCluster):
        def _answer(self, source: Broker, target: Broker) -> Answer:
            return Answer.SILENT

    assert not ClientLink().inject(Ill().leased(LEASE), ONE).observed


def test_a_cut_of_some_packets_that_swallows_the_others_too_is_not_proven() -> None:
    class Deaf(FakeCluster):
        def _answer(self, source: Broker, target: Broker) -> Answer:
            return Answer.UNREACHABLE

    assert not Link(min_bytes=200).inject(Deaf().leased(LEASE), TWO).observed
    assert not FetchStall().inject(Deaf().leased(LEASE), TWO).observed


@pytest.mark.parametrize("fault", FAULT_LIST, ids=lambda f: type(f).__name__)
def test_healing_leaves_the_cluster_as_it_was(fault: Fault) -> None:
    cluster = FakeCluster()
    leased = cluster.leased(LEASE)

    fault.inject(leased, hit(fault))
    fault.heal(leased, hit(fault))

    assert not cluster.cuts
    assert not cluster.deaf
    assert all(process and process.state == "S" for process in cluster.processes.values())


@pytest.mark.parametrize("fault", FAULT_LIST, ids=str)
def test_healing_what_was_never_broken_is_safe(fault: Fault) -> None:
    cluster = FakeCluster()
    before = deepcopy(cluster.processes)

    healed = fault.heal(cluster.leased(LEASE), hit(fault))

    # Pauses that never were cannot have added up to the time held.
    assert healed.observed == (fault != GcPause())
    assert cluster.processes == before


def test_a_storm_that_could_not_begin_is_healed_without_a_wait(instant_time: list[float]) -> None:
    leased = FakeCluster(writes_gc_log=False).leased(LEASE)
    begin = instant_time[0]

    with pytest.raises(ClusterBroken, match="writes no GC log"):
        GcPause().inject(leased, TWO)
    healed = GcPause().heal(leased, TWO)

    assert not healed.observed
    assert instant_time[0] == begin


def test_a_power_loss_that_takes_nothing_is_a_kill() -> None:
    cluster = FakeCluster(is_idle=True)

    assert not PowerLoss().inject(cluster.leased(LEASE), ONE).observed


class Refusing(FakeCluster):
    """The agent cuts the logs of broker 1, and then answers that it could not."""

    refused: tuple[int, ...] = (2,)
    loses_answer = False

    def cut_tail(self, broker: Broker, **where: Any) -> tuple[CutLog, ...]:
        if broker.node_id not in self.refused:
            return super().cut_tail(broker, **where)
        if self.loses_answer:
            super().cut_tail(broker, **where)
        raise ClusterBroken("There is no log of orders 0.")


def test_a_power_loss_that_hit_one_of_two_brokers_says_what_it_took() -> None:
    injected = PowerLoss().inject(Refusing().leased(LEASE), TWO)

    assert not injected.observed
    assert injected.details["cut"][1]["orders-0"]["bytes"] == 700
    assert injected.details["error"] == "There is no log of orders 0."


def test_a_power_loss_whose_answer_is_lost_does_not_say_that_nothing_happened() -> None:
    cluster = Refusing()
    cluster.refused, cluster.loses_answer = (1,), True

    injected = PowerLoss().inject(cluster.leased(LEASE), ONE)

    assert not injected.observed
    assert "error" in injected.details


def test_a_power_loss_that_took_nothing_is_an_error() -> None:
    cluster = Refusing()
    cluster.refused = (1,)

    with pytest.raises(ClusterBroken, match="no log of orders"):
        PowerLoss().inject(cluster.leased(LEASE), ONE)


def test_the_power_is_lost_before_the_tail_is_cut() -> None:
    cluster = FakeCluster()

    PowerLoss(topic="orders", partition=0, offset=3).inject(cluster.leased(LEASE), ONE)

    assert cluster.log == ["hold_down 1", "SIGKILL 1", "cut_tail 1 orders 0 3"]


@pytest.mark.parametrize("place", [{"partition": 0}, {"topic": "orders", "offset": 3}])
def test_a_place_that_is_not_wholly_named_is_refused(place: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="needs its"):
        PowerLoss(**place)


@pytest.mark.parametrize("victims", [ONE, (), (*TWO, Broker(3, "broker-3")), ONE * 2])
def test_a_link_has_two_ends(victims: tuple[Broker, ...]) -> None:
    with pytest.raises(UsageError, match="between two nodes"):
        Link().inject(FakeCluster().leased(LEASE), victims)


@pytest.mark.parametrize("min_bytes", [-1, 1, 63, 1401])
def test_a_link_that_would_drop_all_or_nothing_is_refused(min_bytes: int) -> None:
    with pytest.raises(UsageError, match="min_bytes"):
        Link(min_bytes=min_bytes)


def test_a_link_hands_on_which_way_and_what() -> None:
    cluster = FakeCluster()

    Link(direction="back", listener="replication", min_bytes=99).inject(cluster.leased(LEASE), TWO)

    assert cluster.log[0] == "cut [(1, 2)] replication back 99"


@pytest.mark.parametrize("fault", [Link(), ClientLink()])
def test_a_link_without_traffic_has_no_witness(fault: Fault) -> None:
    leased = FakeCluster(is_idle=True).leased(LEASE)

    assert not fault.inject(leased, hit(fault)).observed


def test_a_broker_that_hears_nobody_is_not_cut_off_from_its_clients_alone() -> None:
    cluster = FakeCluster()
    cluster.processes[1] = None

    assert not ClientLink().inject(cluster.leased(LEASE), ONE).observed


def test_a_shutdown_that_takes_too_long_is_reported_and_nobody_is_killed() -> None:
    cluster = FakeCluster(ignores_damage=True)

    injected = BrokerStop(limit_s=2).inject(cluster.leased(LEASE), ONE)

    assert not injected.observed
    assert injected.details == {"still_running": [1], "limit_s": 2}
    assert cluster.log == ["hold_down 1", "SIGTERM 1"]


def test_a_broker_that_somebody_kills_has_not_been_stopped_in_order() -> None:
    class Killed(FakeCluster):
        def signal(self, broker: Broker, signal: str) -> None:
            super().signal(broker, "SIGKILL")

    assert not BrokerStop().inject(Killed().leased(LEASE), ONE).observed


def test_a_broker_that_ends_with_an_error_has_not_been_stopped_in_order() -> None:
    class Failing(FakeCluster):
        def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
            return tuple(1 for _ in super().exit_statuses(broker))

    injected = BrokerStop().inject(Failing().leased(LEASE), ONE)

    assert injected.details["clean_shutdown"] == {1: True}
    assert not injected.observed


def test_a_stopped_broker_is_started_when_it_has_ended() -> None:
    class Slow(FakeCluster):
        def start(self, broker: Broker) -> None:
            super().start(broker)
            if len(self.log) < 5:
                raise ClusterBroken("has not ended yet")

    cluster = Slow()
    leased = cluster.leased(LEASE)
    BrokerStop().inject(leased, ONE)

    assert BrokerStop().heal(leased, ONE).observed


def test_a_broker_that_never_comes_to_the_end_of_its_shutdown_is_killed_to_heal_it(
    instant_time: list[float],
) -> None:
    class Hanging(FakeCluster):
        def signal(self, broker: Broker, signal: str) -> None:
            if signal == "SIGTERM":
                self.log.append(f"{signal} {broker.node_id}")
            else:
                super().signal(broker, signal)

        def start(self, broker: Broker) -> None:
            if self.processes[broker.node_id] is not None and "SIGKILL 1" not in self.log:
                raise ClusterBroken("has not ended yet")
            super().start(broker)

    leased = Hanging().leased(LEASE)
    assert not BrokerStop().inject(leased, ONE).observed

    healed = BrokerStop().heal(leased, ONE)

    assert healed.observed
    assert healed.details["killed"] == [1]


def test_a_broker_whose_start_was_lost_is_started_again() -> None:
    class Deaf(FakeCluster):
        starts = 0

        def start(self, broker: Broker) -> None:
            self.starts += 1
            # The first is lost: the supervisor still waits for the end of the last JVM.
            if self.starts > 1:
                super().start(broker)

    cluster = Deaf()
    leased = cluster.leased(LEASE)
    BrokerKill().inject(leased, ONE)

    assert BrokerKill().heal(leased, ONE).observed
    assert cluster.starts == 2


def test_a_broker_that_gives_up_once_started_and_hangs_is_killed_to_heal_it(
    instant_time: list[float],
) -> None:
    class GivingUp(FakeCluster):
        """Broker 1 gives up at its first start, and waits in its shutdown for itself."""

        def start(self, broker: Broker) -> None:
            super().start(broker)
            hangs = broker.node_id == 1 and self.log.count("SIGKILL 1") == 1
            (self.shutting_down.add if hangs else self.shutting_down.discard)(broker.node_id)

        def _answer(self, source: Broker, target: Broker) -> Answer:
            hangs = target.node_id in self.shutting_down
            return Answer.REFUSED if hangs else super()._answer(source, target)

    cluster = GivingUp()
    leased = cluster.leased(LEASE)
    BrokerKill().inject(leased, cluster.brokers[:2])

    healed = BrokerKill().heal(leased, cluster.brokers[:2])

    assert healed.observed
    assert healed.details["killed"] == [1]


def test_a_broker_that_is_slow_to_start_is_not_killed(instant_time: list[float]) -> None:
    class Slow(FakeCluster):
        def _answer(self, source: Broker, target: Broker) -> Answer:
            is_up = "start 1" not in self.log or instant_time[0] > 1100
            return super()._answer(source, target) if is_up else Answer.REFUSED

    cluster = Slow()
    leased = cluster.leased(LEASE)
    BrokerKill().inject(leased, ONE)

    healed = BrokerKill().heal(leased, ONE)

    assert healed.observed
    assert "killed" not in healed.details


def test_a_broker_that_answers_for_a_moment_only_is_seen_to_while_another_starts(
    instant_time: list[float],
) -> None:
    class Brief(FakeCluster):
        """Broker 2 answers in its 6th second only, broker 1 from the 31st on."""

        def _answer(self, source: Broker, target: Broker) -> Answer:
            if "start 2" not in self.log:
                return super()._answer(source, target)
            up_s = instant_time[0] - 1000
            is_up = up_s > 30 if target.node_id == 1 else 5 < up_s < 6
            return Answer.ANSWERED if is_up else Answer.REFUSED

    cluster = Brief()
    leased = cluster.leased(LEASE)
    BrokerKill().inject(leased, cluster.brokers[:2])
    cluster.shutting_down.add(2)

    healed = BrokerKill().heal(leased, cluster.brokers[:2])

    assert healed.observed
    assert "killed" not in healed.details


def test_a_partition_of_an_idle_network_has_no_witness() -> None:
    leased = FakeCluster(is_idle=True).leased(LEASE)

    injected = Partition().inject(leased, ONE)

    assert not injected.observed
    assert injected.details["dropped_packets"] == 0


def test_a_partition_that_stays_is_not_healed() -> None:
    cluster = FakeCluster(fails_to_heal=True)
    leased = cluster.leased(LEASE)

    Partition().inject(leased, ONE)

    assert not Partition().heal(leased, ONE).observed


def test_a_partition_by_groups_cuts_between_groups_only() -> None:
    cluster = FakeCluster()

    Partition(groups=((1,), (2,))).inject(cluster.leased(LEASE), ())

    assert cluster.cuts == {frozenset((1, 2))}


def test_a_partition_of_replication_leaves_links_to_controllers_alone() -> None:
    cluster = FakeCluster(controllers=(101, 201))

    seen = Partition(listener="replication").inject(cluster.leased(LEASE), ONE)

    assert seen.observed
    assert cluster.cuts == {frozenset((1, 2)), frozenset((1, 3))}


def test_a_partition_of_all_traffic_cuts_controllers_off_too() -> None:
    cluster = FakeCluster(controllers=(201,))

    Partition().inject(cluster.leased(LEASE), ONE)

    assert frozenset((1, 201)) in cluster.cuts


@pytest.mark.parametrize("groups", [((1, 2), (2, 3)), ((1, 2),)])
def test_groups_that_make_no_partition_are_refused(groups: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(UsageError, match="make no partition"):
        Partition(groups=groups)


def test_a_partition_of_unknown_nodes_is_refused() -> None:
    with pytest.raises(UsageError, match="no nodes"):
        Partition(groups=((1,), (7,))).inject(FakeCluster().leased(LEASE), ())


def test_gc_pauses_below_the_share_are_no_proof() -> None:
    cluster = FakeCluster()
    leased = cluster.leased(replace(LEASE, hold_s=0.1))
    fault = GcPause()

    assert fault.inject(leased, ONE).observed
    cluster.pauses[1] = [0.07]

    assert not fault.heal(leased, ONE).observed


def test_gc_pauses_that_lack_something_at_the_end_of_the_hold_are_given_the_storms_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster()
    leased = cluster.leased(replace(LEASE, hold_s=2.0))
    fault = GcPause()
    assert fault.inject(leased, ONE).observed
    assert cluster.pauses_wanted_s[1] > 0.8 * 2.0
    logged: Iterator[list[float]] = chain([[0.5], [0.5, 0.6]], repeat([0.5, 0.6, 0.6]))
    monkeypatch.setattr(FakeCluster, "gc_pauses_s", lambda *_: next(logged))

    healed = fault.heal(leased, ONE)

    assert healed.observed
    assert healed.details["broker_1"]["total_s"] == 1.7
    assert cluster.log[-1] == "end 1"


@pytest.mark.parametrize("fault", [BrokerKill(), PowerLoss()], ids=repr)
def test_a_broker_that_was_dead_already_has_not_been_killed(fault: Fault) -> None:
    cluster = FakeCluster()
    victims = cluster.brokers[:2]
    cluster.processes[2] = None

    assert not fault.inject(cluster, victims).observed


def test_a_killed_broker_is_held_down_before_it_dies() -> None:
    cluster = FakeCluster()

    BrokerKill().inject(cluster.leased(LEASE), ONE)

    assert cluster.log == ["hold_down 1", "SIGKILL 1"]


def test_every_fault_says_what_it_stands_for_and_for_what_not() -> None:
    for name, entry in FAULTS.items():
        assert "Stands for" in (entry.__doc__ or ""), name
        assert "Not for" in (entry.__doc__ or ""), name


def test_targets_choose_by_the_state_at_inject_time() -> None:
    cluster = FakeCluster(leader=2, isr=(2, 3), active_controller=3)
    random = Random(7)

    assert [b.node_id for b in LeaderOf("orders").choose(cluster, random)] == [2]
    assert [b.node_id for b in FollowerOf("orders").choose(cluster, random)] == [3]
    assert [b.node_id for b in LeaderAndFollower("orders").choose(cluster, random)] == [2, 3]
    assert [b.node_id for b in Controller().choose(cluster, random)] == [3]
    assert len(RandomBroker().choose(cluster, random)) == 1
    assert len(AllBrokers().choose(cluster, random)) == 3


@pytest.mark.parametrize(
    ("name", "partition"),
    # As Java says; the last one's hash is Integer.MIN_VALUE, of which Utils.abs makes 0.
    [
        ("", 0), ("a", 1), ("orders", 3), ("ä-group", 0), ("orders-group", 5), ("transactor-0", 0),
        ("search-1-0-group", 5), ("polygenelubricants", 0),
    ],
)  # fmt: skip
def test_a_name_belongs_to_the_partition_that_java_would_say(name: str, partition: int) -> None:
    assert coordinating_partition(name, 6) == partition


@pytest.mark.parametrize(
    ("target", "topic"),
    [
        (CoordinatorOf("orders-group"), "__consumer_offsets"),
        (TransactionCoordinatorOf("orders-group"), "__transaction_state"),
    ],
)
def test_a_coordinator_leads_the_partition_that_its_name_belongs_to(
    target: CoordinatorOf | TransactionCoordinatorOf, topic: str
) -> None:
    few = FakeCluster(partition_counts={topic: 6}, leaders={(topic, 5): 3, (topic, 17): 2})
    many = FakeCluster(partition_counts={topic: 50}, leaders={(topic, 5): 3, (topic, 17): 2})

    assert [b.node_id for b in target.choose(few, Random(1))] == [3]
    assert [b.node_id for b in target.choose(many, Random(1))] == [2]


@pytest.mark.parametrize("target", [CoordinatorOf("g"), TransactionCoordinatorOf("t")])
def test_nobody_coordinates_without_an_internal_topic_or_its_leader(
    target: CoordinatorOf | TransactionCoordinatorOf,
) -> None:
    counts = {"__consumer_offsets": 1, "__transaction_state": 1}

    assert target.choose(FakeCluster(), Random(1)) == ()
    assert target.choose(FakeCluster(partition_counts=counts, leader=None), Random(1)) == ()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (CoordinatorOf(), "names no group: write coordinator_of"),
        (TransactionCoordinatorOf(), "names no transactional id: write transaction_coordinator_of"),
    ],
)
def test_a_coordinator_of_no_name_is_refused(
    target: CoordinatorOf | TransactionCoordinatorOf, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        target.choose(FakeCluster(), Random(1))


def test_the_election_of_a_coordinator_is_that_of_its_name() -> None:
    assert CoordinatorOf("g").election() == CoordinatorElected("g")
    assert TransactionCoordinatorOf("t").election() == TransactionCoordinatorElected("t")


def test_targets_of_several_brokers_count_them() -> None:
    three, five = FakeCluster(), FakeCluster(spec=ClusterSpec(brokers=5))

    assert [len(Minority().choose(cluster, Random(1))) for cluster in (three, five)] == [1, 2]
    assert [len(Majority().choose(cluster, Random(1))) for cluster in (three, five)] == [2, 3]
    assert {Minority().choose(five, Random(seed)) for seed in range(20)} > {
        Minority().choose(five, Random(1))
    }


def test_an_isr_is_brought_down_to_what_is_asked_and_keeps_its_leader() -> None:
    cluster = FakeCluster(leader=2, isr=(3, 2, 1))

    alone = IsrDownTo(1, "orders").choose(cluster, Random(1))
    one_less = {IsrDownTo(2, "orders").choose(cluster, Random(seed)) for seed in range(20)}
    assert [broker.node_id for broker in alone] == [1, 3]
    assert sorted(broker.node_id for (broker,) in one_less) == [1, 3]
    assert IsrDownTo(3, "orders").choose(cluster, Random(1)) == ()
    with pytest.raises(UsageError, match="its leader stays"):
        IsrDownTo(0, "orders")


def test_a_broker_is_chosen_by_its_id_and_by_its_youth() -> None:
    cluster = FakeCluster()
    cluster.processes[2] = ProcessState(pid=900, start_ticks=8, state="S")

    assert [b.node_id for b in BrokerOfId(3).choose(cluster, Random(1))] == [3]
    with pytest.raises(UsageError, match=r"no broker 9: the ids are \[1, 2, 3\]"):
        BrokerOfId(9).choose(cluster, Random(1))
    assert [b.node_id for b in LastRestarted().choose(cluster, Random(1))] == [2]
    cluster.processes = dict.fromkeys(cluster.processes)
    assert LastRestarted().choose(cluster, Random(1)) == ()


def test_a_random_target_passes_over_the_dead() -> None:
    cluster = FakeCluster()
    cluster.processes[1] = cluster.processes[2] = None

    assert [b.node_id for b in RandomBroker().choose(cluster, Random(1))] == [3]


def test_targets_name_nobody_when_there_is_nobody() -> None:
    cluster = FakeCluster(leader=None, isr=(), active_controller=None)

    for target in (
        LeaderOf("orders"),
        FollowerOf("orders"),
        LeaderAndFollower("orders"),
        Controller(),
    ):
        assert target.choose(cluster, Random(1)) == ()
    alone = FakeCluster(leader=1, isr=(1,))
    assert LeaderAndFollower("orders").choose(alone, Random(1)) == ()


def test_a_storm_that_is_deaf_at_first_is_told_again() -> None:
    class Deaf(FakeCluster):
        def end_collections(self, broker: Broker) -> None:
            super().end_collections(broker)
            if len(self.log) < 4:
                raise ClusterBroken("no answer from the JVM")

    cluster = Deaf()
    leased = cluster.leased(LEASE)
    GcPause().inject(leased, ONE)

    assert GcPause().heal(leased, ONE).observed
    assert cluster.log.count("end 1") == 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Partition(), "partition"),
        (Partition(listener="replication"), "partition(replication)"),
        (BrokerStop(), "broker_stop"),
        (GcPause(share=0.5), "gc_pause(0.5)"),
        (OwnCommand("./a", "./b", "./c"), "own_command(./a, ./b, ./c)"),
    ],
)
def test_people_are_told_of_a_fault_what_is_not_as_usual(fault: Fault, words: str) -> None:
    assert brief(fault) == words
