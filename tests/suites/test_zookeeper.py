"""The Kafka of 2017, with ZooKeeper: what faults do there, and who is cut off from whom."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_stop import BrokerStop
from faults.link import Link
from faults.partition import Partition
from faults.power_loss import PowerLoss
from harness.campaigns.conduct import RunResult
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import Answer, Broker, ClusterSpec, Lease, TopicSpec
from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from harness.core.wait import wait_until
from tests.suites.recorded import lost_records
from tests.suites.witnesses import (
    READY,
    await_connects,
    await_end,
    checkpoint,
    connects,
    ends,
    log_bytes,
    produce,
    shell,
)

pytestmark = pytest.mark.docker

OLDEST = "0.10.2.2"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    spec = ClusterSpec(kafka=OLDEST, controllers=1)
    started = launch(spec, run="suite-zookeeper", folder=folder, say=print)
    yield started
    started.save_logs()
    started.shut_down()


@pytest.fixture
def leased(cluster: DockerCluster, request: pytest.FixtureRequest) -> Any:
    """The cluster, every ISR full, with a lease of the test's own."""
    cluster.await_full_isr([READY], timeout_s=120)
    fault_id = f"z{abs(hash(request.node.name)) % 10**8}"
    return cluster.leased(Lease(fault_id=fault_id, hold_s=10.0, limit_s=180.0))


def zookeeper_of(cluster: DockerCluster) -> Broker:
    return next(node for node in cluster.nodes if node.node_id == 201)


def server_log(cluster: DockerCluster, node_id: int) -> str:
    """What a node has logged, read in its own container."""
    container = next(node.container for node in cluster.nodes if node.node_id == node_id)
    return shell(container, "cat /var/log/kafka/server.log").stdout


def session_of(cluster: DockerCluster, broker: Broker) -> str | None:
    """Which session holds a broker's place in ZooKeeper, by ZooKeeper's own word."""
    dump = "exec 4<>/dev/tcp/localhost/2181 && printf dump >&4 && cat <&4"
    told = shell(zookeeper_of(cluster).container, dump).stdout
    sessions = re.findall(r"^(0x\w+):\n((?:\t.*\n)+)", told, re.MULTILINE)
    place = f"\t/brokers/ids/{broker.node_id}\n"
    return next((session for session, nodes in sessions if place in nodes), None)


# By night: the first trial of claim 1 is a whole run on the oldest Kafka as well.
@pytest.mark.nightly
def test_a_short_run_on_the_oldest_kafka_is_valid(run_scenario: Callable[..., RunResult]) -> None:
    outcome = run_scenario(
        "mixed", seed=3, cluster={"kafka": OLDEST}, faults=("broker_kill",), duration_s=25
    )

    folder = outcome.run_dir.path
    verdict = json.loads((folder / "verdict.json").read_text())
    assert outcome.verdict is Verdict.VALID, json.dumps(verdict)[:4000]
    assert any(fault["proven"] for fault in verdict["faults"])
    log = (folder / "cluster" / "broker-1" / "server.log").read_text()
    assert f"Kafka version : {OLDEST}" in log
    timeline = [json.loads(line) for line in (folder / "timeline.jsonl").read_text().splitlines()]
    assert {line["topic"] for line in timeline} == {"orders"}
    assert any(len(line["isr"]) < 3 for line in timeline), "the death was seen in ZooKeeper"
    assert lost_records(folder) == {}


def test_the_extra_controller_commands_and_holds_no_replica(cluster: DockerCluster) -> None:
    # Whose znodes are there need not have leaders yet.
    cluster.await_full_isr([READY, "__consumer_offsets"], timeout_s=60)
    controller = cluster.controller()

    assert controller is not None
    assert controller.node_id == 101
    assert [broker.node_id for broker in cluster.brokers] == [1, 2, 3]
    states = cluster.metadata().partitions()
    assert {topic for topic, _ in states} >= {READY, "__consumer_offsets"}
    assert {node for state in states.values() for node in state.replicas} == {1, 2, 3}
    assert all(state.leader_epoch is not None for state in states.values())


