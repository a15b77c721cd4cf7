"""Where a client polls on after a transaction whose outcome nobody knows, and what it consumed."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.core.op import OpType
from harness.core.wait import wait_until
from harness.history.recorder import Identity
from harness.history.seal import seal
from harness.history.transactions import TxnRecorder
from tests.clients.mock_kafka import PARTITIONS, RUN_ID, TOPIC, MockKafka
from workloads.client_config import consumer_config
from workloads.record import decoder, encoder, values_of
from workloads.txn_consumer import TxnConsumer

GROUP = "transformers"
RECORDS = 8
PLACES = [(value % PARTITIONS, value // PARTITIONS) for value in range(RECORDS)]
ENCODE = encoder(run_id=RUN_ID, topic=TOPIC, size_bytes=100)


@pytest.fixture
def kafka() -> MockKafka:
    made = MockKafka()
    for value in range(RECORDS):
        made.append(ENCODE(value), value % PARTITIONS)
    return made


@pytest.fixture
def recorder(tmp_path: Path) -> TxnRecorder:
    raw = tmp_path / "history" / "raw"
    raw.mkdir(parents=True)
    identity = Identity(process=5, role="producer", run_id=RUN_ID, topic=TOPIC)
    return TxnRecorder(
        raw / "5.frames", identity, values_of=values_of, decode=decoder(run_id=RUN_ID)
    )


@pytest.fixture
def consumer(kafka: MockKafka, recorder: TxnRecorder) -> TxnConsumer:
    config = {
        **consumer_config("read_committed"), "bootstrap.servers": kafka.bootstrap,
        "group.id": GROUP, "log_level": 0,
    }  # fmt: skip
    return TxnConsumer(config, recorder, topic=TOPIC, partitions=PARTITIONS)


def polls_all(consumer: TxnConsumer, recorder: TxnRecorder) -> None:
    recorder.begin()

    def enough() -> bool:
        consumer.take()
        return len(consumer._given) >= RECORDS

    wait_until(enough, timeout_s=120, what="all records", interval_s=0.01)


def events(recorder: TxnRecorder, folder: Path) -> list[dict[str, Any]]:
    recorder.close(used=0)
    seal(folder)
    return list(pq.read_table(folder / "history" / "event").to_pylist())


def told(rows: list[dict[str, Any]], f: str) -> list[tuple[int, int | None]]:
    return sorted((row["partition"], row["offset"]) for row in rows if row["f"] == f)


def always() -> bool:
    return True


def test_what_the_coordinator_knows_to_be_committed_was_consumed(
    kafka: MockKafka, consumer: TxnConsumer, recorder: TxnRecorder, tmp_path: Path
) -> None:
    polls_all(consumer, recorder)
    resolved: list[bool] = []
    ends = [TopicPartition(TOPIC, p, RECORDS // PARTITIONS) for p in range(PARTITIONS)]

    def resolve() -> None:
        resolved.append(True)
        other = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": GROUP})
        other.commit(offsets=ends, asynchronous=False)
        other.close()

    recorder.end(OpType.INFO, committing=True)
    consumer.settle(OpType.INFO, resolve=resolve, go_on=always)

    rows = events(recorder, tmp_path)
    assert resolved
    assert told(rows, "processed") == sorted(PLACES)
    assert told(rows, "committed") == [], "nobody was told of a commit"
    assert told(rows, "offset-fetch") == [(p, RECORDS // PARTITIONS) for p in range(PARTITIONS)]
    assert told(rows, "seek") == [(p, RECORDS // PARTITIONS) for p in range(PARTITIONS)]


def test_what_it_does_not_know_is_polled_again(
    consumer: TxnConsumer, recorder: TxnRecorder, tmp_path: Path
) -> None:
    polls_all(consumer, recorder)
    recorder.end(OpType.INFO, committing=True)

    consumer.settle(OpType.INFO, resolve=lambda: None, go_on=always)
    polls_all(consumer, recorder)
    recorder.end(OpType.OK, committing=True)
    consumer.settle(OpType.OK, resolve=lambda: None, go_on=always)

    rows = events(recorder, tmp_path)
    assert told(rows, "offset-fetch") == [(p, None) for p in range(PARTITIONS)]
    assert told(rows, "seek") == [(p, None) for p in range(PARTITIONS)]
    assert told(rows, "processed") == sorted(PLACES)
    assert told(rows, "committed") == [(p, RECORDS // PARTITIONS) for p in range(PARTITIONS)]


def test_where_nobody_answers_it_goes_back_and_has_consumed_nothing(
    consumer: TxnConsumer, recorder: TxnRecorder, tmp_path: Path
) -> None:
    polls_all(consumer, recorder)
    recorder.end(OpType.INFO, committing=True)

    consumer.settle(OpType.INFO, resolve=lambda: None, go_on=lambda: False)

    rows = events(recorder, tmp_path)
    assert told(rows, "processed") == []
    assert told(rows, "offset-fetch") == []
    assert told(rows, "seek") == [(p, None) for p in range(PARTITIONS)]
