"""The watch: what one broker says is news, what it says late is none, and events come in time."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from faults.events import (
    BrokerAnswers,
    CommitsRest,
    CoordinatorElected,
    Healed,
    LeaderElected,
)
from harness.cluster.metadata import Watermark
from harness.core.cluster import Broker
from harness.core.coordinators import OFFSETS_TOPIC
from harness.core.event import Awaited, Event
from harness.core.view import PartitionState
from harness.core.wait import wait_until
from harness.run.cluster_watch import ClusterWatch

PLACE = ("orders", 0)


class Told:
    """What a broker tells of its partitions; tests change it."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, int], PartitionState] | None = None
        self.asked = 0

    def partitions(self) -> dict[tuple[str, int], PartitionState] | None:
        self.asked += 1
        return self.states

    def close(self) -> None:
        pass


class Watched:
    """Two brokers, and how far their partition is committed."""

    brokers = (Broker(1, "one"), Broker(2, "two"))
    zookeeper: Any = None

    def __init__(self) -> None:
        self.told = {1: Told(), 2: Told()}
        self.offset = 5

    def metadata_of(self, broker: Broker, *, timeout_s: float) -> Told:
        return self.told[broker.node_id]

    def high_watermarks(self, places: Any, *, timeout_s: float) -> dict[Any, Watermark]:
        mark = Watermark(asked_ns=0, answered_ns=0, offset=self.offset, leader_epoch=1)
        return dict.fromkeys(places, mark)

    def says(self, broker: int, leader: int | None, epoch: int) -> None:
        """Let a broker tell this, and wait until it was asked twice since."""
        told = self.told[broker]
        told.states = {
            PLACE: PartitionState(leader=leader, isr=(1, 2), replicas=(1, 2), leader_epoch=epoch)
        }
        self.wait(broker)

    def wait(self, broker: int) -> None:
        told, before = self.told[broker], self.told[broker].asked
        wait_until(lambda: told.asked > before + 2, timeout_s=20, interval_s=0.01, what="a look")


@contextmanager
def watching(cluster: Watched, *events: Event, **more: Any) -> Iterator[ClusterWatch]:
    watch = ClusterWatch(cluster, events=events, topics=["orders"], **more)  # type: ignore[arg-type]
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
    assert watch.failures == []


def _comes(awaited: Awaited) -> None:
    wait_until(lambda: awaited.came_ns, timeout_s=20, interval_s=0.01, what=str(awaited.event))


@pytest.fixture
def cluster() -> Watched:
    return Watched()


def test_the_first_broker_that_hears_of_an_election_tells_it(cluster: Watched) -> None:
    with watching(cluster) as watch:
        cluster.says(1, leader=1, epoch=4)
        cluster.says(2, leader=1, epoch=4)
        elected = watch.listen(LeaderElected("orders"))

        cluster.says(2, leader=2, epoch=5)

        _comes(elected)
        assert watch.view.partitions[PLACE].leader == 2


def test_what_a_broker_hears_late_is_no_news(cluster: Watched) -> None:
    with watching(cluster) as watch:
        cluster.says(1, leader=1, epoch=4)
        cluster.says(2, leader=2, epoch=6)
        # It had been asked before, so that this is a change of what it says.
        elected = watch.listen(LeaderElected("orders"))

        cluster.says(1, leader=1, epoch=5)

        assert elected.came_ns is None
        assert watch.view.partitions[PLACE].leader == 2


def test_a_broker_that_does_not_answer_is_missed_and_seen_to_come_back(cluster: Watched) -> None:
    with watching(cluster) as watch:
        cluster.says(1, leader=1, epoch=4)
        cluster.wait(2)
        assert watch.view.answering == {1}
        back = watch.listen(BrokerAnswers())

        cluster.says(2, leader=1, epoch=4)

        _comes(back)
        assert watch.view.answering == {1, 2}


def test_a_high_watermark_that_stands_still_is_seen(cluster: Watched) -> None:
    rest = CommitsRest("orders", for_s=0.4)
    with watching(cluster, rest) as watch:
        rests = watch.listen(rest)
        cluster.says(1, leader=1, epoch=4)

        _comes(rests)

        assert watch.view.committed[PLACE].offset == 5


