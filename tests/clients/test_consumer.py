from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.history.recorder import Identity, Recorder
from harness.history.seal import seal
from tests.clients.mock_kafka import PARTITIONS, RUN_ID, TOPIC, Run, mock_run
from workloads.consumer import RecordingConsumer
from workloads.record import decoder, encoder
from workloads.send_poll import SendPoll

WORKLOAD = SendPoll(partitions=PARTITIONS, producers=1, consumers=1, subscribers=1)
PRODUCING, ASSIGNED, SUBSCRIBED = WORKLOAD.clients(Contract())
ENCODE = encoder(run_id=RUN_ID, topic=TOPIC, size_bytes=100)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        for value in range(8):
            made.kafka.append(ENCODE(value), value % PARTITIONS)
        yield made


def test_a_consumer_records_every_record_it_is_given(run: Run) -> None:
    consumer = run.start(ASSIGNED)
    consumer.await_total("polled", 8)
    run.kafka.append(ENCODE(8), 0)
    consumer.await_total("polled", 9)

    assert consumer.stop() == 0

    seal(run.folder)
    polls = run.rows("poll")
    placed = {(row["partition"], row["offset"]): row["value"] for row in polls}
    assert placed == {(value % PARTITIONS, value // PARTITIONS): value for value in range(9)}
    assert {row["problem"] for row in polls} == {None}
    events = [(row["f"], row["partition"]) for row in run.rows("event")]
    assert events == [("start", None), *(("assign", p) for p in range(PARTITIONS)), ("close", None)]


def test_records_that_are_none_of_ours_are_recorded_with_their_problem(run: Run) -> None:
    run.kafka.append(b"from somebody else", 0)
    run.kafka.append(None, 1)
    consumer = run.start(ASSIGNED)
    consumer.await_total("polled", 10)

    consumer.stop()

    seal(run.folder)
    odd = [row for row in run.rows("poll") if row["problem"]]
    assert {(row["partition"], row["offset"], row["value"]) for row in odd} == {
        (0, 2, None),
        (1, 2, None),
    }
    assert {row["problem"] for row in odd} == {"format"}


def test_a_subscriber_records_which_partitions_came_and_went_during_which_poll(run: Run) -> None:
    consumer = run.start(SUBSCRIBED)
    consumer.await_total("polled", 8)

    assert consumer.stop() == 0

    seal(run.folder)
    moves = [row for row in run.rows("event") if row["f"] == "rebalance"]
    assigned = {row["partition"]: row["op"] for row in moves if row["detail"] == "assigned"}
    assert set(assigned) == set(range(PARTITIONS))
    assert all(row["op"] >= assigned[row["partition"]] for row in run.rows("poll"))
    assert {row["partition"] for row in moves if row["detail"] == "revoked"} == set(assigned)


def test_a_consumer_whose_place_is_gone_seeks_and_says_so(run: Run) -> None:
    recorder = Recorder(
        run.folder / "history" / "raw" / "100.frames",
        Identity(process=100, role="consumer", run_id=RUN_ID),
        decode=decoder(run_id=RUN_ID),
    )
    config = {
        **ASSIGNED.settings["config"],
        "bootstrap.servers": run.kafka.bootstrap,
        "group.id": "unused",
    }
    consumer = RecordingConsumer(config, recorder, TOPIC)
    consumer.assign(list(range(PARTITIONS)), offset=1000)

    polls = 0
    while recorder.polled_count < 8 and polls < 100:
        consumer.poll()
        recorder.flush()
        polls += 1
    recorder.close()
    consumer.close()

    seal(run.folder)
    events = run.rows("event")
    lost = {row["partition"] for row in events if row["f"] == "error"} - {None}
    assert lost == set(range(PARTITIONS))
    seeks = {(row["partition"], row["offset"]) for row in events if row["f"] == "seek"}
    assert seeks == {(partition, 0) for partition in range(PARTITIONS)}
    assert {row["value"] for row in run.rows("poll")} == set(range(8))


def test_readers_read_every_partition_to_its_end(run: Run) -> None:
    readers = [run.start(spec) for spec in WORKLOAD.readers(Contract())]

    assert [reader.process.wait(120) for reader in readers] == [0, 0]

    seal(run.folder)
    assert {row["value"] for row in run.rows("final")} == set(range(8))
    whole = {"low": 0, "high": 2, "reached": 2, "log_end": -1, "complete": True}
    assert run.ends() == [{"topic": TOPIC, "partition": p, **whole} for p in range(PARTITIONS)]


def test_records_that_lie_there_and_may_not_be_read_keep_the_read_from_being_complete(
    run: Run,
) -> None:
    spec, _ = WORKLOAD.readers(Contract())
    first, second = spec.settings["partitions"]
    reader = run.start(spec, stall_s=1.0, log_ends={str(first): 5, str(second): 1})

    assert reader.process.wait(120) == 0

    seal(run.folder)
    hidden, shown = run.ends()
    assert (hidden["high"], hidden["reached"], hidden["complete"]) == (5, 2, False)
    assert (shown["high"], shown["reached"], shown["complete"]) == (2, 2, True)


def test_a_reader_that_cannot_ask_for_the_ends_says_that_it_did_not_get_there(run: Run) -> None:
    spec, _ = WORKLOAD.readers(Contract())
    reader = run.start(spec, bootstrap="127.0.0.1:9", limit_s=0.5, stall_s=0.5)

    assert reader.process.wait(120) == 0

    seal(run.folder)
    assert [(end["reached"], end["complete"]) for end in run.ends()] == [(-1, False), (-1, False)]


def test_a_consumer_whose_cluster_is_gone_still_ends_when_told(run: Run) -> None:
    consumer = run.start(SUBSCRIBED, bootstrap="127.0.0.1:9")
    consumer.await_total("t_ns", 1)

    assert consumer.stop() == 0


def test_a_consumer_told_to_seek_goes_back_and_says_where(run: Run) -> None:
    seeking = replace(WORKLOAD, seek_s=0.1, subscribers=0, consumers=1)
    (consumer_spec,) = (spec for spec in seeking.clients(Contract()) if spec.role == "consumer")
    producer = run.start(PRODUCING)
    producer.await_total("ok", 200)
    consumer = run.start(consumer_spec)
    consumer.await_total("polled", 600)

    assert (consumer.stop(), producer.stop()) == (0, 0)

    seal(run.folder)
    seeks = [event for event in run.rows("event") if event["f"] == "seek"]
    polls = [row for row in run.rows("poll") if row["process"] == consumer_spec.process]
    assert seeks
    for seek in seeks:
        before = [
            row["offset"]
            for row in polls
            if row["partition"] == seek["partition"] and row["time_ns"] <= seek["time_ns"]
        ]
        assert 0 <= seek["offset"] <= max(before)
    by_partition: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(polls, key=lambda row: (row["time_ns"], row["op"], row["position"])):
        by_partition.setdefault(row["partition"], []).append(row)
    for partition, rows in by_partition.items():
        for earlier, later in pairwise(rows):
            moved = any(
                seek["partition"] == partition
                and earlier["time_ns"] <= seek["time_ns"] <= later["time_ns"]
                for seek in seeks
            )
            assert moved or later["offset"] == earlier["offset"] + 1
