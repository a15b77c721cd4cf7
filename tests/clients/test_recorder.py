"""The recorder around real clients of a mock cluster: what their op histories say."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    TopicPartition,
)

from harness.core.errors import UsageError
from harness.core.wait import wait_until
from harness.history.op_history import names_in
from kafka_chaos.recorder import Recorder, merge
from tests.clients.mock_kafka import PARTITIONS, TOPIC, MockKafka

Line = dict[str, Any]
ALL = [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]


@pytest.fixture
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with Recorder(tmp_path / "history.jsonl", process=5) as made:
        yield made


def producer_of(kafka: MockKafka, recorder: Recorder, **config: Any) -> Producer:
    settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0, "linger.ms": 1, **config}
    return recorder.producer(Producer(settings))


def consumer_of(kafka: MockKafka, recorder: Recorder, **config: Any) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap, "group.id": "readers", "log_level": 0,
        "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 500, **config,
    }  # fmt: skip
    return recorder.consumer(Consumer(settings))


def lines_of(path: Path, f: str = "", kind: str = "") -> list[Line]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    clients = [line for line in lines if line["process"] != "nemesis"]
    return [line for line in clients if f in ("", line["f"]) and kind in ("", line["type"])]


def sends_of(path: Path, kind: str) -> list[tuple[str, int | None, int]]:
    """The key, offset and value of each send that completed so."""
    sends = [mop for f in ("send", "txn") for line in lines_of(path, f, kind)
             for mop in line["value"]]  # fmt: skip
    return sorted((key, offset, value) for _, key, (offset, value) in sends)


def reads_of(path: Path) -> list[tuple[str, int | None, int]]:
    return sorted(
        (key, offset, value)
        for line in lines_of(path, "poll", "ok")
        for _, polled in line["value"]
        for key, records in polled.items()
        for offset, value in records
    )


def poll_until(consumer: Consumer, count: int) -> list[Message]:
    """The first records that polls give."""
    given: list[Message] = []

    def polled() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            given.append(message)
        return len(given) == count

    wait_until(polled, timeout_s=120, what=f"{count} records", interval_s=0)
    return given


def in_slices(sends: Callable[[int], None], count: int, threads: int) -> None:
    def part(first: int) -> None:
        for number in range(first, count, threads):
            sends(number)

    running = [threading.Thread(target=part, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)


def test_all_that_was_acknowledged_and_read_is_in_the_history(
    kafka: MockKafka, recorder: Recorder
) -> None:
    producer, reported = producer_of(kafka, recorder), []
    for number in range(40):
        producer.produce(
            TOPIC, b"the same", key=str(number), headers={"mine": b"1"},
            on_delivery=lambda error, message: reported.append((error, message.offset())),
        )  # fmt: skip
    assert producer.flush(120) == 0
    consumer = consumer_of(kafka, recorder)
    consumer.assign(ALL)
    given = poll_until(consumer, 20)
    given += consumer.consume(20, 120)
    consumer.close()

    recorder.close()

    assert [error for error, _ in reported] == [None] * 40
    assert {message.value() for message in given} == {b"the same"}
    assert [message.headers() for message in given] == [[("mine", b"1")]] * 40
    sends = sends_of(recorder.path, "ok")
    assert len({value for _, _, value in sends}) == 40
    assert sends == reads_of(recorder.path)
    assert lines_of(recorder.path, kind="info") == []
    assert recorder.foreign == {}
    lines = [json.loads(line) for line in recorder.path.read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(len(lines)))


def test_a_closed_history_has_the_sends_of_a_producer_in_their_order(
    kafka: MockKafka, recorder: Recorder
) -> None:
    first, second = (producer_of(kafka, recorder) for _ in range(2))
    for number in range(50):
        for producer in (first, second):
            producer.produce(TOPIC, str(number), partition=0)
    assert first.flush(120) == second.flush(120) == 0

    raw = lines_of(recorder.path, "send")
    recorder.close()

    assert len({line["process"] for line in raw}) > 2
    sends = lines_of(recorder.path, "send")
    by_process = {
        process: [line["value"][0][2][1] for line in sends
                  if line["process"] == process and line["type"] == "ok"]
        for process in {line["process"] for line in sends}
    }  # fmt: skip
    assert sorted(map(len, by_process.values())) == [50, 50]
    assert all(values == sorted(values) for values in by_process.values())
    assert [line["type"] for line in sends] == ["invoke", "ok"] * 100


def test_threads_may_share_a_producer(kafka: MockKafka, recorder: Recorder) -> None:
    producer = producer_of(kafka, recorder)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            producer.poll(0.01)

    server = threading.Thread(target=serve)
    server.start()
    in_slices(lambda n: producer.produce(TOPIC, str(n), partition=n % 2), 400, 4)
    assert producer.flush(120) == 0
    stop.set()
    server.join(120)
    recorder.read_all({"bootstrap.servers": kafka.bootstrap}, TOPIC)

    recorder.close()

    sends = sends_of(recorder.path, "ok")
    assert len(sends) == 400
    assert sends == reads_of(recorder.path)
    for key in (f"{TOPIC}-0", f"{TOPIC}-1"):
        values = [value for of, _, value in sends if of == key]
        assert values == sorted(values), "sends are recorded in the order in which they were made"


def test_a_record_under_way_at_the_end_is_in_doubt(kafka: MockKafka, recorder: Recorder) -> None:
    producer = producer_of(kafka, recorder, **{"linger.ms": 60_000})
    producer.produce(TOPIC, b"1", partition=1)
    producer.produce(TOPIC, b"2")

    recorder.close()

    assert {key for key, _, _ in sends_of(recorder.path, "info")} == {
        f"{TOPIC}-{partition}" for partition in range(PARTITIONS)
    }
    assert sends_of(recorder.path, "ok") == sends_of(recorder.path, "fail") == []
    assert producer.flush(120) == 0, "late delivery reports do no harm"
    with pytest.raises(UsageError, match="is closed"):
        producer.produce(TOPIC, b"3")


def test_a_delivery_error_is_in_doubt_and_its_callback_called(recorder: Recorder) -> None:
    config = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0, "message.timeout.ms": 300}
    told: list[Any] = []
    producer = recorder.producer(Producer(config), on_delivery=lambda *report: told.append(report))
    producer.produce(TOPIC, b"1", partition=0)
    producer.flush(120)

    recorder.close()

    assert [error.name() for error, _ in told] == ["_MSG_TIMED_OUT"]
    (line,) = lines_of(recorder.path, "send", "info")
    assert line["error"] == "_MSG_TIMED_OUT"


def test_a_record_that_the_producer_does_not_take_has_failed(
    kafka: MockKafka, recorder: Recorder
) -> None:
    producer = producer_of(kafka, recorder, **{"message.max.bytes": 1000})
    with pytest.raises(KafkaException):
        producer.produce(TOPIC, b"x" * 2000, partition=0)
    messages: list[dict[str, Any]] = [{"value": b"x" * 2000}, {"value": b"y"}]

    assert producer.produce_batch(TOPIC, messages, partition=0) == 1

    assert producer.flush(120) == 0
    recorder.close()
    assert messages[0]["_error"].name() == "MSG_SIZE_TOO_LARGE"
    assert {line["error"] for line in lines_of(recorder.path, "send", "fail")} == {
        "MSG_SIZE_TOO_LARGE"
    }
    assert len(sends_of(recorder.path, "ok")) == 1


def test_records_of_others_are_counted_and_left_out(kafka: MockKafka, recorder: Recorder) -> None:
    kafka.append(b"of somebody else", 0)
    producer = producer_of(kafka, recorder)
    producer.produce(TOPIC, b"1", partition=0, headers=[("kafka-chaos-id", b"17")])
    assert producer.flush(120) == 0

    recorder.read_all({"bootstrap.servers": kafka.bootstrap}, TOPIC)

    recorder.close()
    assert recorder.foreign == {TOPIC: 1}
    assert reads_of(recorder.path) == sends_of(recorder.path, "ok") != []
    assert reads_of(recorder.path)[0][2] == 5 << 40, "a header that was handed on is replaced"


def test_records_may_be_told_by_their_contents(kafka: MockKafka, tmp_path: Path) -> None:
    def identify(topic: str, key: Any, value: Any) -> Any:
        text = value if isinstance(value, str) else value.decode()
        return {"-": None, "?": 1.5}.get(text, text)

    kafka.append(b"order 0", 0)
    with Recorder(tmp_path / "h.jsonl", identify=identify) as recorder:
        producer = producer_of(kafka, recorder)
        for text in ("order 1", "-", "order 2"):
            producer.produce(TOPIC, text, partition=0)
        with pytest.raises(UsageError, match=r"returned 1\.5 .* must return a text"):
            producer.produce(TOPIC, "?")
        assert producer.flush(120) == 0
        consumer = consumer_of(kafka, recorder)
        consumer.assign(ALL)
        given = poll_until(consumer, 4)
        consumer.close()

    assert all(message.headers() is None for message in given)
    assert [offset for _, offset, _ in reads_of(recorder.path)] == [0, 1, 3]
    assert sends_of(recorder.path, "ok") == reads_of(recorder.path)[1:]
    assert recorder.foreign == {TOPIC: 1}
    values = [value for *_, value in reads_of(recorder.path)]
    assert names_in(recorder.path, values[1:]) == {values[1]: "order 1", values[2]: "order 2"}
    assert names_in(recorder.path, values[2:]) == {values[2]: "order 2"}


def test_transactions_end_as_one_op_each(kafka: MockKafka, recorder: Recorder) -> None:
    producer = producer_of(kafka, recorder, **{"transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(120)
    consumer = consumer_of(kafka, recorder)
    for number, fate in enumerate(("commit", "abort", "commit", "left open")):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(TOPIC, f"{number} {partition}", partition=partition)
        # An abort that overtakes the first record kills the client (librdkafka issue 4849).
        wait_until(lambda: producer.poll(0.05) or not len(producer), timeout_s=60, what="reports")
        producer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, 0)], consumer.consumer_group_metadata(), 120
        )
        if fate == "commit":
            producer.commit_transaction(120)
        elif fate == "abort":
            producer.abort_transaction(120)
    recorder.close()

    txns = lines_of(recorder.path, "txn")
    assert lines_of(recorder.path, "send") == []
    assert [(line["type"], len(line["value"])) for line in txns] == [
        ("invoke", 2), ("ok", 2), ("invoke", 2), ("fail", 2),
        ("invoke", 2), ("ok", 2), ("invoke", 2), ("info", 2),
    ]  # fmt: skip
    assert len({line["process"] for line in txns}) == 1
    assert [mop[2][0] for mop in txns[1]["value"]] == [0, 0]
    producer.abort_transaction(120)
    consumer.close()


def test_a_subscribed_consumer_tells_of_its_rebalances(
    kafka: MockKafka, recorder: Recorder
) -> None:
    producer = producer_of(kafka, recorder)
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"1", partition=partition)
    assert producer.flush(120) == 0
    consumer, calls = consumer_of(kafka, recorder), []

    def assigned(who: Consumer, partitions: list[TopicPartition]) -> None:
        calls.append((who is consumer, len(partitions)))
        who.assign(partitions)

    def revoked(who: Consumer, partitions: list[TopicPartition]) -> None:
        calls.append((who is consumer, -len(partitions)))

    consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked)
    poll_until(consumer, PARTITIONS)
    consumer.close()
    recorder.close()

    assert calls == [(True, PARTITIONS), (True, -PARTITIONS)]
    held = [line["value"] for line in lines_of(recorder.path, "subscribe", "ok")]
    assert held[0] == held[-1] == []
    assert [f"{TOPIC}-{partition}" for partition in range(PARTITIONS)] in held
    assert reads_of(recorder.path) == sends_of(recorder.path, "ok")


def test_no_order_is_expected_across_a_seek(kafka: MockKafka, recorder: Recorder) -> None:
    producer = producer_of(kafka, recorder)
    for text in "abc":
        producer.produce(TOPIC, text, partition=0)
    assert producer.flush(120) == 0
    consumer = consumer_of(kafka, recorder)
    consumer.assign(ALL[:2])
    poll_until(consumer, 3)
    consumer.seek(TopicPartition(TOPIC, 0, 0))
    again = poll_until(consumer, 3)
    consumer.close()
    recorder.close()

    assert [message.offset() for message in again] == [0, 1, 2]
    both, one = [f"{TOPIC}-0", f"{TOPIC}-1"], [f"{TOPIC}-1"]
    assert [line["value"] for line in lines_of(recorder.path, "assign", "ok")] == [both, one, both]


def test_serializers_keep_their_order_of_arguments(kafka: MockKafka, recorder: Recorder) -> None:
    producer = recorder.producer(
        SerializingProducer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "key.serializer": lambda key, _: key.encode(),
                "value.serializer": lambda value, _: json.dumps(value).encode(),
            }
        )
    )
    producer.produce(TOPIC, "key", {"a": 1}, 0)
    assert producer.flush(120) == 0
    consumer = consumer_of(kafka, recorder)
    consumer.assign(ALL)

    (message,) = poll_until(consumer, 1)

    consumer.close()
    assert (message.key(), message.value()) == (b"key", b'{"a": 1}')


KILLED = """
import os, signal, sys
from confluent_kafka import Producer
from kafka_chaos.recorder import Recorder

