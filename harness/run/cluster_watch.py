"""The watch that steps wait by: many looks a second at what their events need."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from harness.cluster.admin import CLIENT_CONFIG
from harness.cluster.broker_metadata import BrokerMetadata
from harness.cluster.pool import RunCluster
from harness.core.cluster import Broker
from harness.core.coordinators import TRANSACTIONS_TOPIC
from harness.core.errors import KafkaChaosError
from harness.core.event import Awaited, Event, Need, needs_of, topics_of
from harness.core.view import CommittedEnd, Partition, PartitionState, View
from harness.run.group_watch import GroupWatch
from harness.run.watcher import Watcher

_LOOK_EVERY_S = 0.03
_LOOK_S = 0.5
_ASK_EVERY_S = 0.15
_STATUS_AT = 16
"""Behind version, producer id, epoch and time-out, in every version of the record."""
_PREPARED = frozenset({2, 3})


class ClusterWatch:
    """Looks at a cluster from `start` to `stop`, and says when an event came.

    Where a cluster has ZooKeeper, that is asked for partitions: brokers hear of a smaller ISR up to
    a minute later. Otherwise each broker is asked for its own metadata, over a connection of its
    own. What a broker says is news under a higher epoch than is known, and under the same where it
    differs from what it said before. Everything else is asked only where an event needs it.

    Args:
        cluster: who is looked at.
        events: those that will be listened for: what they need is asked, and no more.
        topics: whose partitions are looked at besides those of the events' topics.
        group: the consumer group of the run, if it has one.
        healed: tells how many faults of the run have been taken back.
    """

    def __init__(
        self,
        cluster: RunCluster,
        *,
        events: Collection[Event],
        topics: Collection[str],
        group: str | None = None,
        healed: Callable[[], int] = lambda: 0,
    ) -> None:
        self._cluster = cluster
        self._topics = frozenset(topics).union(*map(topics_of, events))
        committing = [event for event in events if "committed" in needs_of(event)]
        self._committing = frozenset[str]().union(*map(topics_of, committing))
        self._group = group
        self._healed = healed
        self._lock = threading.Lock()
        self._view = View()
        self._awaited: list[Awaited] = []
        self._said: dict[int, dict[Partition, PartitionState]] = {}
        self._moved_ns: dict[Partition, int] = {}
        self._group_watch: GroupWatch | None = None
        self._consumer: Consumer | None = None
        look = partial(Watcher, every_s=_LOOK_EVERY_S)
        ask = partial(Watcher, every_s=_ASK_EVERY_S)
        self._connections = [cluster.metadata_of(b, timeout_s=_LOOK_S) for b in cluster.brokers]
        self._watchers = [
            look(f"watch of broker {broker.node_id}", partial(self._look, broker, connection))
            for broker, connection in zip(cluster.brokers, self._connections, strict=True)
        ]
        if cluster.zookeeper is not None:
            self._watchers.append(look("watch of ZooKeeper", self._look_at_zookeeper))
        self._needs = frozenset[Need]().union(*map(needs_of, events))
        for need, watch in (
            ("controller", ask("watch of the controller", self._look_for_controller)),
            ("committed", ask("watch of high watermarks", self._look_at_watermarks)),
            ("groups", look("watch of the group", self._look_at_group)),
            ("transactions", look("watch of transactions", self._look_at_transactions)),
        ):
            if need in self._needs:
                self._watchers.append(watch)

    @property
    def view(self) -> View:
        """What was seen last."""
        return self._view

    def partitions(self) -> Mapping[Partition, PartitionState]:
        """Return what was seen last of each partition."""
        return self._view.partitions

    @property
    def failures(self) -> list[str]:
        """What went wrong, a sentence for each part of it."""
        return [watcher.failure for watcher in self._watchers if watcher.failure]

    def start(self) -> None:
        """Begin to look."""
        if "groups" in self._needs and self._group is not None:
            self._group_watch = GroupWatch(self._cluster.access, self._group)
        for watcher in self._watchers:
            watcher.start()

    def stop(self) -> None:
        """End, and close every connection."""
        for watcher in self._watchers:
            watcher.stopping.set()
        for watcher in self._watchers:
            watcher.stop()
        for connection in self._connections:
            connection.close()
        if self._group_watch is not None:
            self._group_watch.close()
        if self._consumer is not None:
            self._consumer.close()

    def listen(self, event: Event) -> Awaited:
        """Return what tells, from now on, when the event came first."""
        awaited = Awaited(event=event)
        with self._lock:
            self._awaited.append(awaited)
        return awaited

    # -- looks -------------------------------------------------------------------------------------

    def _show(self, change: Callable[[View], View]) -> None:
        """Take a change into the view, and say which events it makes."""
        with self._lock:
            before, self._view = self._view, replace(change(self._view), healed=self._healed())
            now_ns = time.monotonic_ns()
            for awaited in list(self._awaited):
                if awaited.event.happens(before, self._view):
                    awaited.came_ns = now_ns
                    self._awaited.remove(awaited)

    def _look(self, broker: Broker, connection: BrokerMetadata) -> None:
        states = connection.partitions()
        if states is None:
            self._said.pop(broker.node_id, None)
            self._show(lambda view: replace(view, answering=view.answering - {broker.node_id}))
            return
        said = self._said.get(broker.node_id, {})
        self._said[broker.node_id] = states

        def news(view: View) -> View:
            changed = {
                place: state
                for place, state in (states if self._cluster.zookeeper is None else {}).items()
                if _is_news(state, said.get(place), view.partitions.get(place))
            }
            partitions = {**view.partitions, **changed} if changed else view.partitions
            return replace(view, partitions=partitions, answering=view.answering | {broker.node_id})

        self._show(news)

    def _look_at_zookeeper(self) -> None:
        assert self._cluster.zookeeper is not None  # noqa: S101 (watched only if there is one)
        states = {
            place: state
            for topic in self._topics
            for place, state in self._cluster.zookeeper.partitions(topic, timeout_s=_LOOK_S).items()
        }
        if states:
            self._show(lambda view: replace(view, partitions={**view.partitions, **states}))

    def _look_for_controller(self) -> None:
        with suppress(KafkaChaosError):
            active = self._cluster.controller()
            if active is not None:
                self._show(lambda view: replace(view, controller=active.node_id))

    def _look_at_watermarks(self) -> None:
        led = [
            place
            for place, state in self._view.partitions.items()
            if place[0] in self._committing and state.leader is not None
        ]
        now_ns = time.monotonic_ns()
        known = self._view.committed
        committed = dict(known)
        for place, mark in self._cluster.high_watermarks(led, timeout_s=_LOOK_S).items():
            if place not in known or mark.offset > known[place].offset:
                self._moved_ns[place] = now_ns
            rested_s = (now_ns - self._moved_ns[place]) / 1e9
            committed[place] = CommittedEnd(offset=mark.offset, rested_s=rested_s)
        for place, end in known.items():
            if committed[place] is end:
                # Whoever led it does not answer: nothing is committed there either.
                rested_s = (now_ns - self._moved_ns[place]) / 1e9
                committed[place] = replace(end, rested_s=rested_s)
        self._show(lambda view: replace(view, committed=committed))

    def _look_at_group(self) -> None:
        seen = self._group_watch.view if self._group_watch is not None else None
        if seen is not None and self._group is not None:
            states = {self._group: seen.state}
            self._show(lambda view: replace(view, group_states=states))

    def _look_at_transactions(self) -> None:
        """Read what the coordinators write: KIP-98 puts every step of a transaction there."""
        if self._consumer is None:
            places = [place for place in self._view.partitions if place[0] == TRANSACTIONS_TOPIC]
            if not places:
                return
            self._consumer = Consumer(
                {
                    **CLIENT_CONFIG,
                    **self._cluster.access.config(),
                    "group.id": "kafka-chaos-watch",
                    "enable.auto.commit": False,
                    "isolation.level": "read_uncommitted",
                }
            )
            self._consumer.assign([TopicPartition(*place, OFFSET_END) for place in places])
        records = self._consumer.consume(100, timeout=_LOOK_EVERY_S)
        values = [record.value() for record in records if record.error() is None]
        prepared = sum(
            value is not None and len(value) > _STATUS_AT and value[_STATUS_AT] in _PREPARED
            for value in values
        )
        if prepared:
            self._show(lambda view: replace(view, prepared=view.prepared + prepared))


def _is_news(
    state: PartitionState, said: PartitionState | None, known: PartitionState | None
) -> bool:
    """Return whether what a broker says is newer than what is known.

    Args:
        state: what it says.
        said: what it said before; None if it did not answer.
        known: what any broker has said last.
    """
    if known is None:
        return True
    epoch, known_epoch = state.leader_epoch, known.leader_epoch
    if epoch is not None and known_epoch is not None and epoch != known_epoch:
        return epoch > known_epoch
    return said is not None and said != state
