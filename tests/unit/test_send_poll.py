import json
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.workload import WORKLOADS
from workloads.client_config import consumer_config, producer_config, subscriber_config
from workloads.consumer_group import ConsumerGroup
from workloads.send_poll import SendPoll
from workloads.transactional import Transactional


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"producers": 0},
        {"producers": 101},
        {"consumers": -1},
        {"subscribers": 101},
        {"rate_per_s": -1},
        {"record_size_bytes": 27},
        {"record_size_bytes": 2_000_000},
        {"read_stall_s": 0},
        {"partitioning": "by_colour"},
        {"compression": "zip"},
        {"keyed": True, "partitioning": "sticky"},
        {"headers": -1},
        {"headers": 101},
        {"quiet_s": -1},
        {"producer_life_s": -1},
        {"producer_life_s": 0.5},
        {"quiet_s": 3, "partitioning": "sticky"},
        {"quiet_s": 3, "keyed": True},
        {"seek_s": -1},
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SendPoll(**wrong)


@pytest.mark.parametrize(
    ("partitions", "producers", "shares"),
    [(10, 4, [(0, 2), (2, 3), (5, 2), (7, 3)]), (2, 3, [(0, 1), (1, 1), (0, 1)])],
)
def test_producers_with_partitions_of_their_own_share_all_of_them_out(
    partitions: int, producers: int, shares: list[tuple[int, int]]
) -> None:
    workload = SendPoll(
        partitions=partitions, producers=producers, consumers=0, subscribers=0, own_partitions=True
    )

    settings = [client.settings for client in workload.clients(Contract())]

    assert [(s["first_partition"], s["partitions"]) for s in settings] == shares


def test_a_partitioner_chooses_among_all_partitions() -> None:
    workload = SendPoll(consumers=0, subscribers=0, own_partitions=True, partitioning="hash")

    for client in workload.clients(Contract()):
        assert client.settings["partitions"] == 3
        assert "first_partition" not in client.settings


def test_the_workload_is_registered_under_its_name() -> None:
    assert WORKLOADS["send_poll"] is SendPoll


def test_the_topic_keeps_what_the_contract_says() -> None:
    (topic,) = SendPoll(partitions=6).topics(Contract(min_isr=1, unclean_election=True))

    assert (topic.name, topic.partitions, topic.replication_factor) == ("orders", 6, 3)
    assert dict(topic.config) == {
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }


def test_every_client_has_a_process_number_of_its_own_and_settings_in_json() -> None:
    workload = SendPoll(producers=3, consumers=2, subscribers=2)
    clients = [*workload.clients(Contract()), *workload.readers(Contract())]

    assert [client.process for client in clients] == [0, 1, 2, 100, 101, 200, 201, 300, 301]
    assert all(json.loads(json.dumps(client.settings)) == client.settings for client in clients)


def test_the_rate_is_shared_among_the_producers() -> None:
    clients = SendPoll(producers=4, rate_per_s=1000).clients(Contract())

    assert [c.settings["rate_per_s"] for c in clients if c.role == "producer"] == [250] * 4


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_the_readers_share_out_every_partition(partitions: int) -> None:
    readers = SendPoll(partitions=partitions).readers(Contract())

    assert len(readers) == min(2, partitions)
    assert sorted(p for r in readers for p in r.settings["partitions"]) == list(range(partitions))


@pytest.mark.parametrize(
    "contract",
    [
        Contract(),
        Contract(acks="0"),
        Contract(acks="1", retries=0, linger_ms=0),
        Contract(acks="all", idempotence=False, max_in_flight=20, retries=3),
        Contract(delivery_timeout_ms=1000),
    ],
)
def test_librdkafka_accepts_the_settings_of_every_contract(contract: Contract) -> None:
    Producer(producer_config(contract))


def test_librdkafka_accepts_the_settings_of_consumers() -> None:
    Consumer({**consumer_config("read_committed"), "group.id": "g"}).close()
    Consumer(dict(subscriber_config("read_uncommitted", group="g"))).close()


def test_the_contract_decides_acks_and_idempotence() -> None:
    promised = producer_config(Contract(acks="1", retries=7, batch_size_bytes=1234))

    assert promised["acks"] == "1"
    assert promised["enable.idempotence"] is False
    assert promised["retries"] == 7
    assert promised["batch.size"] == 1234


@pytest.mark.parametrize(
    "other",
    [
        Transactional(topic="t", partitions=4, consumers=3, compression="lz4", read_limit_s=9),
        ConsumerGroup(topic="t", partitions=4, consumers=3, compression="lz4", read_limit_s=9),
    ],
)
def test_the_plain_workload_takes_over_what_it_has_too(other: object) -> None:
    assert SendPoll.like(other, subscribers=2, producers=1, seek_s=1.5, rate_per_s=7) == SendPoll(
        topic="t", partitions=4, consumers=3, compression="lz4", read_limit_s=9,
        subscribers=2, producers=1, seek_s=1.5, rate_per_s=7,
    )  # fmt: skip


def test_what_is_taken_over_is_bounded_alike() -> None:
    with pytest.raises(UsageError, match="0 partitions"):
        SendPoll.like(SimpleNamespace(partitions=0))