def test_the_effective_configuration_is_read_from_an_old_brokers_log(
    cluster: DockerCluster,
) -> None:
    cluster.alter_topic(READY, {"retention.ms": "86400000"})

    assert cluster.admin.topic_config(READY) == {"retention.ms": "86400000"}
    # The brokers were told, not only the znode.
    wait_until(
        lambda: "retention.ms -> 86400000" in server_log(cluster, 1),
        timeout_s=60,
        what="the new config",
    )
    with pytest.raises(UsageError, match=r"from Kafka 2\.4 on"):
        cluster.admin.elect_leader(READY, 0, unclean=True)


def test_an_old_brokers_mbeans_can_be_read(cluster: DockerCluster) -> None:
    name = "kafka.server:type=ReplicaManager,name=PartitionCount"

    found = cluster.jmx(cluster.brokers[0], [name], "Value")

    assert found[name] >= 1


def test_a_cut_of_the_controller_listener_ends_the_session_only(
    cluster: DockerCluster, leased: Any
) -> None:
    victim = cluster.brokers[1]
    fault = Partition(listener="controller")

    assert fault.inject(leased, [victim]).observed
    try:
        wait_until(
            lambda: victim.node_id not in cluster.metadata().broker_ids(),
            timeout_s=60,
            what="the session to end",
        )
        peers = [(victim, other) for other in cluster.brokers if other != victim]
        assert set(cluster.probe(peers, timeout_s=20.0).values()) == {Answer.ANSWERED}
        assert "Expiring session" in server_log(cluster, 201)
    finally:
        assert fault.heal(leased, [victim]).observed


def test_a_broker_started_before_its_old_session_ends_comes_up(
    cluster: DockerCluster, leased: Any
) -> None:
    victim = cluster.brokers[0]

    def is_being_started() -> bool:
        """By the supervisor's own word, whose start script then waits for the session's end."""
        return shell(victim.container, "cat /run/kafka-chaos/wish").stdout.strip() == "up"

    def comes_up_early() -> bool:
        """Kill and start it; whether its old session still held its place when that began."""
        cluster.await_full_isr([READY], timeout_s=120)
        old = session_of(cluster, victim)
        assert old is not None
        with ThreadPoolExecutor(1) as background:
            assert BrokerKill().inject(leased, [victim]).observed
            started = background.submit(leased.start, victim)
            wait_until(is_being_started, timeout_s=30, what="the start")
            was_early = session_of(cluster, victim) == old
            started.result()
        assert BrokerKill().heal(leased, [victim]).observed
        wait_until(
            lambda: session_of(cluster, victim) not in (None, old),
            timeout_s=60,
            what="a session of its own",
        )
        return was_early

    # A session lasts six seconds, and a busy machine may need them to kill and to start.
    wait_until(comes_up_early, timeout_s=180, what="a start within six seconds of the death")


def test_zookeeper_can_die_and_come_back(cluster: DockerCluster, leased: Any) -> None:
    keeper = zookeeper_of(cluster)

    assert BrokerKill().inject(leased, [keeper]).observed
    assert cluster.metadata().broker_ids(timeout_s=1.0) == set()
    assert BrokerKill().heal(leased, [keeper]).observed
    cluster.await_full_isr([READY], timeout_s=120)


