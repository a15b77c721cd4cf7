"""What is asked of Kafka itself: topics, leaders, in-sync replicas, effective configuration."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from harness.cluster.metadata import Watermark
from harness.cluster.zookeeper import ZooKeeper
from harness.core.access import Access
from harness.core.cluster import TopicSpec
from harness.core.errors import ClusterBroken, UsageError, WaitTimeout
from harness.core.version import (
    FIRST_DELETIONS,
    FIRST_ELECTIONS,
    FIRST_IDEMPOTENCE,
    FIRST_INCREMENTAL_CONFIGS,
    numbers,
)
from harness.core.view import PartitionState
from harness.core.wait import pause, wait_until

log = logging.getLogger(__name__)

T = TypeVar("T")

CLIENT_CONFIG = {
    # Short time-outs: while faults are in force the question is put again soon, to another broker.
    "socket.timeout.ms": "3000",
    "socket.connection.setup.timeout.ms": "2000",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "500",
    "topic.metadata.refresh.interval.ms": "-1",
    # Connections that brokers drop are the daily bread here, not news.
    "log_level": "2",
}


class Admin:
    """A client for metadata and administration of one cluster.

    Args:
        access: to its brokers; every question goes to whichever of them answers.
        kafka: version of the brokers, where it is known: old ones are asked in old ways.
        zookeeper: of the cluster, where it has one.
        place_on: the only brokers that replicas may be placed on; empty leaves it to Kafka.
    """

    def __init__(
        self,
        access: Access,
        *,
        kafka: str = "unknown",
        zookeeper: ZooKeeper | None = None,
        place_on: Sequence[int] = (),
    ) -> None:
        # An unknown version is taken for a new one.
        self._version = numbers(kafka) or (999,)
        self._zookeeper = zookeeper
        self._place_on = tuple(place_on)
        self._config: dict[str, str | int | float | bool] = {**CLIENT_CONFIG, **access.config()}
        self._client = AdminClient(self._config, logger=log)
        self._consumers: dict[str, Consumer] = {}
        self._retired: list[AdminClient] = []
        self._silences = 0

    def broker_ids(self, *, timeout_s: float = 3.0) -> set[int]:
        """Return the ids of the registered, unfenced brokers; empty if nobody answers."""
        metadata = self._metadata(timeout_s=timeout_s)
        return set(metadata.brokers) if metadata else set()

    def addresses(self, *, timeout_s: float = 3.0) -> dict[int, tuple[str, int]]:
        """Return host and port of each registered broker, by id; empty if nobody answers."""
        metadata = self._metadata(timeout_s=timeout_s)
        brokers = metadata.brokers if metadata else {}
        return {node_id: (broker.host, broker.port) for node_id, broker in brokers.items()}

    def partitions(
        self, topic: str | None = None, *, timeout_s: float = 3.0
    ) -> dict[tuple[str, int], PartitionState]:
        """Return the state of every partition, of one topic or of all; empty if nobody answers."""
        metadata = self._metadata(topic, timeout_s=timeout_s)
        if metadata is None:
            return {}
        return {
            (name, number): PartitionState(
                leader=None if state.leader < 0 else state.leader,
                isr=tuple(state.isrs),
                replicas=tuple(state.replicas),
            )
            for name, entry in metadata.topics.items()
            if entry.error is None
            for number, state in entry.partitions.items()
        }

    def group_offsets(
        self, group: str, topic: str, partitions: Collection[int], *, timeout_s: float = 5.0
    ) -> dict[int, int]:
        """Return the committed offset of each partition that a group has one of.

        Empty too if its coordinator cannot be found or does not answer.
        """
        asked = [TopicPartition(topic, partition) for partition in partitions]
        if group not in self._consumers:
            # Not by the admin client: librdkafka 2.16 aborts the whole process when its
            # ListConsumerGroupOffsets runs out of time (docs/findings.md).
            config = {**self._config, "group.id": group}
            self._consumers[group] = Consumer(config, logger=log)
        try:
            offsets = self._consumers[group].committed(asked, timeout=timeout_s)
        except KafkaException as error:
            log.debug("No offsets of %s: %s", group, error)
            return {}
        return {
            offset.partition: offset.offset
            for offset in offsets
            if offset.error is None and offset.offset >= 0
        }

    def create_topic(self, topic: TopicSpec, *, timeout_s: float = 30.0) -> None:
        """Create a topic and read its configuration back.

        Raises:
            UsageError: Kafka calls the request invalid.
            ClusterBroken: it was not created in time, or a setting did not take effect.
            WaitTimeout: there is no controller, or not every broker got to know the topic.
        """
        assignment: Sequence[Sequence[int]] = topic.assignment
        if self._place_on and not assignment:
            assignment = round_robin(self._place_on, topic.partitions, topic.replication_factor)
        assigned = [list(replicas) for replicas in assignment]
        new = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            config=dict(topic.config),
            **(
                {"replica_assignment": assigned}
                if assigned
                else {"replication_factor": topic.replication_factor}
            ),
        )

        is_unanswered = False

        def create() -> None:
            nonlocal is_unanswered
            self._await_controller(timeout_s)
            patience_s = min(timeout_s, _ANSWER_S)
            futures = self._client.create_topics([new], request_timeout=patience_s)
            try:
                self._result(futures[topic.name], f"topic {topic.name!r}", patience_s)
            except ClusterBroken as error:
                is_unanswered |= _code(error) in _UNANSWERED
                raise
            except UsageError as error:
                # A request whose answer was lost may have been carried out.
                if is_unanswered and _code(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                is_short = _code(error) == KafkaError.INVALID_REPLICATION_FACTOR
                if is_short and self._has_brokers(topic.replication_factor):
                    raise ClusterBroken(str(error)) from error.__cause__
                raise

        self._again(create, _ASK_CONTROLLER_AGAIN | _UNANSWERED, timeout_s)
        wanted = dict(topic.config)
        if wanted:
            # A new topic reaches the brokers one after the other, and any of them may be asked.
            seen = self._again(
                lambda: self.topic_config(topic.name),
                {KafkaError.UNKNOWN_TOPIC_OR_PART},
                timeout_s,
            )
            reject_ignored_config(f"topic {topic.name!r}", wanted, seen)

    def _has_brokers(self, count: int) -> bool:
        """Return whether there are so many brokers.

        The controller, and each broker that may be asked, hears a little later of one that has just
        registered.
        """
        try:
            wait_until(
                lambda: len(self.broker_ids()) >= count,
                timeout_s=_REGISTERED_S,
                what=f"{count} brokers to be registered",
            )
        except WaitTimeout:
            return False
        return True

    def delete_topics(self, names: Collection[str], *, timeout_s: float = 30.0) -> None:
        """Delete topics, where brokers do so unless told otherwise.

        Raises:
            ClusterBroken: one could not be deleted.
        """
        if self._version < FIRST_DELETIONS:
            return

        def delete() -> None:
            self._await_controller(timeout_s)
            futures = self._client.delete_topics(list(names), request_timeout=timeout_s)
            for name, future in futures.items():
                self._result(future, f"to delete topic {name!r}", timeout_s)

        self._again(delete, _ASK_CONTROLLER_AGAIN, timeout_s)

    def _await_controller(self, timeout_s: float) -> None:
        """Wait until the client has heard of the controller.

        librdkafka asks nobody again: metadata that came before a controller was elected lets every
        request that belongs to the controller wait for its whole time.
        """
        wait_until(
            self._knows_controller,
            timeout_s=timeout_s,
            what="a controller that the brokers know of",
        )

    def _knows_controller(self) -> bool:
        metadata = self._metadata()
        return metadata is not None and metadata.controller_id in metadata.brokers

    def _metadata(self, topic: str | None = None, *, timeout_s: float = 3.0) -> Any | None:  # noqa: ANN401 (the client has no types)
        """Return the metadata of one topic, or of all; None if nobody answers."""
        try:
            return self._client.list_topics(topic, timeout=timeout_s)
        except KafkaException as error:
            log.debug("No metadata: %s", error)
            return None

    def topic_config(self, topic: str) -> dict[str, str]:
        """Return the effective configuration of a topic; before 0.11 only what it sets itself."""
        if self._version < FIRST_IDEMPOTENCE and self._zookeeper:
            return self._zookeeper.topic_config(topic)
        return self._describe(ResourceType.TOPIC, topic)

    def broker_config(self, node_id: int) -> dict[str, str]:
        """Return the effective configuration of a running broker; secrets are left out."""
        return self._describe(ResourceType.BROKER, str(node_id))

    def end_offset(self, topic: str, partition: int, *, timeout_s: float = 10.0) -> int:
        """Return where consumers' reading ends: the high watermark, as the leader tells it.

        Raises:
            ClusterBroken: the leader did not answer.
        """
        asked = TopicPartition(topic, partition)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library has no types
        what = f"end of {topic}-{partition}"

        def ask() -> int:
            futures = self._client.list_offsets({asked: latest}, request_timeout=timeout_s)
            return int(self._result(next(iter(futures.values())), what, timeout_s).offset)

        return self._again(ask, _ASK_ANOTHER, timeout_s)

    def high_watermarks(
        self, places: Sequence[tuple[str, int]], *, timeout_s: float = 3.0
    ) -> dict[tuple[str, int], Watermark]:
        """Return the high watermark of partitions, as their leaders tell it.

        All are asked at once; those whose leader does not answer in time are left out.
        """
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the library has no types
        asked = {TopicPartition(topic, number): latest for topic, number in places}
        answered_ns: dict[tuple[str, int], int] = {}
        asked_ns = time.monotonic_ns()

        def note(place: tuple[str, int], _: object) -> None:
            answered_ns[place] = time.monotonic_ns()

        futures = self._client.list_offsets(asked, request_timeout=timeout_s) if asked else {}
        for asked_for, future in futures.items():
            future.add_done_callback(partial(note, (asked_for.topic, asked_for.partition)))
        found = {}
        for asked_for, future in futures.items():
            place = (asked_for.topic, asked_for.partition)
            try:
                told = future.result(timeout=timeout_s + 1)
            except (KafkaException, TimeoutError) as error:
                log.debug("No high watermark of %s: %s", place, error)
                continue
            epoch = told.leader_epoch
            found[place] = Watermark(
                asked_ns=asked_ns,
                answered_ns=answered_ns.get(place) or time.monotonic_ns(),
                offset=int(told.offset),
                leader_epoch=None if epoch is None or epoch < 0 else int(epoch),
            )
        if len(found) < len(asked):
            # librdkafka goes on asking those who led when it last heard of the cluster.
            self._metadata(timeout_s=_REFRESH_S)
        self._silences = self._silences + 1 if asked and not found else 0
        if self._silences > _MOST_SILENCES:
            log.debug("No leader has told a high watermark for a while: asked by a new client.")
            # It is kept: its end may wait for brokers that a fault has frozen.
            self._retired.append(self._client)
            self._client, self._silences = AdminClient(self._config, logger=log), 0
        return found

    def alter_topic_config(
        self, topic: str, settings: Mapping[str, str], *, timeout_s: float = 30.0
    ) -> None:
        """Change settings of a topic, keep its others, and read them back.

        Raises:
            UsageError: Kafka calls a setting invalid.
            ClusterBroken: it did not take effect in time.
        """
        if self._version < FIRST_IDEMPOTENCE and self._zookeeper:
            self._zookeeper.alter_topic_config(topic, settings, timeout_s=timeout_s)
        elif self._version < FIRST_INCREMENTAL_CONFIGS:
            # This request replaces all that the topic sets.
            entries = self._entries(ResourceType.TOPIC, topic, timeout_s)
            own = {k: e.value or "" for k, e in entries.items() if _is_own(e)} | dict(settings)
            resource = ConfigResource(ResourceType.TOPIC, topic, set_config=own)
            self._alter(self._client.alter_configs, resource, timeout_s)
        else:
            changes = [
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in settings.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
            self._alter(self._client.incremental_alter_configs, resource, timeout_s)
        wait_until(
            lambda: takes_effect(settings, self.topic_config(topic)),
            timeout_s=timeout_s,
            what=f"the changed configuration of topic {topic!r}",
        )

    def _alter(
        self, alter: Callable[..., Mapping[Any, Any]], resource: ConfigResource, timeout_s: float
    ) -> None:
        def ask() -> None:
            (future,) = alter([resource], request_timeout=timeout_s).values()
            self._result(future, f"config of {resource.name}", timeout_s)

        self._again(ask, (), timeout_s)

    def elect_leader(
        self, topic: str, partition: int, *, unclean: bool, timeout_s: float = 30.0
    ) -> None:
        """Give a partition to its preferred leader, or, unclean, to any replica that lives.

        Nothing happens, and that is no error, if there is nothing to be elected.

        Raises:
            UsageError: unclean elections cannot be asked for before Kafka 2.4 (KIP-460).
            ClusterBroken: no leader could be elected.
        """
        if self._version < FIRST_ELECTIONS:
            if unclean or self._zookeeper is None:
                raise UsageError("Unclean elections can be asked for from Kafka 2.4 on only.")
            self._zookeeper.elect_preferred_leader(topic, partition, timeout_s=timeout_s)
            return
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        asked = TopicPartition(topic, partition)
        what = f"an election for {topic!r} {partition}"

        def ask() -> Mapping[TopicPartition, KafkaError | None]:
            # confluent-kafka 2.16 fails on every keyword here: its own time-outs must do.
            future = self._client.elect_leaders(kind, [asked])
            answers: Mapping[TopicPartition, KafkaError | None] = self._result(
                future, what, timeout_s
            )
            return answers

        for error in self._again(ask, (), timeout_s).values():
            if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise ClusterBroken(f"Kafka did not manage {what}: {error.str()}")

    def _entries(self, kind: ResourceType, name: str, timeout_s: float) -> dict[str, ConfigEntry]:
        resource = ConfigResource(kind, name)
        patience_s = min(timeout_s, _FOUND_S)

        def ask() -> dict[str, ConfigEntry]:
            futures = self._client.describe_configs([resource], request_timeout=patience_s)
            (future,) = futures.values()
            entries: dict[str, ConfigEntry] = self._result(future, f"config of {name}", patience_s)
            return entries

        return self._again(ask, _UNANSWERED, timeout_s)

    def _describe(self, kind: ResourceType, name: str, timeout_s: float = 15.0) -> dict[str, str]:
        entries = self._entries(kind, name, timeout_s)
        return {key: entry.value for key, entry in entries.items() if entry.value is not None}

    def _again(self, ask: Callable[[], T], moved: Collection[int], timeout_s: float) -> T:
        """Ask until the answer is no longer that somebody else must be asked, or by another handle.

        Raises:
            ClusterBroken: it still was when the time was over, or the answer is another error.
        """

        def has_moved(error: BaseException) -> bool:
            return isinstance(error, ClusterBroken) and _code(error) in {*moved, *_HANDLE_LOST}

        def refresh(seconds: float) -> None:
            self.broker_ids()  # brings the client's metadata up to date
            pause(seconds)

        return Retrying(
            retry=retry_if_exception(has_moved),
            stop=stop_after_delay(timeout_s),
            wait=wait_fixed(0.1),
            sleep=refresh,
            reraise=True,
        )(ask)

    @staticmethod
    def _result(future: "Future[Any]", what: str, timeout_s: float) -> Any:  # noqa: ANN401
        # A margin of a second lets the client's own, better worded time-out come first.
        try:
            return future.result(timeout=timeout_s + 1)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() in _CALLER_IS_WRONG:
                raise UsageError(f"Kafka refuses {what}: {reason.str()}") from error
            raise ClusterBroken(f"Kafka did not manage {what}: {reason.str()}") from error
        except TimeoutError as error:
            raise ClusterBroken(f"No answer about {what} within {timeout_s:g} s.") from error


_REFRESH_S = 1.0
"""For news of a cluster that is asked once a second, seconds."""
_MOST_SILENCES = 3
"""After so many questions that no leader answered the client itself is doubted."""

_ANSWER_S = 10.0
"""A controller that has not answered by then may have moved: the next one is asked."""

_FOUND_S = 5.0
"""librdkafka may wait for a broker and miss that it is there: asked again after so many seconds."""

_REGISTERED_S = 5.0
"""A broker that has just registered is known to every other one by then, seconds."""

_HANDLE_LOST = {KafkaError._DESTROY, KafkaError._DESTROY_BROKER}
"""librdkafka learned the broker's id while it asked, and went on with another handle of it."""

