"""Brokers that ended by themselves: whether it is in vain to wait for them."""

import pytest

from harness.run.ended_brokers import EndedBrokers
from tests.unit.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("dead", "left_down", "comes_back", "is_vain"),
    [
        ((), (), False, False),
        ((3,), (), False, True),
        ((3,), (3,), False, False),
        ((3,), (), True, False),
    ],
    ids=["all run", "one has ended", "on purpose", "it comes back"],
)
def test_a_broker_that_has_ended_by_itself_is_not_waited_for(
    instant_time: list[float],
    dead: tuple[int, ...],
    left_down: tuple[int, ...],
    comes_back: bool,
    is_vain: bool,
) -> None:
    cluster = FakeCluster()
    for node_id in dead:
        cluster.processes[node_id] = None
    ended = EndedBrokers(cluster, set(left_down))

    looks = []
    for second in range(30):
        if comes_back and second == 8:
            cluster.processes[3] = FakeCluster().processes[3]
        instant_time[0] += 1
        looks.append(ended.for_good())

    assert any(looks) is is_vain
    assert not any(looks[:10])


def test_a_broker_that_never_comes_to_the_end_of_its_shutdown_is_not_waited_for(
    instant_time: list[float],
) -> None:
    cluster = FakeCluster()
    cluster.shutting_down = {3}
    ended = EndedBrokers(cluster)

    looks = []
    for _ in range(30):
        instant_time[0] += 1
        looks.append(ended.for_good())

    assert any(looks)
    assert ended.nodes == (3,)


def test_what_a_fault_did_long_ago_counts_for_nothing(instant_time: list[float]) -> None:
    cluster = FakeCluster()
    cluster.processes[3] = None
    ended = EndedBrokers(cluster)
    assert not ended.for_good()

    instant_time[0] += 60

    assert not ended.for_good()
