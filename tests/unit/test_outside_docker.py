"""Brokers outside Docker: what is refused, and what a run does to a cluster that is not ours."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.campaigns.configure import Overrides, configure, repeated
from harness.campaigns.draws import drawn
from harness.cli.settings import scenario_of
from harness.cluster.launch import launch
from harness.cluster.outside_cluster import OutsideCluster
from harness.cluster.pool import ClusterPool
from harness.core.cluster import Broker, ClusterSpec, TopicSpec
from harness.core.errors import ClusterBroken, UsageError
from harness.core.run_dir import RunDir
from harness.core.view import PartitionState
from harness.run.nemesis import plan
from harness.run.scenario_run import ScenarioRun

BOOTSTRAP = "a.example:9092,b.example:9092"
OUTSIDE = ClusterSpec(kafka="unknown", bootstrap=BOOTSTRAP)
COMMANDS = "own_command(./break.sh, ./heal.sh, ./look.sh)"


def _overrides(**more: Any) -> Overrides:
    cluster = {"bootstrap": BOOTSTRAP, **more.pop("cluster", {})}
    return Overrides(cluster=cluster, **more)


class _Admin:
    """What an administration client of such a cluster does."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)
        self.deleted: list[str] = []

    def addresses(self) -> dict[int, tuple[str, int]]:
        return {2: ("b.example", 9092), 1: ("a.example", 9092)}

    def broker_config(self, node_id: int) -> dict[str, str]:
        return {"broker.id": str(node_id)}

    def create_topic(self, topic: TopicSpec) -> None:
        self.topics.append(topic.name)

    def delete_topics(self, names: list[str]) -> None:
        self.deleted += names

    def partitions(self, topic: str) -> dict[tuple[str, int], PartitionState]:
        state = PartitionState(leader=1, isr=(1, 2), replicas=(1, 2))
        return {(topic, 0): state} if topic in self.topics else {}


@pytest.fixture
def cluster(tmp_path: Path) -> OutsideCluster:
    cluster = OutsideCluster(OUTSIDE, tmp_path)
    admin: Any = _Admin("orders")
    cluster.admin = cluster._source = admin
    cluster.connect(say=lambda _: None)
    return cluster


def test_faults_of_ours_are_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"out of reach of broker_kill, partition, .*own_command"):
        configure("mixed", _overrides())
    with pytest.raises(UsageError, match="out of reach of partition, broker_kill"):
        configure("leader_cut_and_kill", _overrides())

    targets = ("controller", "id(1)", "last_restarted")
    with pytest.raises(UsageError, match="nobody can tell who controller, last_restarted is"):
        configure("mixed", _overrides(faults=(COMMANDS,), targets=targets))


def test_commands_of_the_users_break_whom_clients_know() -> None:
    scenario = configure("mixed", _overrides(faults=(COMMANDS,)))

    steps = plan(scenario, 7)

    assert steps
    assert {type(step.fault).__name__ for step in steps} == {"OwnCommand"}
    assert "Controller" not in {type(step.target).__name__ for step in steps}


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ({"brokers": 3}, "already bring their own cluster: leave out --brokers or --bootstrap"),
        ({"security": "ssl"}, "leave out --security or"),
        ({"compose": "compose.yaml"}, "--compose starts a cluster, --bootstrap finds one"),
        ({"client_config": "nowhere.properties"}, r"nowhere\.properties"),
    ],
)
def test_what_the_brokers_have_themselves_is_refused(
    cluster: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        configure("undisturbed", _overrides(cluster=cluster))


def test_a_run_on_it_can_be_repeated(tmp_path: Path) -> None:
    scenario = configure("undisturbed", _overrides(cluster={"kafka": "3.9.1"}))
    run_dir = RunDir.create(tmp_path, scenario="undisturbed", seed=7)
    run_dir.update(seed=7, **ScenarioRun(scenario).described())

    again, seed = repeated(run_dir)

    assert (again, seed) == (scenario, 7)
    assert scenario.cluster.bootstrap == BOOTSTRAP
    assert not plan(scenario, 7)


def test_topics_are_called_so_that_others_do_not_meet_them() -> None:
    workload: Any = configure("undisturbed", _overrides()).workload
    named: Any = configure("undisturbed", _overrides(workload={"topic": "mine"})).workload

    assert workload.topic == "kafka-chaos-orders"
    assert named.topic == "mine"


def test_a_search_draws_no_settings_of_its_brokers() -> None:
    given = {"bootstrap": BOOTSTRAP, "faults": COMMANDS, "scenario": "search"}

    flags = drawn(given, "7/1", clusters="7", cluster=7, kafka="unknown")

    assert not {"broker_config", "controllers"} & flags.keys()
    assert scenario_of(flags).cluster.bootstrap == BOOTSTRAP


def test_it_is_not_started() -> None:
    with pytest.raises(UsageError, match="run already"):
        launch(OUTSIDE, run="r", folder=Path(), say=lambda _: None)


def test_brokers_are_those_that_kafka_tells(cluster: OutsideCluster, tmp_path: Path) -> None:
    assert cluster.brokers == (Broker(1, "a.example:9092"), Broker(2, "b.example:9092"))
    assert cluster.address_of(cluster.brokers[1]) == ("b.example", 9092)
    assert cluster.spec.brokers == 2
    assert (tmp_path / "cluster" / "broker-2" / "effective.json").is_file()
    assert cluster.controller() is None


def test_a_topic_that_is_there_is_neither_used_nor_deleted(cluster: OutsideCluster) -> None:
    admin: Any = cluster.admin
    mine = TopicSpec(name="mine", partitions=1, replication_factor=2)

    cluster.create_topic(mine)
    with pytest.raises(UsageError, match="has a topic 'orders' already"):
        cluster.create_topic(TopicSpec(name="orders", partitions=1, replication_factor=2))
    ClusterPool(keeps=True).release(cluster, ["orders", "mine"], is_sound=True, say=print)

    assert admin.deleted == ["mine"]


def test_what_needs_a_container_is_refused(cluster: OutsideCluster) -> None:
    broker = cluster.brokers[0]
    asks: list[Any] = [cluster.process_of, cluster.log_sizes, cluster.end_collections]
    for ask in asks:
        with pytest.raises(ClusterBroken, match="outside Docker: their processes"):
            ask(broker)
    with pytest.raises(ClusterBroken):
        cluster.host_clock_ns()


def test_a_log_ends_for_clients_where_it_is_committed(
    cluster: OutsideCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cluster,
        "high_watermarks",
        lambda places: {place: SimpleNamespace(offset=42) for place in places},
    )

    assert cluster.log_ends("orders") == {0: 42}
    assert cluster.log_ends("none") == {}


def test_who_looks_all_the_time_is_believed_and_asked_no_more(cluster: OutsideCluster) -> None:
    first, second = cluster.brokers
    seen = {("orders", 0): PartitionState(leader=2, isr=(2,), replicas=(1, 2))}

    with cluster.watched(lambda: seen):
        leader, isr = cluster.leader_of("orders", 0), cluster.isr_of("orders", 0)
        seen.clear()
        # Nobody has looked at it yet: Kafka is asked.
        unseen = cluster.leader_of("orders", 0)

    assert (leader, isr) == (second, (second,))
    assert unseen == cluster.leader_of("orders", 0) == first
