import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.workload import WORKLOADS, Transacting
from workloads.transactional import Transactional


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"producers": 0},
        {"producers": 51},
        {"transformers": -1},
        {"uncommitted": 51},
        {"rate_per_s": -1},
        {"record_size_bytes": 27},
        {"most_sends": 0},
        {"abort_share": -0.1},
        {"abort_share": 0.6, "takeover_share": 0.5},
        {"timeout_s": 0.5},
        {"timeout_s": 901},
        {"think_s": -1},
        {"think_s": 101, "timeout_s": 10},
    ],
)
def test_a_workload_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Transactional(**wrong)


def test_the_workload_is_registered_under_its_name() -> None:
    assert WORKLOADS["transactional"] is Transactional


def test_the_transactional_ids_are_those_of_the_clients() -> None:
    workload = Transactional(producers=2, transformers=1)

    clients = [c for c in workload.clients(Contract()) if c.role == "producer"]
    assert isinstance(workload, Transacting)
    assert tuple(c.settings["transactional_id"] for c in clients) == workload.transactional_ids
    assert len(set(workload.transactional_ids)) == 3


def test_every_client_has_a_process_number_of_its_own_and_settings_in_json() -> None:
    workload = Transactional(producers=2, transformers=2, consumers=2, uncommitted=2)
    clients = [*workload.clients(Contract()), *workload.readers(Contract())]

    numbers = [client.process for client in clients]
    assert numbers == [0, 1, 2, 3, 100, 101, 150, 151, 200, 300, 301]
    assert all(json.loads(json.dumps(client.settings)) == client.settings for client in clients)
    ids = {client.settings["transactional_id"] for client in clients[:4]}
    assert len(ids) == 4


def test_only_the_final_read_and_those_who_say_so_are_kept_from_what_is_aborted() -> None:
    workload = Transactional(consumers=1, uncommitted=1, subscribers=1)
    clients = [*workload.clients(Contract()), *workload.readers(Contract())]

    levels = {
        client.process: client.settings["config"]["isolation.level"]
        for client in clients
        if client.role != "producer"
    }
    assert levels == {
        100: "read_committed", 150: "read_uncommitted", 200: "read_committed",
        300: "read_committed", 301: "read_committed",
    }  # fmt: skip


@pytest.mark.parametrize("contract", [Contract(), Contract(delivery_timeout_ms=20_000)])
def test_librdkafka_takes_the_settings(contract: Contract) -> None:
    first, *others = Transactional().clients(contract)

    Producer(
        {
            **first.settings["config"],
            "transactional.id": "one",
            "transaction.timeout.ms": int(first.settings["timeout_s"] * 1000),
        }
    )
    for client in others:
        if client.role == "consumer":
            Consumer({"group.id": "unused", **client.settings["config"]}).close()


def test_the_rate_is_shared_among_all_who_send() -> None:
    clients = Transactional(producers=3, transformers=1, rate_per_s=200).clients(Contract())

    assert [client.settings["rate_per_s"] for client in clients[:4]] == [50, 50, 50, 50]
