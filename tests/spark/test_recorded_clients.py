"""Verdicts on what clients of a mock cluster did, and on records that a program tells of."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from harness.core.contract import Contract
from harness.core.verdict import Verdict
from harness.core.wait import wait_until
from kafka_chaos import Read, Recorder, Sent, verify
from tests.clients.mock_kafka import PARTITIONS, TOPIC, MockKafka
from verifiers.ops.judgement import HistoryVerdict


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of three producers, all of whose records were read; one heard of no delivery."""
    kafka, path = MockKafka(), tmp_path_factory.mktemp("recorded") / "history.jsonl"
    config = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    with Recorder(path, process=1) as recorder:
        for _ in range(2):
            producer = recorder.producer(Producer(config))
            for number in range(30):
                producer.produce(TOPIC, b"payload", key=str(number))
            assert producer.flush(120) == 0
        in_doubt = recorder.producer(Producer(config))
        in_doubt.produce(TOPIC, b"delivered, and nobody asks")
        wait_until(lambda: _records(kafka) == 61, timeout_s=120, what="all records")
        recorder.read_all(config, TOPIC)
        verdict = recorder.verify(master="local[2]")
    assert verdict.verdict is Verdict.VALID, verdict.reasons
    counts = verdict.to_json()["counts"]
    assert (counts["acked"], counts["indeterminate"], counts["read"]) == (60, PARTITIONS, 61)
    return path


def _records(kafka: MockKafka) -> int:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "counts"})
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, timeout=120)[1] for place in places]
    consumer.close()
    return sum(ends)


def test_a_record_that_is_missing_from_the_reads_of_a_history_is_lost(
    recorded: Path, tmp_path: Path
) -> None:
    events = [json.loads(line) for line in recorded.read_text().splitlines()]
    polled = [
        records
        for event in events
        if event["f"] == "poll" and event["type"] == "ok"
        for records in event["value"][0][1].values()
    ]
    longest = max(polled, key=len)
    # Not the last, so that something is known to lie behind it.
    del longest[len(longest) // 2]
    path = tmp_path / "lossy.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))

    verdict = verify(path, master="local[2]")

    assert verdict.verdict is Verdict.INVALID
    assert verdict.anomalies["lost-write"].count == 1
    assert not verdict.anomalies["lost-write"].permitted


def test_records_are_judged_by_the_contract(spark: SparkSession) -> None:
    """A leader died: b was acknowledged at offset 1, which the next leader gave to c."""
    sent = [
        Sent(topic="t", partition=0, offset=offset, value=value)
        for offset, value in ((0, b"a"), (1, b"b"), (1, b"c"), (2, b"d"))
    ]
    read = [
        Read(topic="t", partition=0, offset=offset, value=value)
        for offset, value in enumerate((b"a", b"c", b"d"))
    ]

    def judged(contract: Contract | None) -> HistoryVerdict:
        verdict = verify(sent=sent, read=read, contract=contract, master="local[2]")
        assert isinstance(verdict, HistoryVerdict)
        assert set(verdict.anomalies) == {"lost-write", "inconsistent-offsets", "unseen"}
        return verdict

    whole, leader = judged(Contract()), judged(Contract(acks="1", retries=0))

    assert whole.verdict is Verdict.INVALID
    (lost,) = whole.to_json()["anomalies"]["lost-write"]["examples"]
    assert lost["record"] == "b'b'"
    assert all(finding.permitted for finding in leader.anomalies.values())
    assert leader.to_json()["options"]["contract"]["acks"] == "1"
    # Permitted, and yet nobody knows whether any damage explains it.
    assert leader.verdict is Verdict.UNKNOWN
    assert leader.reasons == leader.adequacy["losses-explained"].reasons


def test_what_was_read_by_two_consumers_decides_what_a_lost_offset_is(spark: SparkSession) -> None:
    """B was not only acknowledged but read, and then gone: acks=1 does not permit that."""
    sent = [Sent(topic="t", partition=0, offset=n, value=v) for n, v in ((0, "a"), (1, "b"))]
    sent += [Sent(topic="t", partition=0, offset=1, value="c", producer="another")]
    read = [Read(topic="t", partition=0, offset=n, value=v, consumer="x") for n, v in
            ((0, "a"), (1, "b"))]  # fmt: skip
    read += [Read(topic="t", partition=0, offset=n, value=v, consumer="y") for n, v in
             ((0, "a"), (1, "c"))]  # fmt: skip

    verdict = verify(sent=sent, read=read, contract=Contract(acks="1"), master="local[2]")

    assert verdict.verdict is Verdict.INVALID
    assert not verdict.anomalies["inconsistent-offsets"].permitted


def test_a_reversed_pair_of_which_one_was_lost_is_of_its_own_kind(spark: SparkSession) -> None:
    """An unclean election cut off b, and c got a lower offset than b had."""
    sent = [
        Sent(topic="t", partition=0, offset=offset, value=value)
        for offset, value in ((0, "a"), (3, "b"), (1, "c"), (2, "d"))
    ]
    read = [
        Read(topic="t", partition=0, offset=offset, value=value)
        for offset, value in enumerate(("a", "c", "d"))
    ]
    unclean = Contract(unclean_election=True)

    verdict = verify(sent=sent, read=read, contract=unclean, master="local[2]")

    assert verdict.anomalies["nonmonotonic-send"].permitted
    assert verdict.verdict is Verdict.UNKNOWN, verdict.reasons
