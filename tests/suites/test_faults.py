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
from faults.gc_pause import GcPause
from faults.link import Link
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import Broker, ClientDirection, ClusterSpec, Direction, Lease
from harness.core.errors import ClusterBroken, WaitTimeout
from harness.core.fault import Fault
from harness.core.wait import pause, wait_until
from tests.suites.witnesses import (
    READY,
    accepted,
    await_connects,
    await_end,
    await_states,
    connects,
    ends,
    is_at_rest,
    java_states,
    log_bytes,
    produce,
    produced,
    shell,
)

pytestmark = pytest.mark.docker

Leased = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    # A follower that hears nothing is waited for to leave the ISR: half of Kafka's time for it.
    spec = ClusterSpec(config=(("replica.lag.time.max.ms", "15000"),))
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
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1})

    with produced(producer, READY, size=600):
        injected = fault.inject(there, (leader, follower))
        try:
            assert injected.observed, injected.details
            await_connects(follower.container, f"broker-{leader.node_id}")
            wait_until(
                lambda: follower not in cluster.isr_of(READY, 0),
                timeout_s=120,
                what="a follower that hears nothing but empty answers to leave the ISR",
            )
            await_connects(follower.container, f"broker-{leader.node_id}")
        finally:
            healed = fault.heal(there, (leader, follower))

    assert healed.observed
    cluster.await_full_isr([READY], timeout_s=90)


@pytest.mark.parametrize("direction", ["both", "to_client", "to_broker"])
def test_clients_that_are_cut_off_get_no_acknowledgement_and_brokers_notice_nothing(
    cluster: DockerCluster, victim: Broker, leased: Leased, direction: ClientDirection
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 60_000}
    )
    there = leased()
    fault = ClientLink(direction=direction)

    with produced(producer, READY, size=20) as acknowledged:
        wait_until(lambda: acknowledged, timeout_s=60, what="a first acknowledgement")
        end = log_bytes(victim, READY)
        injected = fault.inject(there, (victim,))
        try:
            assert injected.observed, injected.details
            # What had come before the cut may still lie in the client's queue.
            before = wait_until(
                lambda: is_at_rest(acknowledged, for_s=1.0),
                timeout_s=30,
                what="acknowledgements to end",
            )
            pause(2.0)
            assert len(acknowledged) == before
            if direction == "to_client":
                wait_until(
                    lambda: log_bytes(victim, READY) > end,
                    timeout_s=30,
                    what="records whose acknowledgements are lost",
                )
            await_connects(peer.container, f"broker-{victim.node_id}")
        finally:
            healed = fault.heal(there, (victim,))
        assert healed.observed, healed.details
        wait_until(lambda: len(acknowledged) > before, timeout_s=60, what="acks to flow again")


def test_a_stopped_broker_has_ended_in_order_and_comes_back(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
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


def test_a_cut_below_the_recovery_point_is_refused_and_the_broker_comes_back(
    cluster: DockerCluster, victim: Broker, leased: Leased
) -> None:
    produce(cluster, READY, records=5)
    there = leased()
    # A shutdown in order flushes everything, and says so.
    BrokerStop().inject(there, (victim,))
    BrokerStop().heal(there, (victim,))
    cluster.await_full_isr([READY], timeout_s=90)
    before = log_bytes(victim, READY)

    try:
        with pytest.raises(ClusterBroken, match="below the recovery point"):
            PowerLoss(topic=READY, partition=0, offset=1).inject(there, (victim,))
        assert log_bytes(victim, READY) == before
    finally:
        healed = BrokerKill().heal(there, (victim,))

    assert healed.observed


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
    count = "grep -c 'Pause Full (System.gc())' /var/log/kafka/gc.log"
    before = int(shell(victim.container, count).stdout or 0)

    injected = GcPause().inject(there, (victim,))
    pause(5.0)
    healed = GcPause().heal(there, (victim,))

    after = int(shell(victim.container, count).stdout)
    assert injected.observed, injected.details
    assert healed.observed, healed.details
    assert after > before + 2


class Harmless:
    """A real cluster on which every way of doing damage does nothing: the negative control."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        if name in ("signal", "cut", "cut_clients", "hold_down"):
            return lambda *_, **__: None
        if name == "cut_tail":
            return lambda *_, **__: ()
        if name == "collect_garbage":
            # A storm of no length: the log is marked, and nothing happens.
            return lambda broker, **_: self._cluster.collect_garbage(broker, duration_s=0.001)
        return getattr(self._cluster, name)


@pytest.mark.parametrize(
    "fault",
    [
        BrokerKill(),
        BrokerPause(),
        BrokerStop(limit_s=3),
        ClientLink(),
        GcPause(),
        Link(),
        Link(min_bytes=200),
        Partition(),
        PowerLoss(),
    ],
    ids=str,
)
def test_a_fault_that_does_nothing_is_never_proven(
    cluster: DockerCluster,
    victim: Broker,
    leased: Leased,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What these wait for never comes.
    for limit in ("witness._DEATH_S", "broker_pause._SOON_S", "gc_pause._FIRST_PAUSE_S"):
        monkeypatch.setattr(f"faults.{limit}", 2.0)
    there = Harmless(leased(hold_s=1.0))
    hit = ends(cluster, victim) if isinstance(fault, Link) else (victim,)

    try:
        injected = fault.inject(there, hit)
    except WaitTimeout:
        return

    healed = fault.heal(there, hit)
    assert not (injected.observed and healed.observed)


def test_killing_a_broker_that_is_dead_already_is_an_error_and_no_proof(
    victim: Broker, leased: Leased
) -> None:
    there = leased()
    BrokerKill().inject(there, (victim,))
    try:
        with pytest.raises(ClusterBroken, match="runs no JVM"):
            BrokerKill().inject(there, (victim,))
    finally:
        BrokerKill().heal(there, (victim,))


@pytest.mark.parametrize(
    "fault", [BrokerPause(), Partition(), BrokerKill()], ids=lambda f: type(f).__name__
)
def test_a_fault_heals_by_itself_when_its_lease_ends(
    cluster: DockerCluster, victim: Broker, leased: Leased, fault: Fault
) -> None:
    peer = next(broker for broker in cluster.brokers if broker != victim)

    # Longer than the injection may take on a busy machine: it would see it healed.
    fault.inject(leased(limit_s=8.0), (victim,))

    wait_until(
        lambda: (
            java_states(victim.container) == ["S"]
            and connects(peer.container, f"broker-{victim.node_id}")
        ),
        timeout_s=60,
        what="the agent to heal by itself",
    )
    # The agent strikes a lease off after it has taken back all that is under it.
    wait_until(lambda: not cluster.agent.leases(), timeout_s=30, what="the lease to end")


def test_a_brokers_own_mbeans_can_be_read(cluster: DockerCluster, victim: Broker) -> None:
    manager = "kafka.server:type=ReplicaManager,name="

    partitions = cluster.jmx(victim, [f"{manager}PartitionCount", f"{manager}LeaderCount"], "Value")
    shrinks = cluster.jmx(victim, f"{manager}IsrShrinksPerSec", "Count")
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
    assert shrinks[f"{manager}IsrShrinksPerSec"] >= 0
    assert sum(sessions.values()) >= 1
    assert cluster.jmx(victim, "nobody:type=Nothing", "Value") == {}
    with pytest.raises(ClusterBroken, match="object names"):
        cluster.jmx(victim, "no name at all", "Value")
