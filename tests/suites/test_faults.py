"""Each fault on a real cluster, checked by the kernel's and the broker's own word, not by ours."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.client_link import ClientLink
from faults.fetch_stall import FetchStall
from faults.gc_pause import GcPause
from faults.link import Link
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import Broker, ClientDirection, ClusterSpec, Direction, Lease
from harness.core.errors import ClusterBroken, WaitTimeout
from harness.core.fault import Fault, fault_traits
from harness.core.wait import wait_until
from tests.suites.witnesses import (
    READY,
    accepted,
    await_connects,
    await_end,
    await_states,
    connects,
    ends,
    java_states,
    log_bytes,
    log_end,
    packet_filter,
    produce,
    produced,
    shell,
)

pytestmark = pytest.mark.docker

Leased = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    # A follower that hears nothing is waited for to leave the ISR: a third of Kafka's time for it.
    spec = ClusterSpec(config=(("replica.lag.time.max.ms", "10000"),))
    started = launch(spec, run="suite-faults", folder=folder, say=print)
    yield started
    started.save_logs()
    started.shut_down()


@pytest.fixture
def victim(cluster: DockerCluster) -> Broker:
    cluster.await_full_isr([READY], timeout_s=90)
    # After a cut a connection may wait for its next attempt to send, for seconds, with the ISR full
    # all the while: only a record that every follower has copied proves that they copy now.
    copying = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    copied: list[KafkaError | None] = []
    copying.produce(READY, b"copied", on_delivery=lambda error, _: copied.append(error))
    assert copying.flush(60) == 0
    assert copied == [None]
    # Any broker may be asked, and they hear of a change one after the other.
    return wait_until(
        lambda: cluster.leader_of(READY, 0), timeout_s=60, what=f"a leader of {READY}-0"
    )


@pytest.fixture
def leased(cluster: DockerCluster, request: pytest.FixtureRequest) -> Leased:
    """The cluster with a lease of the test's own: `leased(hold_s=…, limit_s=…)`."""

    def lease(hold_s: float = 4.0, limit_s: float = 180.0) -> Any:
        fault_id = f"s{abs(hash(request.node.name)) % 10**8}"
        return cluster.leased(Lease(fault_id=fault_id, hold_s=hold_s, limit_s=limit_s))

    return lease


