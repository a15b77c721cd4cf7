"""`launch` and `Chaos`: whatever a block does, its fault is healed and its cluster removed."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from harness.core.cluster import Cluster
from harness.core.errors import ClusterBroken
from kafka_chaos import (
    Broker,
    BrokerKill,
    Chaos,
    Evidence,
    FollowerOf,
    LeaderOf,
    Processes,
    UsageError,
    clusters,
    runs,
)
from kafka_chaos import launch as launch_cluster
from tests.unit.fake_cluster import FakeCluster


class StartedCluster:
    """A cluster that notes what happens to it."""

    bootstrap = "127.0.0.1:1"

    def __init__(self, *, logs: Exception | None = None) -> None:
        self.done: list[str] = []
        self._logs = logs

    def save_logs(self) -> None:
        self.done.append("save_logs")
        if self._logs:
            raise self._logs

    def shut_down(self) -> None:
        self.done.append("shut_down")


class NeverHealed:
    """A fault that nobody sees healed."""

    def inject(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        return Evidence("inject", observed=True)

    def heal(self, cluster: Processes, victims: Sequence[Broker]) -> Evidence:
        return Evidence("heal", observed=False)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StartedCluster]:
    """Let `launch` find this cluster started."""

    def use(**settings: Any) -> StartedCluster:
        cluster = StartedCluster(**settings)
        monkeypatch.setattr(clusters, "start_cluster", lambda *_, **__: cluster)
        return cluster

    return use


def test_a_cluster_is_removed_when_its_block_ends(start: Callable[..., StartedCluster]) -> None:
    cluster = start()

    with launch_cluster():
        assert cluster.done == []

    assert cluster.done == ["save_logs", "shut_down"]


def test_a_cluster_is_removed_when_its_block_fails(start: Callable[..., StartedCluster]) -> None:
    cluster = start()

    with pytest.raises(ZeroDivisionError), launch_cluster():
        _ = 1 / 0

    assert cluster.done == ["save_logs", "shut_down"]


def test_a_cluster_is_removed_though_its_logs_cannot_be_saved(
    start: Callable[..., StartedCluster],
) -> None:
    cluster = start(logs=ClusterBroken("the agent does not answer"))

    with pytest.raises(ClusterBroken, match="does not answer"), launch_cluster():
        pass

    assert cluster.done == ["save_logs", "shut_down"]


@pytest.mark.parametrize(
    ("keep_cluster", "fails", "is_kept"),
    [
        ("never", True, False),
        ("failed", True, True),
        ("failed", False, False),
        ("always", False, True),
    ],
)
def test_a_cluster_is_kept_where_that_is_asked_for(
    start: Callable[..., StartedCluster],
    tmp_path: Path,
    keep_cluster: Any,
    fails: bool,
    is_kept: bool,
) -> None:
    cluster = start()
    said: list[str] = []

    with (
        suppress(ZeroDivisionError),
        launch_cluster(folder=tmp_path, keep_cluster=keep_cluster, say=said.append),
    ):
        _ = 1 / (0 if fails else 1)

    assert ("shut_down" not in cluster.done) == is_kept
    assert any("is kept: 127.0.0.1:1" in sentence for sentence in said) == is_kept


def test_a_fault_lasts_as_long_as_its_block() -> None:
    cluster = FakeCluster()
    chaos = Chaos(cluster, seed=7)

    with chaos(BrokerKill(), LeaderOf("orders", 0)) as victims:
        inside = cluster.processes[1]

    assert victims == (Broker(1, "broker-1"),)
    assert inside is None
    assert cluster.processes[1] is not None
    assert [(found.phase, found.observed) for found in chaos.evidence] == [
        ("inject", True),
        ("heal", True),
    ]


def test_a_fault_is_healed_though_its_block_fails() -> None:
    cluster = FakeCluster()

    with (
        pytest.raises(ZeroDivisionError),
        Chaos(cluster, seed=7)("broker_kill", cluster.brokers[1]),
    ):
        _ = 1 / 0

    assert cluster.processes[2] is not None


def test_a_fault_without_a_witness_fails_and_is_healed() -> None:
    cluster = FakeCluster()
    cluster.lie("probe")

    with (
        pytest.raises(AssertionError, match="inject has no witness"),
        Chaos(cluster, seed=7)("broker_kill", cluster.brokers[0]),
    ):
        pytest.fail("the block is not entered")

    assert cluster.processes[1] is not None


def test_a_healing_without_a_witness_fails() -> None:
    cluster = FakeCluster()

    with (
        pytest.raises(AssertionError, match="heal has no witness"),
        Chaos(cluster, seed=7)(NeverHealed(), cluster.brokers[0]),
    ):
        pass


def test_whoever_hits_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_chaos.clusters._VICTIMS_S", 0.0)
    alone = FakeCluster(isr=(1,))

    with (
        pytest.raises(AssertionError, match="names nobody to hit"),
        Chaos(alone, seed=7)(BrokerKill(), FollowerOf("orders", 0)),
    ):
        pytest.fail("the block is not entered")


def test_who_leads_may_be_known_only_at_the_second_question() -> None:
    class Late:
        asked = 0

        def choose(self, cluster: Cluster, random: Random) -> tuple[Broker, ...]:
            self.asked += 1
            return tuple(cluster.brokers[:1]) if self.asked > 1 else ()

    cluster = FakeCluster()

    with Chaos(cluster, seed=7)(BrokerKill(), Late()) as victims:
        assert victims == tuple(cluster.brokers[:1])


def test_the_same_seed_draws_the_same_victims() -> None:
    def drawn(seed: int) -> list[int]:
        chaos = Chaos(FakeCluster(), seed=seed)
        victims = []
        for _ in range(12):
            with chaos("broker_kill", FollowerOf("orders", 0)) as hit:
                victims.append(hit[0].node_id)
        return victims

    assert drawn(7) == drawn(7)
    assert {2, 3} == set(drawn(7))


def test_only_a_registered_scenario_is_changed_by_name() -> None:
    from harness.scenarios.mixed import mixed

    with pytest.raises(UsageError, match="changed by duration_s: use dataclasses"):
        runs.run(mixed(), duration_s=30)


def test_nothing_is_verified_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        runs.verify(tmp_path / "run")
