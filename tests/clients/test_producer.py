from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from harness.core.contract import Contract
from harness.history.format import read_frames
from harness.history.seal import seal
from tests.clients.mock_kafka import PARTITIONS, RUN_ID, TOPIC, Run, mock_run
from workloads.client_config import producer_config
from workloads.producer import _CATCH_UP_S as CATCH_UP_S
from workloads.producer import Pace, ProducerSettings, SendingProducer
from workloads.send_poll import SendPoll

WORKLOAD = SendPoll(partitions=PARTITIONS, producers=1, consumers=0, subscribers=0, rate_per_s=2000)
(PRODUCER,) = WORKLOAD.clients(Contract())


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        yield made


def read_finally(run: Run) -> set[tuple[int, int, int]]:
    readers = [run.start(spec) for spec in WORKLOAD.readers(Contract())]
    assert [reader.process.wait(120) for reader in readers] == [0, 0]
    seal(run.folder)
    assert all(end["complete"] for end in run.ends())
    return {(row["partition"], row["offset"], row["value"]) for row in run.rows("final")}


def test_a_producer_told_to_stop_knows_the_fate_of_every_record(run: Run) -> None:
    producer = run.start(PRODUCER)
    producer.await_total("ok", 100)

    assert producer.stop() == 0

    final = read_finally(run)
    sends = run.rows("send")
    assert {row["type"] for row in sends} == {"ok"}
    assert [row["op"] for row in sends] != []
    assert sorted(row["op"] for row in sends) == list(range(len(sends)))
    assert {(row["partition"], row["offset"], row["value"]) for row in sends} == final
    assert {row["partition"] for row in sends} == set(range(PARTITIONS))
    assert all(row["invoke_ns"] < row["complete_ns"] for row in sends)
    assert producer.progress()[-1] == {"done": True}
    assert producer.progress()[-2]["ok"] == len(sends)


def test_nothing_of_a_killed_producer_is_unaccounted_for(run: Run) -> None:
    # Slower than it could: librdkafka's mock cluster keeps 5 MB a partition, and then forgets.
    producer = run.start(PRODUCER, rate_per_s=5000)
    producer.await_total("ok", 1000)

    producer.process.kill()
    producer.process.wait(120)

    final = read_finally(run)
    sends = run.rows("send")
    assert {value for _, _, value in final} <= {row["value"] for row in sends}
    acked = [row for row in sends if row["type"] == "ok"]
    assert {(row["partition"], row["offset"], row["value"]) for row in acked} <= final
    assert {row["type"] for row in sends} == {"ok", "info"}
    assert "crash" in {event["f"] for event in run.rows("event") if event["process"] == 0}


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_each_partition_is_quiet_in_its_turn(run: Run, partitions: int) -> None:
    producer = run.start(PRODUCER, rate_per_s=500, partitions=partitions, quiet_s=0.4)
    # Two rounds: what is quiet first, or last, has no record on one side.
    producer.await_total("ok", 2 * max(2, partitions) * 200)

    assert producer.stop() == 0

    seal(run.folder)
    sends = run.rows("send")
    assert {row["type"] for row in sends} == {"ok"}
    for partition in range(partitions):
        times = sorted(row["invoke_ns"] for row in sends if row["partition"] == partition)
        quiet_ns, last = max((later - earlier, earlier) for earlier, later in pairwise(times))
        assert quiet_ns >= 0.35e9
        meanwhile = {row["partition"] for row in sends if last < row["invoke_ns"] < last + quiet_ns}
        assert bool(meanwhile) is (partitions > 1)


def test_a_producer_whose_harness_died_ends_by_itself(run: Run) -> None:
    producer = run.start(PRODUCER)
    producer.await_total("ok", 1)

    producer.stdin.close()

    assert producer.process.wait(120) == 0
    seal(run.folder)
    assert "close" in {event["f"] for event in run.rows("event")}


def test_records_that_cannot_be_delivered_are_in_doubt(run: Run) -> None:
    config = {**PRODUCER.settings["config"], "delivery.timeout.ms": 500, "request.timeout.ms": 100}
    producer = run.start(PRODUCER, bootstrap="127.0.0.1:9", config=config)

    producer.await_total("info", 10)
    producer.stop()

    seal(run.folder)
    sends = run.rows("send")
    assert {(row["type"], row["error"]) for row in sends} == {("info", "_MSG_TIMED_OUT")}
    assert all(row["offset"] is None and row["invoke_ns"] for row in sends)
    assert "error" in {event["f"] for event in run.rows("event")}