@pytest.mark.parametrize(("event", "asks"), [(Healed(), False), (CommitsRest("orders"), True)])
def test_only_what_events_need_is_asked(cluster: Watched, event: Event, asks: bool) -> None:
    counted = SimpleNamespace(healed=0)
    with watching(cluster, event, healed=lambda: counted.healed) as watch:
        cluster.says(1, leader=1, epoch=4)
        healed = watch.listen(Healed())
        counted.healed = 1
        _comes(healed)
        if asks:
            wait_until(lambda: watch.view.committed, timeout_s=20, what="a high watermark")
        else:
            assert not watch.view.committed


def test_zookeeper_tells_partitions_where_there_is_one(cluster: Watched) -> None:
    state = PartitionState(leader=1, isr=(1, 2), replicas=(1, 2), leader_epoch=3)
    told = {PLACE: state}
    cluster.zookeeper = SimpleNamespace(partitions=lambda topic, *, timeout_s: dict(told))
    with watching(cluster) as watch:
        wait_until(lambda: watch.view.partitions, timeout_s=20, what="what ZooKeeper says")
        elected = watch.listen(LeaderElected("orders"))

        # A broker that is behind, or ahead, changes nothing.
        cluster.says(1, leader=2, epoch=9)
        assert elected.came_ns is None
        told[PLACE] = PartitionState(leader=2, isr=(2,), replicas=(1, 2), leader_epoch=4)

        _comes(elected)
        assert watch.view.answering == {1}


@pytest.mark.parametrize("event", [CoordinatorElected("g"), LeaderElected(OFFSETS_TOPIC)])
def test_zookeeper_is_asked_for_internal_topics_where_an_event_needs_them(
    cluster: Watched, event: Event
) -> None:
    leaders = SimpleNamespace(now=1)
    asked = set()

    def partitions(topic: str, *, timeout_s: float) -> dict[tuple[str, int], PartitionState]:
        asked.add(topic)
        state = PartitionState(leader=leaders.now, isr=(1, 2), replicas=(1, 2))
        return {(topic, 0): state}

    cluster.zookeeper = SimpleNamespace(partitions=partitions)
    with watching(cluster, event) as watch:
        wait_until(lambda: watch.view.partitions, timeout_s=20, what="what ZooKeeper says")
        elected = watch.listen(event)

        leaders.now = 2

        _comes(elected)
    assert asked == {"orders", OFFSETS_TOPIC}


def test_zookeeper_is_not_asked_for_topics_that_no_event_needs(cluster: Watched) -> None:
    asked = set()

    def partitions(topic: str, *, timeout_s: float) -> dict[tuple[str, int], PartitionState]:
        asked.add(topic)
        return {}

    cluster.zookeeper = SimpleNamespace(partitions=partitions)
    with watching(cluster, LeaderElected("orders")):
        wait_until(lambda: asked, timeout_s=20, interval_s=0.01, what="a question")

    assert asked == {"orders"}


def test_the_election_of_a_coordinator_is_told_by_brokers(cluster: Watched) -> None:
    def says(leader: int, epoch: int) -> None:
        state = PartitionState(leader=leader, isr=(1, 2), replicas=(1, 2), leader_epoch=epoch)
        cluster.told[1].states = {(OFFSETS_TOPIC, 0): state}
        cluster.wait(1)

    event = CoordinatorElected("g")
    with watching(cluster, event) as watch:
        says(1, 4)
        elected = watch.listen(event)

        says(2, 5)

        _comes(elected)


def test_high_watermarks_are_asked_of_the_topics_of_events_about_them(cluster: Watched) -> None:
    asked: set[Any] = set()

    def high_watermarks(places: Any, *, timeout_s: float) -> dict[Any, Watermark]:
        asked.update(places)
        return {}

    cluster.high_watermarks = high_watermarks  # type: ignore[method-assign]
    cluster.told[1].states = {
        place: PartitionState(leader=1, isr=(1,), replicas=(1,)) for place in (PLACE, ("other", 0))
    }
    with watching(cluster, CommitsRest("other"), LeaderElected("orders")):
        wait_until(lambda: asked, timeout_s=20, interval_s=0.01, what="a question")

    assert asked == {("other", 0)}
