"""The pool: which clusters are kept for the next run, and in what state."""

from collections.abc import Collection
from typing import Any

import pytest

from harness.cluster import pool as pool_module
from harness.cluster.pool import ClusterPool
from harness.core.cluster import ClusterSpec
from harness.core.errors import ClusterBroken
from harness.core.run_dir import RunDir


class Cluster:
    """As much of a cluster as a pool asks for; it is its own agent and its own admin."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken: str = ""
        self.agent = self.admin = self

    def heal_all(self) -> None:
        self._note("heal_all")

    def delete_topics(self, topics: Collection[str]) -> None:
        self._note(f"delete {','.join(topics)}")

    def has_full_isr(self, topics: Collection[str]) -> bool:
        return self.broken != "isr"

    def move_to(self, folder: object) -> None:
        self._note("move_to")

    def shut_down(self) -> None:
        self._note("shut_down")

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self.broken:
            raise ClusterBroken("It does not answer.")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    clusters: list[Any] = []

    def launch(*_: Any, **__: Any) -> Any:
        clusters.append(Cluster())
        return clusters[-1]

    monkeypatch.setattr(pool_module, "launch", launch)
    return clusters


def use(pool: ClusterPool, run_dir: RunDir, *, brokers: int = 3, is_sound: bool = True) -> Any:
    cluster: Any = pool.acquire(ClusterSpec(brokers=brokers), run_dir, say=print)
    pool.release(cluster, ["night-1"], is_sound=is_sound, say=print)
    return cluster


@pytest.fixture
def run_dir(tmp_path: Any) -> RunDir:
    return RunDir.create(tmp_path, scenario="x", seed=1)


def test_a_sound_cluster_is_healed_emptied_and_used_again(
    launched: list[Any], run_dir: RunDir
) -> None:
    pool = ClusterPool(keeps=True)

    first, second = use(pool, run_dir), use(pool, run_dir)

    assert first is second
    assert first.calls == ["heal_all", "delete night-1", "move_to", "heal_all", "delete night-1"]
    pool.close(say=print)
    assert first.calls[-1] == "shut_down"


def test_another_kind_of_cluster_takes_the_place_of_the_one_that_was_kept(
    launched: list[Any], run_dir: RunDir
) -> None:
    pool = ClusterPool(keeps=True)

    first, second = use(pool, run_dir), use(pool, run_dir, brokers=5)

    assert first is not second
    assert first.calls[-1] == "shut_down"


@pytest.mark.parametrize("broken", ["heal_all", "delete night-1", "isr"])
def test_a_cluster_that_is_not_whole_is_not_used_again(
    launched: list[Any], run_dir: RunDir, broken: str
) -> None:
    pool = ClusterPool(keeps=True)
    first: Any = pool.acquire(ClusterSpec(), run_dir, say=print)
    first.broken = broken
    pool.release(first, ["night-1"], is_sound=True, say=print)

    assert use(pool, run_dir) is not first
    assert "shut_down" in first.calls


def test_a_cluster_that_is_not_sound_or_not_to_be_kept_is_removed(
    launched: list[Any], run_dir: RunDir
) -> None:
    assert use(ClusterPool(keeps=True), run_dir, is_sound=False).calls == ["shut_down"]
    assert use(ClusterPool(), run_dir).calls == ["shut_down"]


def test_one_cluster_is_not_given_to_two_runs(launched: list[Any], run_dir: RunDir) -> None:
    pool = ClusterPool(keeps=True)
    first = use(pool, run_dir)

    again: Any = pool.acquire(ClusterSpec(), run_dir, say=print)
    other: Any = pool.acquire(ClusterSpec(), run_dir, say=print)

    assert again is first
    assert other is not first


def test_what_could_not_be_removed_is_said_and_raises_nothing(
    launched: list[Any], run_dir: RunDir
) -> None:
    pool = ClusterPool()
    cluster: Any = pool.acquire(ClusterSpec(), run_dir, say=print)
    cluster.broken = "shut_down"
    said: list[str] = []

    pool.release(cluster, [], is_sound=True, say=said.append)

    assert said == ["Something was left behind: It does not answer. Use `kafka-chaos clean`."]
