"""Faults that lean on Kafka's own files and ways, on the Kafka of 2017: ZooKeeper, format v1."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from faults.broker_stop import BrokerStop
from faults.link import Link
from faults.power_loss import PowerLoss
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import ClusterSpec, Lease
from harness.core.wait import wait_until
from tests.suites.witnesses import (
    READY,
    await_connects,
    await_end,
    connects,
    ends,
    log_bytes,
    produce,
    shell,
)

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    spec = ClusterSpec(kafka="0.10.2.2")
    started = launch(spec, run="suite-faults-old", folder=folder, say=print)
    yield started
    started.save_logs()
    started.shut_down()


@pytest.fixture
def leased(cluster: DockerCluster, request: pytest.FixtureRequest) -> Any:
    cluster.await_full_isr([READY], timeout_s=120)
    fault_id = f"o{abs(hash(request.node.name)) % 10**8}"
    return cluster.leased(Lease(fault_id=fault_id, hold_s=4.0, limit_s=180.0))


def test_a_power_loss_cuts_message_sets_at_their_boundaries(
    cluster: DockerCluster, leased: Any
) -> None:
    end = produce(cluster, READY, records=50)
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


def test_a_link_is_cut_between_two_old_brokers_alone(cluster: DockerCluster, leased: Any) -> None:
    leader = cluster.leader_of(READY, 0)
    assert leader is not None
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


def test_an_old_brokers_mbeans_can_be_read(cluster: DockerCluster, leased: Any) -> None:
    manager = "kafka.server:type=ReplicaManager,name="

    seen = cluster.jmx(cluster.brokers[0], [f"{manager}PartitionCount"], "Value")

    assert seen[f"{manager}PartitionCount"] >= 1
