"""What a cluster with ZooKeeper becomes, and which versions can have which mode."""

import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.configure import Overrides, configure
from harness.cluster.admin import round_robin
from harness.cluster.launch import internal_topics
from harness.cluster.logs import settings_in
from harness.cluster.topology import Node, Topology, render
from harness.cluster.zookeeper import ZooKeeper, _partition_state
from harness.core.cluster import ClusterSpec
from harness.core.errors import UsageError
from harness.machine.images import compose_folder
from harness.machine.templates import read_yaml


def rendered(**wanted: Any) -> tuple[Topology, dict[str, Any]]:
    spec = ClusterSpec(**{"kafka": "2.8.2", **wanted})
    topology = render(spec, run="r", owner="o", image="image", agent_image="agent-image")
    document: dict[str, Any] = read_yaml(topology.compose)
    return topology, document


def node(topology: Topology, node_id: int) -> Node:
    return next(each for each in topology.nodes if each.node_id == node_id)


def properties(topology: Topology, node_id: int) -> dict[str, str]:
    lines = node(topology, node_id).properties.splitlines()
    return dict(line.split("=", 1) for line in lines)


# --- which mode


@pytest.mark.parametrize(
    ("kafka", "metadata", "mode"),
    [
        ("0.10.2.2", None, "zookeeper"),
        ("2.8.2", None, "zookeeper"),
        ("3.2.3", None, "zookeeper"),
        ("3.3.0", None, "kraft"),
        ("3.9.1", "zookeeper", "zookeeper"),
        ("3.9.1", "kraft", "kraft"),
        ("3.10.0", None, "kraft"),
        ("4.3.1", None, "kraft"),
    ],
)
def test_metadata_is_kept_where_the_version_can(kafka: str, metadata: Any, mode: str) -> None:
    assert ClusterSpec(kafka=kafka, metadata=metadata).mode == mode


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"kafka": "2.8.2", "metadata": "kraft"}, "has no KRaft"),
        ({"kafka": "4.0.0", "metadata": "zookeeper"}, "no ZooKeeper mode"),
        ({"kafka": "3.9.1", "metadata": "etcd"}, "none of kraft, zookeeper"),
        ({"kafka": "2.8.2", "features": (("metadata.version", 1),)}, "ZooKeeper mode has none"),
        ({"kafka": "3.6.2", "features": (("metadata.version", 1),)}, "3.9 or later"),
        ({"kafka": "4.3.1", "features": (("metadata version", 1),)}, "is no feature"),
        ({"kafka": "2.8.2", "config": (("zookeeper.connect", "x"),)}, "set by the harness"),
    ],
)
def test_a_mode_that_the_version_does_not_have_is_refused(
    wanted: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        ClusterSpec(**wanted)


def test_features_reach_the_formatter_and_no_others_do() -> None:
    spec = ClusterSpec(features=(("metadata.version", 20), ("kraft.version", 1)))

    made = render(spec, run="r", owner="o", image="image", agent_image="agent")

    environment = read_yaml(made.compose)["services"]["broker-1"]["environment"]
    assert environment["KC_FEATURES"] == "metadata.version=20 kraft.version=1"


# --- what is started


@pytest.mark.parametrize("brokers", [1, 3, 9])
@pytest.mark.parametrize("controllers", [0, 1, 3])
def test_there_are_brokers_extra_controllers_and_one_zookeeper(
    brokers: int, controllers: int
) -> None:
    topology, document = rendered(brokers=brokers, controllers=controllers)

    kinds = [each.kind for each in topology.nodes]
    assert kinds == ["broker"] * brokers + ["controller"] * controllers + ["zookeeper"]
    assert len({each.port for each in topology.nodes}) == len(topology.nodes)
    assert set(document["services"]) == {each.service for each in topology.nodes} | {"agent"}
    assert topology.bootstrap.count(":") == brokers
    for service in document["services"].values():
        assert service["labels"]["kafka-chaos.run"] == "r"
        assert service["restart"] == "no"


def test_brokers_wait_for_the_extra_controllers_and_those_for_zookeeper() -> None:
    topology, document = rendered(controllers=1)

    assert node(topology, 201).wait_for == ()
    assert node(topology, 101).wait_for == ()
    assert node(topology, 1).wait_for == ("controller-101:9092",)
    first = document["services"]["broker-1"]
    assert first["depends_on"] == ["zookeeper"]
    assert first["environment"]["KC_WAIT_FOR"] == "controller-101:9092"
    assert "depends_on" not in document["services"]["zookeeper"]


def test_a_broker_has_two_listeners_and_knows_its_zookeeper() -> None:
    topology, _ = rendered(kafka="0.10.2.2")

    settings = properties(topology, 1)
    assert settings["zookeeper.connect"] == "zookeeper:2181"
    assert settings["listeners"] == "REPLICATION://:9092,CLIENT://:9094"
    port = node(topology, 1).port
    assert settings["advertised.listeners"].endswith(f",CLIENT://127.0.0.1:{port}")
    assert settings["log.dirs"] == "/var/lib/kafka/data"
    assert not {"process.roles", "node.id", "transaction.state.log.min.isr"} & set(settings)


def test_each_kind_of_traffic_goes_between_certain_nodes() -> None:
    topology, _ = rendered(controllers=1)
    one, two, extra, keeper = (node(topology, each) for each in (1, 2, 101, 201))

    assert topology.ports_between(one, two, "all") is None
    assert topology.ports_between(one, two, "replication") == (9092,)
    assert topology.ports_between(one, two, "controller") == ()
    assert topology.ports_between(one, extra, "replication") == ()
    assert topology.ports_between(one, extra, "controller") == (9092,)
    assert topology.ports_between(one, keeper, "replication") == ()
    assert topology.ports_between(one, keeper, "controller") == (2181,)


def test_without_zookeeper_ports_do_not_depend_on_the_nodes() -> None:
    topology, _ = rendered(kafka="4.3.1")
    one, two = topology.nodes[:2]

    assert topology.ports_between(one, two, "replication") == (9092,)
    assert topology.ports_between(one, two, "controller") == (9093,)


def test_replicas_are_dealt_in_turn() -> None:
    assert round_robin([1, 2, 3], 4, 2) == [(1, 2), (2, 3), (3, 1), (1, 2)]


def test_internal_topics_want_no_more_replicas_than_there_are_brokers() -> None:
    names = [topic.name for topic in internal_topics(ClusterSpec(kafka="0.10.2.2", brokers=2))]
    topics = internal_topics(ClusterSpec(kafka="2.8.2", brokers=2))

    assert names == ["__consumer_offsets"]
    assert [topic.name for topic in topics] == ["__consumer_offsets", "__transaction_state"]
    assert {topic.replication_factor for topic in topics} == {2}
    assert dict(topics[1].config)["min.insync.replicas"] == "1"


# --- what is read


def test_the_last_configuration_in_a_log_counts() -> None:
    head = "[2026-11-21 14:00:00,000] INFO KafkaConfig values: \n"
    tail = " (kafka.server.KafkaConfig)\n[2026] INFO next (x)\n\ta = 9\n"
    log_text = (
        f"{head}\ta = 1\n\tb = null\n{tail}"
        f"{head}\ta = 2\n\tb = null\n\tlisteners = A://:1,B://:2\n{tail}"
    )

    assert settings_in(log_text) == {"a": "2", "listeners": "A://:1,B://:2"}
    assert settings_in("nothing") == {}


def test_a_partition_state_is_what_its_znode_says() -> None:
    text = '{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":4,"isr":[2]}'

    state = _partition_state(json.loads(text), (1, 2))

    assert (state.leader, state.isr, state.replicas, state.leader_epoch) == (None, (2,), (1, 2), 4)
    assert _partition_state({}, (1,)).isr == ()


def test_a_zookeeper_that_is_away_costs_bounded_time_and_no_noise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    zookeeper = ZooKeeper("127.0.0.1:1")
    zookeeper.start()
    try:
        seen = (
            zookeeper.broker_ids(timeout_s=0.1),
            zookeeper.partitions(timeout_s=0.1),
            zookeeper.controller_id(timeout_s=0.1),
        )
    finally:
        zookeeper.close()

    assert seen == (set(), {}, None)
    assert caplog.records == []


# --- what each generation needs


def told(version: str) -> dict[str, str]:
    script = compose_folder() / "broker" / "versions.sh"
    names = ("scala", "has_kraft", "has_zookeeper", "managed", "additional", "logging")
    lines = "".join(f'printf "%s\\n" "{name}=${name}"; ' for name in names)
    flags = 'printf "flags=%s\\n" "${java_flags[*]}"'
    done = subprocess.run(
        ["bash", "-euc", f'. "$0"; versions_for "$1"; {lines}{flags}', str(script), version],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("version", "scala", "modes"),
    [
        ("0.10.2.2", "2.11", "01"),
        ("0.11.0.3", "2.11", "01"),
        ("1.1.1", "2.12", "01"),
        ("2.3.1", "2.12", "01"),
        ("2.4.0", "2.13", "01"),
        ("2.8.2", "2.13", "01"),
        ("3.2.3", "2.13", "01"),
        ("3.3.0", "2.13", "11"),
        ("3.9.1", "2.13", "11"),
        ("4.0.0", "2.13", "10"),
        ("4.3.1", "2.13", "10"),
    ],
)
def test_the_image_has_the_modes_of_its_version(version: str, scala: str, modes: str) -> None:
    facts = told(version)

    assert facts["scala"] == scala
    assert facts["has_kraft"] + facts["has_zookeeper"] == modes


def test_what_is_missing_on_a_young_java_is_added_for_old_versions_only() -> None:
    assert "jaxb-api" in told("1.1.1")["additional"]
    assert "zookeeper:3.5.8" in told("2.0.1")["managed"]
    assert "zookeeper:3.5.8" in told("2.4.1")["managed"]
    assert told("2.5.1")["managed"] == told("1.1.1")["managed"] == ""
    assert "add-opens" in told("2.8.2")["flags"]
    assert told("3.0.0")["flags"] == ""
    assert "log4j-core" in told("4.0.0")["logging"]
    assert "reload4j" in told("3.9.1")["logging"]


def test_the_pom_asks_for_the_version_and_leaves_old_logging_out() -> None:
    script: Path = compose_folder() / "broker" / "write-pom"

    done = subprocess.run([script, "2.0.1"], capture_output=True, text=True, check=True)

    assert "<artifactId>kafka_2.12</artifactId><version>2.0.1</version>" in done.stdout
    assert "<artifactId>zookeeper</artifactId><version>3.5.8</version>" in done.stdout
    assert done.stdout.count("<exclusion>") == 2 * done.stdout.count("</dependency>")


# --- what clients do differently


def test_idempotence_is_off_where_brokers_do_not_know_it() -> None:
    old = configure("mixed", Overrides(cluster={"kafka": "0.10.2.2"}))
    new = configure("mixed", Overrides(cluster={"kafka": "0.11.0.3"}))

    assert (old.contract.idempotent, new.contract.idempotent) == (False, True)
    with pytest.raises(UsageError, match="knows no idempotent producers"):
        configure(
            "mixed",
            Overrides(cluster={"kafka": "0.10.2.2"}, contract={"idempotence": True}),
        )
