"""Clusters with ZooKeeper: a whole run on the oldest Kafka, and who is cut off from whom."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from faults.broker_kill import BrokerKill
from faults.partition import Partition
from harness.campaigns.conduct import RunResult
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import Answer, Broker, ClusterSpec, Lease
from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from harness.core.wait import wait_until

pytestmark = pytest.mark.docker

READY = "kafka-chaos-ready"
OLDEST = "0.10.2.2"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    spec = ClusterSpec(kafka=OLDEST, controllers=1)
    started = launch(spec, run="suite-zookeeper", folder=folder, say=print)
    yield started
    started.save_logs()
    started.shut_down()


def leased(cluster: DockerCluster, fault_id: str) -> Any:
    return cluster.leased(Lease(fault_id=fault_id, hold_s=10.0, limit_s=180.0))


def said(cluster: DockerCluster, node_id: int) -> str:
    """What a node has logged, read in its own container."""
    container = next(node.container for node in cluster.nodes if node.node_id == node_id)
    done = subprocess.run(
        ["docker", "exec", container, "cat", "/var/log/kafka/server.log"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


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
    sends = ds.dataset(folder / "history" / "send").to_table(columns=["value", "type"])
    acked = set(sends.filter(pc.equal(sends["type"], "ok"))["value"].to_pylist())
    final = ds.dataset(folder / "history" / "final").to_table(columns=["value"])
    assert acked - set(final["value"].to_pylist()) == set()


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
        lambda: "retention.ms -> 86400000" in said(cluster, 1), timeout_s=60, what="the new config"
    )
    with pytest.raises(UsageError, match=r"from Kafka 2\.4 on"):
        cluster.elect(READY, 0, unclean=True)


def test_a_cut_of_the_controller_listener_ends_the_session_only(cluster: DockerCluster) -> None:
    cluster.await_full_isr([READY], timeout_s=120)
    victim = cluster.brokers[1]
    broken, fault = leased(cluster, "z1"), Partition(listener="controller")

    assert fault.inject(broken, [victim]).observed
    try:
        wait_until(
            lambda: victim.node_id not in cluster.metadata().broker_ids(),
            timeout_s=60,
            what="the session to end",
        )
        peers = [(victim, other) for other in cluster.brokers if other != victim]
        assert set(cluster.probe(peers, timeout_s=20.0).values()) == {Answer.ANSWERED}
        assert "Expiring session" in said(cluster, 201)
    finally:
        assert fault.heal(broken, [victim]).observed
    cluster.await_full_isr([READY], timeout_s=120)


def test_a_broker_started_before_its_old_session_ends_comes_up(cluster: DockerCluster) -> None:
    cluster.await_full_isr([READY], timeout_s=120)
    victim = cluster.brokers[0]
    broken, fault = leased(cluster, "z2"), BrokerKill()

    assert fault.inject(broken, [victim]).observed
    assert fault.heal(broken, [victim]).observed
    cluster.await_full_isr([READY], timeout_s=120)


def test_zookeeper_can_die_and_come_back(cluster: DockerCluster) -> None:
    cluster.await_full_isr([READY], timeout_s=120)
    keeper = Broker(201, next(n.container for n in cluster.nodes if n.node_id == 201))
    broken, fault = leased(cluster, "z3"), BrokerKill()

    assert fault.inject(broken, [keeper]).observed
    assert cluster.metadata().broker_ids(timeout_s=1.0) == set()
    assert fault.heal(broken, [keeper]).observed
    cluster.await_full_isr([READY], timeout_s=120)
