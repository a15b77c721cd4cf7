"""The producer of scripts: it obeys, and knows what became of each batch."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.contract import Contract
from harness.core.wait import wait_until
from harness.core.workload import ClientSpec
from harness.history.seal import seal
from tests.clients.mock_kafka import TOPIC, Run, RunningClient, mock_run
from workloads.client_config import producer_config

SPEC = ClientSpec(
    process=7,
    role="producer",
    module="workloads.scripted_producer",
    settings={
        "topic": TOPIC,
        "partitions": 1,
        "first_partition": 2,
        "record_size_bytes": 100,
        "single_attempt": False,
        "flush_s": 5.0,
        "config": producer_config(Contract()),
    },
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with mock_run(tmp_path) as made:
        yield made


def order(client: RunningClient, **what: Any) -> None:
    client.stdin.write(json.dumps(what).encode() + b"\n")
    client.stdin.flush()


def reply(client: RunningClient, number: int) -> dict[str, Any]:
    def answered() -> dict[str, Any] | None:
        return next((line for line in client.progress() if line.get("reply") == number), None)

    return wait_until(answered, timeout_s=120, what=f"the answer to order {number}")


def test_each_batch_is_answered_with_its_values_and_offsets(run: Run) -> None:
    producer = run.start(SPEC)

    order(producer, do="send", count=10, order=1)
    first = reply(producer, 1)
    order(producer, do="send", count=700, order=2)
    second = reply(producer, 2)

    begin = 7 << 40
    assert first["ok"] == [[begin, 0, 10]]
    assert second["ok"] == [[begin + 10, 10, 700]]
    assert first["fail"] == first["info"] == []
    assert producer.stop() == 0
    seal(run.folder)
    sends = run.rows("send")
    assert len(sends) == 710
    assert {row["partition"] for row in sends} == {2}
    assert {row["type"] for row in sends} == {"ok"}


def test_an_order_may_name_another_partition_than_the_producers_own(run: Run) -> None:
    producer = run.start(SPEC)

    order(producer, do="send", count=2, order=1)
    order(producer, do="send", count=2, partition=3, order=2)
    order(producer, do="send", count=2, order=3)
    for number in (1, 2, 3):
        reply(producer, number)

    assert producer.stop() == 0
    seal(run.folder)
    rows = sorted(run.rows("send"), key=lambda row: row["op"])
    assert [row["partition"] for row in rows] == [2, 2, 3, 3, 2, 2]


def test_a_flow_ends_when_it_is_halted_and_batches_may_come_between(run: Run) -> None:
    producer = run.start(SPEC)

    order(producer, do="flow", rate_per_s=500, order=1)
    producer.await_total("ok", 50)
    order(producer, do="send", count=5, order=2)
    between = reply(producer, 2)
    order(producer, do="halt", order=3)
    flowed = reply(producer, 3)

    assert sum(count for *_, count in between["ok"]) == 5
    inside = {first for first, _, _ in between["ok"]}
    assert not any(low <= value < low + n for low, _, n in flowed["ok"] for value in inside)
    assert producer.stop() == 0
    seal(run.folder)
    told = sum(count for *_, count in [*flowed["ok"], *between["ok"]])
    assert len(run.rows("send")) == told


def test_records_that_nobody_can_take_end_as_unknown(run: Run) -> None:
    config = producer_config(Contract(delivery_timeout_ms=1000))
    producer = run.start(SPEC, bootstrap="127.0.0.1:1", config=config)

    order(producer, do="send", count=3, order=1)
    answer = reply(producer, 1)

    assert answer["ok"] == []
    assert answer["info"] == [[7 << 40, 3]]
    assert answer["errors"] == {"_MSG_TIMED_OUT": 3}


def test_what_is_no_order_is_not_obeyed(run: Run) -> None:
    producer = run.start(SPEC)

    producer.stdin.write(b"send everything\n")
    order(producer, do="dance", order=1)

    assert "not understood" in reply(producer, 1)["error"]
    assert producer.stop() == 0