def test_a_killed_broker_is_gone_and_comes_back_as_another_process(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    before = cluster.process_of(victim)
    there = leased()

    injected = BrokerKill().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == []
        assert not connects(victim.container, "localhost")
        # Whoever is dead already is not killed again: that would be no proof.
        with pytest.raises(ClusterBroken, match="runs no JVM"):
            BrokerKill().inject(there, (victim,))
    finally:
        healed = BrokerKill().heal(there, (victim,))

    after = cluster.process_of(victim)
    assert healed.observed
    assert before is not None
    assert after is not None
    assert (before.pid, before.start_ticks) != (after.pid, after.start_ticks)
    cluster.await_full_isr([READY], timeout_s=90)


def test_a_paused_broker_is_stopped_and_still_accepts_connections(
    victim: Broker, leased: Leased
) -> None:
    there = leased()

    injected = BrokerPause().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == ["T"]
        await_connects(victim.container, "localhost")
    finally:
        healed = BrokerPause().heal(there, (victim,))

    assert healed.observed
    await_states(victim.container, ["S"])


def test_a_cut_off_broker_is_alive_and_unreachable_for_its_peers(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    host = f"broker-{victim.node_id}"
    there = leased()
    await_connects(peer.container, host)

    injected = Partition().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert not connects(peer.container, host)
        await_states(victim.container, ["S"])
        await_connects(victim.container, "localhost")
    finally:
        healed = Partition().heal(there, (victim,))

    assert healed.observed
    await_connects(peer.container, host)


def test_a_cut_of_one_listener_leaves_the_other_open(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    host = f"broker-{victim.node_id}"
    there = leased()
    fault = Partition(listener="replication")

    injected = fault.inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert not connects(peer.container, host)
        await_connects(peer.container, host, 9093)
    finally:
        fault.heal(there, (victim,))


def test_a_link_that_is_cut_leaves_all_other_links(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    pair = ends(cluster, victim)
    third = next(broker for broker in cluster.brokers if broker not in pair)
    there = leased()

    injected = Link().inject(there, pair)
    try:
        assert injected.observed, injected.details
        assert not connects(pair[0].container, f"broker-{pair[1].node_id}")
        assert not connects(pair[1].container, f"broker-{pair[0].node_id}")
        for end in pair:
            await_connects(third.container, f"broker-{end.node_id}")
            await_connects(end.container, f"broker-{third.node_id}")
    finally:
        healed = Link().heal(there, pair)

    assert healed.observed
    await_connects(pair[0].container, f"broker-{pair[1].node_id}")


@pytest.mark.parametrize("direction", ["forth", "back"])
def test_a_link_cut_one_way_drops_only_what_goes_that_way(
    cluster: DockerCluster, victim: Broker, leased: Leased, direction: Direction
) -> None:
    pair = ends(cluster, victim)
    source, sink = pair if direction == "forth" else pair[::-1]
    there = leased()
    fault = Link(direction=direction)

    injected = fault.inject(there, pair)
    try:
        assert injected.observed, injected.details
        # What comes from the sink arrives, and only the answer is lost on its way back.
        wait_until(
            lambda: accepted(source, sink, cluster), timeout_s=30, what="an agreed connection"
        )
        assert accepted(sink, source, cluster) == 0
    finally:
        healed = fault.heal(there, pair)

    assert healed.observed


def test_a_link_cut_of_the_replication_listener_leaves_the_controllers(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    pair = ends(cluster, victim)
    host = f"broker-{pair[1].node_id}"
    there = leased()
    fault = Link(listener="replication")

    injected = fault.inject(there, pair)
    try:
        assert injected.observed, injected.details
        assert not connects(pair[0].container, host)
        await_connects(pair[0].container, host, 9093)
    finally:
        fault.heal(there, pair)


def test_a_link_that_drops_long_packets_carries_short_ones(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    leader, follower = ends(cluster, victim)
    there = leased()
    fault = Link(direction="forth", listener="replication", min_bytes=200)

    with produced(cluster, READY, acks="1", size=600) as traffic:
        injected = fault.inject(there, (leader, follower))
        try:
            assert injected.observed, injected.details
            await_connects(follower.container, f"broker-{leader.node_id}")
            wait_until(
                lambda: follower not in cluster.isr_of(READY, 0),
                timeout_s=120,
                what="a follower that hears nothing but empty answers to leave the ISR",
            )
            # Who took it out, the leader or the controller, is theirs to decide; what long packets
            # would have carried is not.
            held, reached = log_bytes(follower, READY), max(traffic.acknowledged)
            wait_until(
                lambda: max(traffic.acknowledged) >= reached + 100,
                timeout_s=60,
                what="a hundred records that the follower should have copied",
            )
            assert log_bytes(follower, READY) == held
            await_connects(follower.container, f"broker-{leader.node_id}")
        finally:
            healed = fault.heal(there, (leader, follower))

    assert healed.observed
    cluster.await_full_isr([READY], timeout_s=90)


def test_brokers_that_cannot_fetch_from_each_other_hear_everything_else(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    leader, follower = ends(cluster, victim)
    (third,) = set(cluster.brokers) - {leader, follower}
    there = leased()
    fault = FetchStall()

    with produced(cluster, READY, acks="1", size=20) as traffic:
        injected = fault.inject(there, (leader, follower))
        try:
            assert injected.observed, injected.details
            held, reached = log_bytes(follower, READY), max(traffic.acknowledged)
            copied = log_bytes(third, READY)
            wait_until(
                lambda: max(traffic.acknowledged) >= reached + 100,
                timeout_s=60,
                what="a hundred records that the follower should have copied",
            )
            assert log_bytes(follower, READY) == held
            # The negative control: who is not stalled copies from the same leader all the time.
            wait_until(
                lambda: log_bytes(third, READY) > copied, timeout_s=30, what="the third to copy"
            )
            # Requests of any other kind are answered, and the follower hears of its own exclusion.
            await_connects(follower.container, f"broker-{leader.node_id}")
            wait_until(
                lambda: follower not in cluster.isr_of(READY, 0), timeout_s=120,
                what="a follower that cannot fetch to leave the ISR",
            )  # fmt: skip
            assert cluster.leader_known_by(follower, READY, 0) == leader
        finally:
            healed = fault.heal(there, (leader, follower))

    assert healed.observed
    cluster.await_full_isr([READY], timeout_s=90)
    assert log_bytes(follower, READY) > held


@pytest.mark.parametrize("direction", ["both", "to_client", "to_broker"])
def test_clients_that_are_cut_off_get_no_acknowledgement_and_brokers_notice_nothing(
    cluster: DockerCluster, victim: Broker, leased: Leased, direction: ClientDirection
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    there = leased()
    fault = ClientLink(direction=direction)

    with produced(cluster, READY, acks="all", size=20) as traffic:
        wait_until(lambda: traffic.acknowledged, timeout_s=60, what="a first acknowledgement")
        injected = fault.inject(there, (victim,))
        # What was sent up to here may have been on its way when the link was cut.
        before = traffic.end
        try:
            assert injected.observed, injected.details
            wait_until(
                lambda: traffic.end >= before + 100,
                timeout_s=60,
                what="a hundred records sent to a broker that is cut off",
            )
            if direction == "to_client":
                wait_until(
                    lambda: log_end(cluster, victim, READY) > max(traffic.acknowledged) + 1,
                    timeout_s=30,
                    what="records whose acknowledgements are lost",
                )
            else:
                assert log_end(cluster, victim, READY) <= before
            await_connects(peer.container, f"broker-{victim.node_id}")
            assert max(traffic.acknowledged) < before
        finally:
            healed = fault.heal(there, (victim,))
        assert healed.observed, healed.details
        wait_until(
            lambda: max(traffic.acknowledged) >= before,
            timeout_s=60,
            what="acknowledgements to flow again",
        )


def test_a_stopped_broker_has_ended_in_order_with_its_log_flushed_and_comes_back(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    produce(cluster, READY, records=5)
    there = leased()

    injected = BrokerStop().inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == []
        last = shell(victim.container, "tail -n 1 /run/kafka-chaos/exits").stdout
        assert json.loads(last)["status"] == 143
        assert (
            shell(victim.container, "ls /var/lib/kafka/data/.kafka_cleanshutdown").returncode == 0
        )
        # Its own word that it leads no more comes first, and the others hear of it later.
        wait_until(
            lambda: cluster.leader_of(READY, 0) not in (None, victim),
            timeout_s=30,
            what="another leader",
        )
        # It has flushed everything, and says so: no power cut takes that away.
        before = log_bytes(victim, READY)
        with pytest.raises(ClusterBroken, match="below the recovery point"):
            there.cut_tail(victim, topic=READY, partition=0, offset=1)
        assert log_bytes(victim, READY) == before
    finally:
        healed = BrokerStop().heal(there, (victim,))

    assert healed.observed
    await_states(victim.container, ["S"])
    cluster.await_full_isr([READY], timeout_s=90)


def test_a_power_loss_takes_what_was_not_flushed_and_other_replicas_give_it_back(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    produce(cluster, READY, records=50)
    before = log_bytes(victim, READY)
    there = leased()
    fault = PowerLoss(topic=READY, partition=0)

    injected = fault.inject(there, (victim,))
    try:
        assert injected.observed, injected.details
        assert java_states(victim.container) == []
        cut = injected.details["cut"][victim.node_id][f"{READY}-0"]
        assert log_bytes(victim, READY) == before - cut["bytes"]
        assert cut["end_after"] < cut["end_before"]
    finally:
        healed = fault.heal(there, (victim,))

    assert healed.observed
    cluster.await_full_isr([READY], timeout_s=90)
    wait_until(
        lambda: {log_bytes(broker, READY) for broker in cluster.brokers} == {before},
        timeout_s=60,
        what=f"replicas of {before} bytes",
    )


def test_a_power_loss_of_all_brokers_loses_acknowledged_records(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    end = produce(cluster, READY, records=50)
    there = leased()
    fault = PowerLoss(topic=READY, partition=0, offset=end - 20)

    injected = fault.inject(there, cluster.brokers)
    try:
        assert injected.observed, injected.details
    finally:
        fault.heal(there, cluster.brokers)

    cut = {logs[f"{READY}-0"]["end_after"] for logs in injected.details["cut"].values()}
    assert len(cut) == 1
    assert end - 20 <= min(cut) < end
    # Kafka's own word: the log ends where it was cut, and takes records again.
    await_end(cluster, READY, min(cut))
    assert produce(cluster, READY, records=5) == min(cut) + 5


def test_a_living_brokers_tail_is_not_cut(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    before = log_bytes(victim, READY)

    with pytest.raises(ClusterBroken, match="still runs"):
        leased().cut_tail(victim, topic=READY, partition=0)

    assert log_bytes(victim, READY) == before


def test_a_shutdown_that_takes_too_long_is_no_proof_and_is_not_helped_along(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    there = leased()
    # A frozen JVM gets the signal only when it is thawed, which is longer than the limit.
    there.signal(victim, "SIGSTOP")

    injected = BrokerStop(limit_s=1).inject(there, (victim,))
    try:
        assert not injected.observed
        assert injected.details["still_running"] == [victim.node_id]
        assert java_states(victim.container) == ["T"]
    finally:
        there.signal(victim, "SIGCONT")
        healed = BrokerStop().heal(there, (victim,))

    # It had to end first: starting in its place would have been lost, and nobody would run now.
    assert healed.observed
    assert (
        json.loads(shell(victim.container, "tail -n 1 /run/kafka-chaos/exits").stdout)["status"]
        == 143
    )
    await_states(victim.container, ["S"])


def test_a_gc_pause_is_real_in_the_brokers_own_log(victim: Broker, leased: Leased) -> None:
    there = leased(hold_s=5.0)
    fault = GcPause()

    def collections() -> int:
        command = "grep -c 'Pause Full (System.gc())' /var/log/kafka/gc.log"
        return int(shell(victim.container, command).stdout or 0)

    before = collections()

    injected = fault.inject(there, (victim,))
    # The storm lasts longer than this by itself, and its pauses take nearly all of the time.
    wait_until(
        lambda: sum(there.gc_pauses_s(victim)) >= fault.share * 5.0,
        timeout_s=60,
        what="pauses that add up to the share of the time held",
    )
    healed = fault.heal(there, (victim,))

    assert injected.observed, injected.details
    assert healed.observed, healed.details
    assert collections() > before + 2


def test_a_storm_that_asks_for_more_than_the_heap_holds_leaves_the_broker_alive(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    before = cluster.process_of(victim)
    there = leased(hold_s=3.0)
    fault = GcPause(nodes=1_000_000_000)

    injected = fault.inject(there, (victim,))
    fault.heal(there, (victim,))

    assert injected.observed, injected.details
    after = cluster.process_of(victim)
    assert before is not None
    assert after is not None
    assert (after.pid, after.start_ticks) == (before.pid, before.start_ticks)
    assert "OutOfMemoryError" not in cluster.said(victim)
    await_connects(victim.container, "localhost")


class Harmless:
    """A real cluster on which every way of doing damage does nothing: the negative control."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        if name in ("signal", "cut", "cut_clients", "stall_fetches", "hold_down"):
            return lambda *_, **__: None
        if name == "cut_tail":
            return lambda *_, **__: ()
        if name == "collect_garbage":
            # A storm of no length: the log is marked, and nothing happens.
            return lambda broker, **_: self._cluster.collect_garbage(broker, duration_s=0.001)
        return getattr(self._cluster, name)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fault",
    [
        BrokerStop(limit_s=3),
        ClientLink(),
        FetchStall(),
        GcPause(),
        Link(),
        Link(min_bytes=200),
        Partition(),
    ],
    ids=str,
)
def test_a_fault_that_does_nothing_is_never_proven(
    cluster: DockerCluster, victim: Broker, leased: Leased, fault: Fault
) -> None:
    there = Harmless(leased(hold_s=1.0))
    hit = ends(cluster, victim) if fault_traits(fault).hits_pairs else (victim,)

    injected = fault.inject(there, hit)
    healed = fault.heal(there, hit)

    assert not (injected.observed and healed.observed)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "awaited"),
    [
        (BrokerKill(), "the death of broker"),
        (BrokerPause(), "the kernel to show the brokers as stopped"),
        (PowerLoss(), "the death of broker"),
    ],
    ids=str,
)
def test_what_a_fault_that_does_nothing_waits_for_never_comes(
    victim: Broker, leased: Leased, fault: Fault, awaited: str
) -> None:
    with pytest.raises(WaitTimeout, match=awaited):
        fault.inject(Harmless(leased()), (victim,))


def test_whatever_is_broken_heals_by_itself_when_its_lease_ends(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    del victim  # who leads is hit like all others, and has a full ISR when that begins
    frozen, cut_off, dead = cluster.brokers
    before = cluster.process_of(dead)
    # Much longer than it takes to see the damage.
    there = leased(limit_s=8.0)

    there.signal(frozen, "SIGSTOP")
    there.cut([(cut_off, frozen), (cut_off, dead)], listener="all")
    there.hold_down(dead)
    there.signal(dead, "SIGKILL")

    assert java_states(frozen.container) == ["T"]
    assert "KC-" in packet_filter(cluster, cut_off)
    wait_until(lambda: java_states(dead.container) == [], timeout_s=5, what="the death")
    await_states(frozen.container, ["S"])
    await_states(dead.container, ["S"])
    for peer in (frozen, dead):
        await_connects(peer.container, f"broker-{cut_off.node_id}")
        await_connects(cut_off.container, f"broker-{peer.node_id}")
    assert "KC-" not in packet_filter(cluster, cut_off)
    assert cluster.process_of(dead) != before
    # The agent strikes a lease off after it has taken back all that is under it.
    wait_until(
        lambda: not cluster.agent.ask("leases")["leases"], timeout_s=30, what="the lease to end"
    )


def test_a_brokers_own_mbeans_can_be_read(cluster: DockerCluster, victim: Broker) -> None:
    manager = "kafka.server:type=ReplicaManager,name="

    partitions = cluster.jmx(victim, [f"{manager}PartitionCount", f"{manager}LeaderCount"], "Value")
    under = f"kafka.cluster:type=Partition,name=UnderReplicated,topic={READY},*"
    # That the ISR is full is known to the other brokers before its leader goes by it.
    wait_until(
        lambda: list(cluster.jmx(victim, under, "Value").values()) == [0.0],
        timeout_s=60,
        what="the leader to count no replica as missing",
    )
    sessions = cluster.jmx(
        victim, "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions,*", "Value"
    )

    assert set(partitions) == {f"{manager}PartitionCount", f"{manager}LeaderCount"}
    assert all(value >= 1 for value in partitions.values())
    assert sum(sessions.values()) >= 1
    assert cluster.jmx(victim, "nobody:type=Nothing", "Value") == {}
    with pytest.raises(ClusterBroken, match="object names"):
        cluster.jmx(victim, "no name at all", "Value")
