"""Stand-ins for confluent-kafka's classes, whose work another process does."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.core.client_library import CLIENT_COMMAND
from harness.core.wait import wait_until
from tests.clients.mock_kafka import PARTITIONS, TOPIC, MockKafka
from workloads import foreign_client
from workloads.foreign_client import Consumer, Producer
from workloads.foreign_pipe import Message, kafka_config

REFERENCE = Path(__file__).parents[2] / "examples" / "clients" / "reference.py"


@pytest.fixture(autouse=True)
def _command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLIENT_COMMAND, json.dumps([sys.executable, str(REFERENCE)]))


@pytest.fixture
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture
def producer(kafka: MockKafka) -> Iterator[Producer]:
    made = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
    yield made
    made._pipe.kill()


@pytest.fixture
def consumer(kafka: MockKafka) -> Iterator[Consumer]:
    made = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
    yield made
    made._pipe.kill()


def test_records_are_acknowledged_and_read(producer: Producer, consumer: Consumer) -> None:
    acked: list[Message] = []
    for number in range(5):
        producer.produce(TOPIC, b"%d" % number, None, 1, lambda _, message: acked.append(message))

    assert producer.flush(120) == 0

    assert [(m.partition(), m.offset(), m.value()) for m in acked] == [
        (1, number, b"%d" % number) for number in range(5)
    ]
    consumer.assign([TopicPartition(TOPIC, 1, -2)])
    read: list[Message] = []
    while len(read) < 5:
        read += consumer.consume(100, 0.2)
    assert [(m.topic(), m.offset(), m.value(), m.error()) for m in read] == [
        (TOPIC, number, b"%d" % number, None) for number in range(5)
    ]


def test_what_a_group_gives_is_told_before_its_records(
    producer: Producer, consumer: Consumer
) -> None:
    producer.produce(TOPIC, b"x", None, 0)
    producer.flush(120)
    seen: list[Any] = []

    def assigned(asked: Consumer, places: list[TopicPartition]) -> None:
        assert asked is consumer
        seen.append(sorted(place.partition for place in places))

    consumer.subscribe([TOPIC], on_assign=assigned)
    while b"x" not in seen:
        seen += [message.value() for message in consumer.consume(10, 0.2)]

    assert seen[0] == list(range(PARTITIONS))
    assert seen[-1] == b"x"


def test_what_the_client_cannot_is_an_error(consumer: Consumer) -> None:
    with pytest.raises(KafkaException, match="position") as failed:
        consumer.position([TopicPartition(TOPIC, 0)])

    assert failed.value.args[0].code() == KafkaError._NOT_IMPLEMENTED


def test_a_client_that_dies_ends_its_producer_and_nobody_knows_of_its_records(
    producer: Producer,
) -> None:
    told: list[KafkaError | None] = []
    producer.produce(TOPIC, b"x", None, 0, lambda error, _: told.append(error))

    producer._pipe.kill()
    wait_until(lambda: producer._pipe.dead, timeout_s=60, what="its end to be noticed")

    with pytest.raises(KafkaException) as failed:
        producer.poll(1)
    assert failed.value.args[0].fatal()
    assert [error and error.code() for error in told] == [KafkaError._PURGE_INFLIGHT]
    assert len(producer) == 0


def test_no_more_is_under_way_than_the_client_has_room_for(
    producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_client, "_QUEUED_BYTES", 20)
    for _ in range(2):
        producer.produce(TOPIC, b"ten bytes!", None, 0)

    with pytest.raises(BufferError):
        producer.produce(TOPIC, b"x", None, 0)

    assert producer.flush(120) == 0
    producer.produce(TOPIC, b"twenty of those bytes", None, 0)
    producer.purge()
    with pytest.raises(KafkaException):
        producer.poll(1)
    producer.produce(TOPIC, b"x", None, 0)


def test_who_does_not_answer_is_not_waited_for(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.monotonic()
    with pytest.raises(KafkaException) as failed:
        # A poll without records that takes longer than anybody waits for it.
        consumer._pipe.call({"op": "poll", "max": 1, "timeout_ms": 5000}, 0.2)

    assert failed.value.args[0].code() == KafkaError._TIMED_OUT
    assert time.monotonic() - begin < 5


def test_settings_are_written_as_kafka_writes_them() -> None:
    assert kafka_config(
        {
            "linger.ms": 5.0,
            "enable.idempotence": True,
            "auto.offset.reset": "error",
            "topic.metadata.refresh.interval.ms": 5000,
            "queued.max.messages.kbytes": 16384,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": "hush",
            "ssl.ca.location": "/ca.pem",
            "error_cb": print,
        }
    ) == {
        "linger.ms": "5",
        "enable.idempotence": "true",
        "auto.offset.reset": "none",
        "metadata.max.age.ms": "5000",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="alice" password="hush";'
        ),
        "ssl.truststore.location": "/ca.pem",
        "ssl.truststore.type": "PEM",
    }


def test_a_clients_own_certificate_is_given_to_java_as_it_takes_it(tmp_path: Path) -> None:
    both = tmp_path / "client.pem"
    both.write_text("key and certificate", encoding="utf-8")
    named = {"ssl.certificate.location": str(both), "ssl.key.location": str(both)}
    store = {"ssl.keystore.location": "/client.p12", "ssl.keystore.password": "hush"}

    assert kafka_config({**named, "ssl.key.password": "hush"}) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "key and certificate",
        "ssl.keystore.key": "key and certificate",
        "ssl.key.password": "hush",
    }
    assert kafka_config(store) == {**store, "ssl.keystore.type": "PKCS12"}
    assert kafka_config({"ssl.endpoint.identification.algorithm": "none"}) == {
        "ssl.endpoint.identification.algorithm": ""
    }