def test_a_record_that_librdkafka_does_not_take_has_failed(run: Run) -> None:
    config = {**PRODUCER.settings["config"], "message.max.bytes": 1000}
    producer = run.start(PRODUCER, record_size_bytes=2000, rate_per_s=100, config=config)

    producer.await_total("fail", 10)
    producer.stop()

    seal(run.folder)
    assert {(row["type"], row["error"]) for row in run.rows("send")} == {
        ("fail", "MSG_SIZE_TOO_LARGE")
    }


def test_a_full_queue_loses_no_record_and_uses_no_number_twice(run: Run) -> None:
    config = {**PRODUCER.settings["config"], "queue.buffering.max.messages": 100}
    producer = run.start(PRODUCER, rate_per_s=20_000, config=config)
    producer.await_total("ok", 2000)

    assert producer.stop() == 0

    final = read_finally(run)
    assert {row["value"] for row in run.rows("send")} == {value for _, _, value in final}


def test_a_producer_is_never_ahead_of_its_rate(run: Run) -> None:
    producer = run.start(PRODUCER, rate_per_s=400)
    producer.await_total("ok", 600)

    producer.stop()

    seal(run.folder)
    times = sorted(row["invoke_ns"] for row in run.rows("send"))
    seconds = (times[-1] - times[0]) / 1e9
    # A burst after a stall makes up for a second at the most, however busy the machine is.
    assert len(times) <= 400 * (seconds + CATCH_UP_S) + 1


def test_a_rate_is_kept_and_a_short_stall_made_up_for(instant_time: list[float]) -> None:
    pace, total = Pace(400), 0

    def all_due() -> int:
        nonlocal total
        while count := pace.due()[0]:
            pace.sent(count)
            total += count
        return total

    assert all_due() == 1
    for tick in range(1, 101):
        instant_time[0] = 1000.0 + tick * 0.01
        assert all_due() == pytest.approx(1 + tick * 4, abs=1)
    instant_time[0] += 0.5
    assert all_due() == pytest.approx(1 + 400 + 200, abs=1)
    instant_time[0] += 10 * CATCH_UP_S
    assert all_due() == pytest.approx(1 + 400 + 200 + 1, abs=1)


def test_a_keyed_producer_leaves_the_choice_to_the_partitioner(run: Run) -> None:
    producer = run.start(PRODUCER, keyed=True)
    producer.await_total("ok", 100)
    producer.stop()

    seal(run.folder)

    assert {row["partition"] for row in run.rows("send")} == set(range(PARTITIONS))


def test_a_sticky_producer_stays_with_a_partition_for_a_while(tmp_path: Path) -> None:
    config = {**PRODUCER.settings["config"], "sticky.partitioning.linger.ms": 400}
    # One broker, and only what was sent after its first answer: librdkafka leaves partitions of
    # brokers that it is not connected to at once, not after the linger.
    with mock_run(tmp_path, brokers=1) as run:
        producer = run.start(PRODUCER, sticky=True, config=config)
        producer.await_total("ok", 2000)
        producer.stop()

    seal(run.folder)

    rows = run.rows("send")
    connected_ns = min(row["complete_ns"] for row in rows)
    sends = sorted(
        (row for row in rows if row["invoke_ns"] > connected_ns), key=lambda row: row["op"]
    )
    moves = sum(a["partition"] != b["partition"] for a, b in pairwise(sends))
    seconds = (sends[-1]["complete_ns"] - sends[0]["invoke_ns"]) / 1e9
    assert moves <= seconds / 0.4 + 1 < len(sends) / 10