def test_a_power_loss_cuts_message_sets_at_their_boundaries(
    cluster: DockerCluster, leased: Any
) -> None:
    end = produce(cluster, READY, records=50)
    # Before KIP-101 (0.11) whoever follows first cuts its log to the high watermark that it finds
    # in its checkpoint: of logs whose checkpoint is old nothing is left, however much was not cut.
    wait_until(
        lambda: {checkpoint(broker, READY) for broker in cluster.brokers} == {end},
        timeout_s=60,
        what="the high watermarks on the disks",
    )
    fault = PowerLoss(topic=READY, partition=0, offset=end - 20)

    injected = fault.inject(leased, cluster.brokers)
    try:
        assert injected.observed, injected.details
    finally:
        fault.heal(leased, cluster.brokers)

    cut = {logs[f"{READY}-0"]["end_after"] for logs in injected.details["cut"].values()}
    assert cut == {end - 20}
    await_end(cluster, READY, end - 20)
    assert produce(cluster, READY, records=5) == end - 15
    wait_until(
        lambda: len({log_bytes(broker, READY) for broker in cluster.brokers}) == 1,
        timeout_s=60,
        what="replicas of the same length",
    )


def test_an_old_broker_is_stopped_in_order(cluster: DockerCluster, leased: Any) -> None:
    victim = cluster.brokers[0]

    injected = BrokerStop().inject(leased, (victim,))
    try:
        assert injected.observed, injected.details
        last = shell(victim.container, "tail -n 1 /run/kafka-chaos/exits").stdout
        assert json.loads(last)["status"] == 143
    finally:
        healed = BrokerStop().heal(leased, (victim,))

    assert healed.observed


@pytest.mark.nightly
def test_an_old_broker_that_hangs_once_started_is_killed_to_heal_it(
    cluster: DockerCluster, leased: Any
) -> None:
    topic = "outgrown"
    leader, victim = cluster.brokers[:2]
    cluster.create_topic(
        TopicSpec(
            name=topic,
            partitions=1,
            replication_factor=2,
            config=(("unclean.leader.election.enable", "false"),),
            assignment=((leader.node_id, victim.node_id),),
        )
    )
    cluster.await_full_isr([topic], timeout_s=60)
    end = produce(cluster, topic, records=50)
    wait_until(
        lambda: checkpoint(victim, topic) == end, timeout_s=60, what="its high watermark on disk"
    )
    loss = PowerLoss(topic=topic, partition=0, offset=end - 20)

    try:
        assert BrokerKill().inject(leased, [victim]).observed
        wait_until(
            lambda: cluster.isr_of(topic, 0) == (leader,), timeout_s=60, what="the ISR to shrink"
        )
        assert loss.inject(leased, [leader]).observed
    finally:
        loss.heal(leased, [leader])
    # It holds more than its leader, gives up, and waits in its shutdown for itself (KAFKA-4039).
    leased.start(victim)
    wait_until(lambda: cluster.ending([victim]), timeout_s=60, what="the shutdown that hangs")
    healed = BrokerKill().heal(leased, [victim])

    assert healed.observed
    assert healed.details["killed"] == [victim.node_id]
    # It stays once its leader holds as much as it does.
    assert produce(cluster, topic, records=30) == end + 10
    assert BrokerKill().inject(leased, [victim]).observed
    assert BrokerKill().heal(leased, [victim]).observed
    cluster.await_full_isr([topic], timeout_s=120)


def test_a_link_is_cut_between_two_old_brokers_alone(cluster: DockerCluster, leased: Any) -> None:
    leader = wait_until(
        lambda: cluster.leader_of(READY, 0), timeout_s=60, what=f"a leader of {READY}-0"
    )
    pair = ends(cluster, leader)
    third = next(broker for broker in cluster.brokers if broker not in pair)
    fault = Link(listener="replication")

    injected = fault.inject(leased, pair)
    try:
        assert injected.observed, injected.details
        assert not connects(pair[1].container, f"broker-{leader.node_id}")
        await_connects(third.container, f"broker-{leader.node_id}")
        wait_until(
            lambda: pair[1] not in cluster.isr_of(READY, 0),
            timeout_s=120,
            what="the follower to leave the ISR",
        )
    finally:
        healed = fault.heal(leased, pair)

    assert healed.observed