_ASK_CONTROLLER_AGAIN = {
    KafkaError.NOT_CONTROLLER,  # it was a moment ago, and other brokers still call it so
    KafkaError.INVALID_REPLICATION_FACTOR,
}
_UNANSWERED = {*_HANDLE_LOST, KafkaError._TIMED_OUT}
_ASK_ANOTHER = {
    KafkaError._NOENT,  # librdkafka: "No leaders found"
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # a new topic, which not all brokers have heard of yet
}
_CALLER_IS_WRONG = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REQUEST,
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
}


def _code(error: BaseException) -> int | None:
    """Return the number of Kafka's error that led to one of ours."""
    cause = error.__cause__
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


def _is_own(entry: ConfigEntry) -> bool:
    """Tell whether a topic sets this itself; a broker of 0.11 or 1.0 tells only what is default."""
    source = ConfigSource(entry.source)
    if source is ConfigSource.UNKNOWN_CONFIG:
        return not entry.is_default
    return source is ConfigSource.DYNAMIC_TOPIC_CONFIG


def round_robin(
    brokers: Sequence[int], partitions: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Return replicas for each partition, dealt in turn, each partition one broker further."""
    count = len(brokers)
    return [
        tuple(brokers[(number + copy) % count] for copy in range(replication_factor))
        for number in range(partitions)
    ]


# -- the configuration in effect, beside the one that was asked for -------------------------------


def takes_effect(wanted: Mapping[str, str], effective: Mapping[str, str]) -> bool:
    """Tell whether every property that was asked for has that value, in whatever words."""
    return all(
        key in effective and _same_value(effective[key], value) for key, value in wanted.items()
    )


def reject_ignored_config(
    who: str, wanted: Mapping[str, str], effective: Mapping[str, str]
) -> None:
    """Compare a configuration that was asked for with the one in effect.

    A misspelled property is ignored by Kafka without a word, and the experiment would then be
    another one than it claims to be.

    Raises:
        ClusterBroken: a property is unknown, or has another value.
    """
    for key, value in sorted(wanted.items()):
        if key not in effective:
            raise ClusterBroken(
                f"{who} does not know the property {key!r}: is it spelled right, and does this "
                "Kafka version have it?"
            )
        if not _same_value(effective[key], value):
            raise ClusterBroken(
                f"{who} runs with {key}={effective[key]}, though {value} was asked for."
            )


def _same_value(effective: str, wanted: str) -> bool:
    if effective.lower() == wanted.lower():
        return True
    try:
        return float(effective) == float(wanted)
    except ValueError:
        return sorted(part.strip() for part in effective.split(",")) == sorted(
            part.strip() for part in wanted.split(",")
        )