def test_records_carry_headers_and_are_compressed(run: Run) -> None:
    workload = SendPoll(
        partitions=PARTITIONS, producers=1, consumers=0, subscribers=0, rate_per_s=200,
        compression="lz4", headers=3, record_size_bytes=10_000,
    )  # fmt: skip
    (spec,) = workload.clients(Contract())
    producer = run.start(spec)
    producer.await_total("ok", 20)

    assert producer.stop() == 0

    final = read_finally(run)
    assert {row["value"] for row in run.rows("send")} == {value for _, _, value in final}
    assert {row["problem"] for row in run.rows("final")} == {None}
    consumer = Consumer({"bootstrap.servers": run.kafka.bootstrap, "group.id": "headers"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    (message,) = consumer.consume(1, 120)
    consumer.close()
    headers: Any = message.headers()
    assert [name for name, _ in headers] == ["header-0", "header-1", "header-2"]


def test_wrong_settings_end_with_one_sentence_and_exit_code_2(run: Run) -> None:
    producer = run.start(PRODUCER, topic=7)

    assert producer.process.wait(120) == 2

    assert "'topic' is 7 and should be a str" in (run.folder / "0.log").read_text()


def here(bootstrap: str, folder: Path, *, life_s: float = 0.0, **config: Any) -> SendingProducer:
    """Return a producer in this process."""
    settings = ProducerSettings(
        run_id=RUN_ID, seed=7, process=9, history=str(folder / "9.frames"),
        bootstrap=bootstrap, topic=TOPIC, partitions=1, record_size_bytes=100, life_s=life_s,
        single_attempt=False, flush_s=5.0,
        config={**producer_config(Contract()), "log_level": 0, **config},
    )  # fmt: skip
    return SendingProducer(settings)


def rows_here(folder: Path, table: bytes) -> list[dict[str, Any]]:
    """Return what was written of a producer in this process."""
    return [
        row
        for _, batch in read_frames(folder / "9.frames")
        if (batch.schema.metadata or {}).get(b"table") == table
        for row in batch.to_pylist()
    ]


def test_a_producer_whose_time_is_over_is_replaced_when_its_records_are_sent(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.producer._RENEWED_WITHIN_S", 60.0)
    producer = here(run.kafka.bootstrap, tmp_path, life_s=1e-9)
    first = producer._producer
    assert producer.send(50) == 50

    producer.poll(0.0)

    second = producer._producer
    assert second is not first
    assert len(producer.recorder.pending) == 0
    assert producer.send(50) == 50
    producer.drain(lambda: 60.0)
    producer.recorder.close(used=producer.used)
    events = rows_here(tmp_path, b"event")
    assert not [event for event in events if event["f"] == "error"]
    sends = rows_here(tmp_path, b"send")
    assert len(sends) == 100
    offsets = [row["offset"] for row in sorted(sends, key=lambda row: row["value"])]
    assert offsets == sorted(offsets)


def test_a_producer_that_does_not_get_rid_of_its_records_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.producer._RENEWED_WITHIN_S", 0.05)
    producer = here("127.0.0.1:9", tmp_path, life_s=1e-9)
    first = producer._producer
    producer.send(1)

    producer.poll(0.0)

    assert producer._producer is first
    assert len(producer.recorder.pending) == 1


def test_the_order_of_sends_is_not_promised_across_a_new_producer_if_one_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.producer._RENEWED_WITHIN_S", 60.0)
    config = {"delivery.timeout.ms": 300, "request.timeout.ms": 100}
    producer = here("127.0.0.1:9", tmp_path, life_s=1e-9, **config)
    first = producer._producer
    producer.send(3)

    producer.poll(0.0)

    assert producer._producer is not first
    producer.recorder.close(used=producer.used)
    renewed = [event for event in rows_here(tmp_path, b"event") if event["op"] is not None]
    assert [(event["f"], event["op"]) for event in renewed if event["f"] == "error"] == [
        ("error", 3)
    ]


def test_a_fatal_error_raised_from_a_poll_replaces_the_producer(run: Run, tmp_path: Path) -> None:
    producer = here(run.kafka.bootstrap, tmp_path)
    recorder = producer.recorder
    producer.send(3)
    dying = producer._producer

    class Dying:
        """Raises as librdkafka's binding does: once, from poll."""

        def poll(self, _: float) -> int:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of order sequence", True))

        def __getattr__(self, name: str) -> object:
            return getattr(dying, name)

    producer._producer = Dying()  # type: ignore[assignment]
    producer.poll(0.0)

    assert not isinstance(producer._producer, Dying)
    assert producer.send(2) == 2
    producer.drain(lambda: 5.0)
    recorder.close(used=producer.used)
    assert len(recorder.pending) == 0
    told = [row["detail"] for row in rows_here(tmp_path, b"event") if row["f"] == "fatal"]
    assert told == ["_FATAL: out of order sequence"]