recorder = Recorder(sys.argv[1], process=2)
producer = recorder.producer(Producer({"bootstrap.servers": sys.argv[2], "log_level": 0}))
for number in range(20):
    producer.produce("orders", str(number))
producer.flush(120)
producer.produce("orders", b"under way")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_completed_op_and_is_merged(
    kafka: MockKafka, recorder: Recorder, tmp_path: Path
) -> None:
    killed = tmp_path / "killed.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(killed), kafka.bootstrap], timeout=120, check=False
    )
    assert done.returncode == -9
    recorder.read_all({"bootstrap.servers": kafka.bootstrap}, TOPIC)
    recorder.close()
    with killed.open("ab") as file:
        file.write(b'{"index": 900, "ti')

    merged = merge([killed, recorder.path], tmp_path / "merged.jsonl")

    assert len(sends_of(killed_lines(killed, tmp_path), "ok")) == 20
    assert set(sends_of(merged, "ok")) <= set(reads_of(merged))
    (doubtful,) = lines_of(merged, "send", "info")
    assert len(doubtful["value"]) == PARTITIONS
    assert doubtful["error"] == "never completed"
    again = merge([merged], tmp_path / "again.jsonl")
    assert lines_of(again) == lines_of(merged)


def killed_lines(path: Path, folder: Path) -> Path:
    whole = folder / "whole.jsonl"
    whole.write_text("".join(f"{line}\n" for line in path.read_text().split("\n")[:-1]))
    return whole


def test_a_recorder_rejects_what_it_cannot_use(recorder: Recorder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a new file"):
        Recorder(recorder.path)
    with pytest.raises(UsageError, match=r"process=-1 .* is not from 0 to"):
        Recorder(tmp_path / "other.jsonl", process=-1)
    with pytest.raises(UsageError, match="cannot be read"):
        merge([tmp_path / "nowhere.jsonl"], tmp_path / "merged.jsonl")


def test_reading_a_topic_that_is_not_there_is_refused(kafka: MockKafka, recorder: Recorder) -> None:
    config = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    with pytest.raises(UsageError, match="no topic nowhere"):
        recorder.read_all({**config, "allow.auto.create.topics": False}, "nowhere", timeout_s=20)
