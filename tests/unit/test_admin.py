"""Whoever must be asked may have changed since the client last heard of it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import harness.cluster.admin
from harness.cluster.admin import Admin
from harness.core.access import Access
from harness.core.cluster import TopicSpec
from harness.core.errors import ClusterBroken, UsageError

NOWHERE = Access("127.0.0.1:1")


class _YoungCluster:
    """Brokers that are all registered before a controller is elected, or elect another one."""

    def __init__(self, *answers: int | None, refuses: Sequence[int] = ()) -> None:
        self._answers: Iterator[int | None] = iter(answers)
        self._refuses = list(refuses)
        self.known: int | None = None
        self.brokers: Iterator[int] = repeat(2)

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        del topic, timeout
        self.known = next(self._answers)
        if self.known is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        brokers = dict.fromkeys(range(1, 1 + next(self.brokers)))
        return SimpleNamespace(controller_id=self.known, brokers=brokers)

    def create_topics(self, topics: Any, *, request_timeout: float) -> Any:
        del request_timeout

        def result(timeout: float) -> int | None:
            del timeout
            if self._refuses:
                raise KafkaException(KafkaError(self._refuses.pop(0)))
            return self.known

        return {topic.topic: SimpleNamespace(result=result) for topic in topics}


def test_a_topic_is_created_only_once_the_controller_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    young = _YoungCluster(-1, None, 3, 2)
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: young)

    Admin(NOWHERE).create_topic(TopicSpec(name="t", partitions=1, replication_factor=1))

    assert young.known == 2


@pytest.mark.parametrize(
    "refuses",
    [
        [KafkaError.NOT_CONTROLLER],
        # It has not heard of the second broker yet.
        [KafkaError.INVALID_REPLICATION_FACTOR],
        # It did what it was asked, and its answer was lost.
        [KafkaError._DESTROY, KafkaError.TOPIC_ALREADY_EXISTS],
        [KafkaError._DESTROY_BROKER, KafkaError.TOPIC_ALREADY_EXISTS],
        [KafkaError._TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS],
        [KafkaError._TIMED_OUT, KafkaError._TIMED_OUT],
    ],
)
def test_a_topic_is_asked_for_again_where_another_answer_is_to_be_expected(
    monkeypatch: pytest.MonkeyPatch, refuses: list[int]
) -> None:
    young = _YoungCluster(*[1] * 5, refuses=refuses)
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: young)

    Admin(NOWHERE).create_topic(TopicSpec(name="t", partitions=1, replication_factor=2))

    assert not young._refuses


def test_a_broker_that_not_every_other_knows_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, instant_time: list[float]
) -> None:
    del instant_time
    young = _YoungCluster(*[1] * 9, refuses=[KafkaError.INVALID_REPLICATION_FACTOR])
    young.brokers = chain([1] * 4, repeat(2))
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: young)

    Admin(NOWHERE).create_topic(TopicSpec(name="t", partitions=1, replication_factor=2))

    assert not young._refuses


@pytest.mark.parametrize(
    "refusal", [KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.TOPIC_ALREADY_EXISTS]
)
def test_a_topic_that_cannot_be_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, instant_time: list[float], refusal: int
) -> None:
    del instant_time
    young = _YoungCluster(*[1] * 500, refuses=[refusal] * 2)
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: young)

    with pytest.raises(UsageError, match="Kafka refuses topic 't'"):
        Admin(NOWHERE).create_topic(TopicSpec(name="t", partitions=1, replication_factor=3))

    assert young._refuses == [refusal]


@pytest.mark.parametrize(("kafka", "deleted"), [("0.11.0.3", []), ("1.0.2", ["a", "b"])])
def test_topics_are_deleted_where_brokers_do_so_by_default(
    monkeypatch: pytest.MonkeyPatch, kafka: str, deleted: list[str]
) -> None:
    asked: list[str] = []

    class Deleting(_YoungCluster):
        def delete_topics(self, topics: list[str], *, request_timeout: float) -> Any:
            asked.extend(topics)
            return {topic: SimpleNamespace(result=lambda timeout: None) for topic in topics}

    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: Deleting(1, 1))

    Admin(NOWHERE, kafka=kafka).delete_topics(["a", "b"])

    assert asked == deleted


class _MovingLeader:
    """A leader that has moved since the client last heard of it."""

    def __init__(self, *answers: object) -> None:
        self._answers = iter(answers)

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        del topic, timeout
        return SimpleNamespace(brokers={})

    def list_offsets(self, places: Any, *, request_timeout: float) -> Any:
        del request_timeout

        def result(timeout: float) -> Any:
            del timeout
            answer = next(self._answers)
            if isinstance(answer, KafkaError):
                raise KafkaException(answer)
            return SimpleNamespace(offset=answer) if isinstance(answer, int) else answer

        return dict.fromkeys(places, SimpleNamespace(result=result))


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError._NOENT])
def test_the_end_of_a_log_is_asked_of_the_new_leader(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    moving = _MovingLeader(KafkaError(code), 7)
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: moving)

    assert Admin(NOWHERE).end_offset("t", 0) == 7


@pytest.mark.parametrize("code", [KafkaError._DESTROY_BROKER, KafkaError._TIMED_OUT])
def test_a_configuration_is_asked_again_when_the_client_lost_the_broker(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Forgetful(_MovingLeader):
        def describe_configs(self, resources: Any, *, request_timeout: float) -> Any:
            return self.list_offsets(resources, request_timeout=request_timeout)

    lost = KafkaError(code)
    entry = SimpleNamespace(value="2")
    forgetful = Forgetful(lost, lost, {"min.insync.replicas": entry})
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: forgetful)

    assert Admin(NOWHERE).broker_config(1) == {"min.insync.replicas": "2"}


def test_an_end_that_nobody_may_tell_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = _MovingLeader(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: closed)

    with pytest.raises(ClusterBroken, match="did not manage end of t-0"):
        Admin(NOWHERE).end_offset("t", 0)


class _Leaders:
    """Leaders that tell their high watermarks; those of some partitions have moved."""

    def __init__(self, moved: Sequence[int]) -> None:
        self.moved = moved
        self.refreshed = 0

    def list_topics(self, topic: str | None = None, *, timeout: float) -> Any:
        del topic, timeout
        self.refreshed += 1
        return SimpleNamespace(topics={}, brokers={})

    def list_offsets(self, asked: Any, *, request_timeout: float) -> Any:
        del request_timeout
        futures: dict[Any, Future[Any]] = {}
        for place in asked:
            futures[place] = Future()
            if place.partition in self.moved:
                moved = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
                futures[place].set_exception(KafkaException(moved))
            else:
                told = SimpleNamespace(offset=7, leader_epoch=2)
                futures[place].set_result(told)
        return futures


PLACES = [("orders", 0), ("orders", 1)]


@pytest.mark.parametrize(("moved", "told", "refreshed"), [((), 2, 0), ((1,), 1, 1), ((0, 1), 0, 1)])
def test_after_a_leader_has_moved_the_client_hears_of_it_before_it_asks_again(
    moved: tuple[int, ...], told: int, refreshed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders = _Leaders(moved)
    monkeypatch.setattr(harness.cluster.admin, "AdminClient", lambda *_, **__: leaders)

    found = Admin(NOWHERE).high_watermarks(PLACES)

    assert len(found) == told
    assert leaders.refreshed == refreshed


def test_a_client_that_no_leader_answers_any_more_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[_Leaders] = []

    def client(*_: Any, **__: Any) -> _Leaders:
        made.append(_Leaders(() if made else (0, 1)))
        return made[-1]

    monkeypatch.setattr(harness.cluster.admin, "AdminClient", client)
    admin = Admin(NOWHERE)

    told = [len(admin.high_watermarks(PLACES)) for _ in range(6)]

    assert told == [0, 0, 0, 0, 2, 2]
    assert len(made) == 2
