"""The client in Go (examples/clients/go), which is franz-go, against librdkafka's mock cluster."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from harness.core.client_library import CLIENT_COMMAND
from tests.clients.mock_kafka import PARTITIONS, TOPIC, MockKafka
from workloads.foreign_client import Consumer, Producer
from workloads.foreign_pipe import Message, Pipe

# Its build fetches franz-go.
pytestmark = pytest.mark.nightly

SOURCE = Path(__file__).parents[2] / "examples" / "clients" / "go"

SPEAKS = "v2.3"

Made = Callable[..., Any]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("There is no program go, with which the client in Go is built.")
    built = tmp_path_factory.mktemp("go") / "franz-go-client"
    done = subprocess.run(
        [go, "build", "-o", str(built)], cwd=SOURCE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(autouse=True)
def _command(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLIENT_COMMAND, json.dumps([str(program)]))
    # franz-go cannot read what the mock cluster answers to newer requests for its versions.
    monkeypatch.setenv("FRANZ_GO_SPEAKS", SPEAKS)


@pytest.fixture
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture
def made(kafka: MockKafka) -> Iterator[Made]:
    """Make clients of the mock cluster; none outlives the test."""
    with ExitStack() as stack:

        def make(kind: type[Producer | Consumer], **config: object) -> Producer | Consumer:
            settings = {name.replace("_", "."): value for name, value in config.items()}
            client = kind({"bootstrap.servers": kafka.bootstrap, **settings})
            stack.callback(client._pipe.kill)
            return client

        yield make


def produce(producer: Producer, count: int, partition: int) -> list[Message]:
    """Send records 0, 1, … to a partition, and return what was acknowledged."""
    acked: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        acked.append(message)

    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, b"key", partition, delivered, [("name", b"x")])
    assert producer.flush(120) == 0
    return acked


def read(consumer: Consumer, count: int) -> list[Message]:
    """Poll until so many records came."""
    messages: list[Message] = []
    while len(messages) < count:
        messages += consumer.consume(100, 0.2)
    return messages


def test_it_says_what_it_is(program: Path) -> None:
    hello = Pipe("none", {})
    hello.kill()

    assert hello.hello["client"] == "franz-go"
    assert f"franz-go v{hello.hello['version']}" in (SOURCE / "go.mod").read_text()


@pytest.mark.parametrize(
    "config",
    [
        {"acks": "all"},
        {"acks": "1", "max_in_flight_requests_per_connection": 2},
        {"acks": "all", "enable_idempotence": False, "compression_type": "lz4"},
    ],
)
def test_records_are_acknowledged_and_read(made: Made, config: dict[str, object]) -> None:
    producer = made(Producer, linger_ms=5.0, delivery_timeout_ms=60_000, **config)

    acked = produce(producer, 5, 1)

    assert [(m.partition(), m.offset(), m.value()) for m in acked] == [
        (1, number, b"%d" % number) for number in range(5)
    ]
    consumer = made(Consumer, group_id="g")
    consumer.assign([TopicPartition(TOPIC, 1, -2)])
    assert [
        (m.topic(), m.offset(), m.key(), m.value(), m.headers()) for m in read(consumer, 5)
    ] == [(TOPIC, number, b"key", b"%d" % number, [("name", b"x")]) for number in range(5)]


def test_without_acknowledgements_no_offset_is_told(made: Made) -> None:
    acked = produce(made(Producer, acks="0"), 2, 3)

    assert [(m.partition(), m.offset()) for m in acked] == [(3, None)] * 2


def test_a_record_that_names_no_partition_gets_one(made: Made) -> None:
    (acked,) = produce(made(Producer), 1, -1)

    assert acked.partition() in range(PARTITIONS)
    assert acked.offset() == 0


def test_it_goes_where_it_is_sent_and_knows_where_it_is(made: Made) -> None:
    produce(made(Producer), 5, 1)
    consumer = made(Consumer, group_id="g")
    place = TopicPartition(TOPIC, 1)
    assert consumer.get_watermark_offsets(place, 60) == (0, 5)
    assert sorted(consumer.list_topics(TOPIC, 60).topics[TOPIC].partitions) == [0, 1, 2, 3]

    consumer.assign([TopicPartition(TOPIC, 1, 3)])
    assert [m.offset() for m in read(consumer, 2)] == [3, 4]
    consumer.seek(TopicPartition(TOPIC, 1, 1))
    assert [m.offset() for m in read(consumer, 4)] == [1, 2, 3, 4]
    consumer.incremental_assign([TopicPartition(TOPIC, 0, -2)])
    assert {
        (p.partition, p.offset) for p in consumer.position([place, TopicPartition(TOPIC, 0)])
    } == {
        (0, 0),
        (1, 5),
    }


def test_what_was_committed_is_told(made: Made) -> None:
    produce(made(Producer), 5, 1)
    consumer = made(Consumer, group_id="g")
    consumer.assign([TopicPartition(TOPIC, 1, -2)])
    read(consumer, 5)
    places = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    assert [p.offset for p in consumer.committed(places, 60)] == [-1001, -1001]

    done = consumer.commit(offsets=[TopicPartition(TOPIC, 1, 3)], asynchronous=False)

    assert [(p.topic, p.partition, p.offset) for p in done] == [(TOPIC, 1, 3)]
    assert [p.offset for p in consumer.committed(places, 60)] == [-1001, 3]
    consumer.commit(asynchronous=False)
    assert [p.offset for p in consumer.committed(places, 60)] == [-1001, 5]


def test_what_a_group_gives_is_told_before_its_records(made: Made) -> None:
    produce(made(Producer), 3, 2)
    consumer = made(
        Consumer, group_id="g", auto_offset_reset="earliest", session_timeout_ms=6_000,
        heartbeat_interval_ms=500, enable_partition_eof=True,
    )  # fmt: skip
    seen: list[Any] = []

    def assigned(asked: Consumer, places: list[TopicPartition]) -> None:
        seen.append(sorted(place.partition for place in places))
        # As a member does that knows better than the group.
        asked.incremental_assign([TopicPartition(TOPIC, 2, 1)])

    consumer.subscribe([TOPIC], on_assign=assigned)
    while b"2" not in seen:
        seen += [m.value() for m in consumer.consume(10, 0.2) if m.error() is None]

    assert seen == [list(range(PARTITIONS)), b"1", b"2"]
    assert [p.offset for p in consumer.position([TopicPartition(TOPIC, 2)])] == [3]
    group, generation, member, instance = consumer.consumer_group_metadata()
    assert (group, generation > 0, bool(member), instance) == ("g", True, True, None)
    done = consumer.commit(offsets=[TopicPartition(TOPIC, 2, 3)], asynchronous=False)
    assert [p.offset for p in done] == [3]
    assert [p.offset for p in consumer.committed([TopicPartition(TOPIC, 2)], 60)] == [3]
    consumer.close()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_partitions_move_within_a_group_and_questions_are_answered_meanwhile(
    made: Made, assignor: str
) -> None:
    produce(made(Producer), 3, 0)
    owned: list[set[int]] = [set(), set()]
    members: list[Consumer] = []
    answered: list[list[int]] = []

    def join() -> None:
        number = len(members)
        member = made(
            Consumer, group_id="g", auto_offset_reset="earliest", session_timeout_ms=6_000,
            heartbeat_interval_ms=200, partition_assignment_strategy=assignor,
        )  # fmt: skip
        members.append(member)

        def revoked(asked: Consumer, places: list[TopicPartition]) -> None:
            # Not to commit: the mock cluster refuses that while a group rebalances.
            answered.append([p.offset for p in asked.committed([TopicPartition(TOPIC, 0)], 60)])
            owned[number].difference_update(place.partition for place in places)

        member.subscribe(
            [TOPIC],
            on_assign=lambda _, places: owned[number].update(place.partition for place in places),
            on_revoke=revoked,
            on_lost=lambda _, places: owned[number].difference_update(
                place.partition for place in places
            ),
        )

    def poll_until(sizes: list[int]) -> list[tuple[int | None, int | None]]:
        read: list[tuple[int | None, int | None]] = []
        while sorted(map(len, owned)) != sizes:
            for member in members:
                read += [(m.partition(), m.offset()) for m in member.consume(10, 0.1)]
        return read

    join()
    read_first = poll_until([0, PARTITIONS])
    read_first += [(m.partition(), m.offset()) for m in read(members[0], 3 - len(read_first))]
    members[0].commit(asynchronous=False)
    join()
    read_again = poll_until([2, 2])
    for _ in range(10):
        for member in members:
            read_again += [(m.partition(), m.offset()) for m in member.consume(10, 0.1)]

    assert read_first == [(0, 0), (0, 1), (0, 2)]
    assert read_again == []
    # The mock cluster refuses some joins of two members, which franz-go repeats.
    assert answered[0] == [3]
    assert owned[0] | owned[1] == set(range(PARTITIONS))
    members.pop().close()
    owned[1].clear()
    poll_until([0, PARTITIONS])


def test_a_transaction_is_committed_and_aborted(made: Made) -> None:
    producer = made(Producer, transactional_id="t", transaction_timeout_ms=30_000)
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        produce(producer, 2, 0)
        end(60)

    with pytest.raises(KafkaException, match="another client") as failed:
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 1)], ["g", 1, "m", None])
    assert failed.value.args[0].code() == KafkaError._NOT_IMPLEMENTED


def test_no_transaction_is_committed_without_a_record_that_failed(made: Made) -> None:
    """franz-go itself would commit the others."""
    producer = made(Producer, transactional_id="t")
    producer.init_transactions(60)
    producer.begin_transaction()
    produce(producer, 1, 0)
    producer.produce(TOPIC, b"lost", None, PARTITIONS)

    with pytest.raises(KafkaException, match="invalid record partitioning") as failed:
        producer.commit_transaction(60)

    assert failed.value.args[0].txn_requires_abort()
    producer.abort_transaction(60)
    producer.begin_transaction()
    produce(producer, 1, 0)
    producer.commit_transaction(60)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"no_such_setting": 1}, "no.such.setting"),
        ({"compression_type": "rot13"}, "compression.type=rot13"),
        ({"max_in_flight_requests_per_connection": 1}, "max.in.flight.requests.per.connection=1"),
    ],
)
def test_a_setting_that_it_does_not_have_is_refused_by_name(
    made: Made, config: dict[str, object], word: str
) -> None:
    with pytest.raises(KafkaException, match=word) as failed:
        made(Producer, **config)

    assert failed.value.args[0].code() == KafkaError._INVALID_ARG


def test_what_it_does_not_know_to_do_is_an_error(made: Made) -> None:
    consumer = made(Consumer, group_id="g")

    with pytest.raises(KafkaException, match="no op dance") as failed:
        consumer._pipe.call({"op": "dance"}, 60)

    assert failed.value.args[0].code() == KafkaError._NOT_IMPLEMENTED


def test_errors_of_brokers_carry_kafkas_number(made: Made) -> None:
    consumer = made(Consumer, group_id="g")

    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PARTITION") as failed:
        consumer.get_watermark_offsets(TopicPartition(TOPIC, PARTITIONS), 60)

    error = failed.value.args[0]
    assert (error.code(), error.retriable(), error.fatal()) == (3, True, False)


def test_it_ends_at_once_when_its_input_ends(kafka: MockKafka, program: Path) -> None:
    config = {"bootstrap.servers": kafka.bootstrap, "linger.ms": "30000"}
    value = base64.b64encode(b"unsent").decode()
    requests: list[dict[str, Any]] = [
        {"id": 1, "op": "open", "kind": "producer", "config": config},
        {"id": 2, "op": "produce", "topic": TOPIC, "value": value, "partition": 0},
        {"id": 3, "op": "dance"},
    ]
    with subprocess.Popen(
        [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(request) + "\n" for request in requests))
        process.stdin.flush()
        # The answer to the last one tells that the record was taken.
        assert [json.loads(process.stdout.readline())["id"] for _ in range(2)] == [1, 3]

        process.stdin.close()

        assert process.wait(10) == 0
        assert process.stdout.read() == ""
    reader = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "r"})
    assert reader.get_watermark_offsets(TopicPartition(TOPIC, 0), 60) == (0, 0)
    reader.close()
