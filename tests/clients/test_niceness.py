"""Producers that never pause give way to the brokers on their machine; others do not."""

import os
from pathlib import Path

import pytest

from harness.core.contract import Contract
from harness.core.wait import wait_until
from harness.core.workload import ClientSpec
from tests.clients import test_scripted_producer
from tests.clients.mock_kafka import PARTITIONS, mock_run
from workloads.client_config import PRODUCER_NICENESS
from workloads.send_poll import SendPoll
from workloads.transactional import Transactional

READ_AND_WRITTEN = SendPoll(partitions=PARTITIONS, producers=1, consumers=1, subscribers=0)
PRODUCER, CONSUMER = READ_AND_WRITTEN.clients(Contract())
TRANSACTOR = Transactional(partitions=PARTITIONS, producers=1).clients(Contract())[0]


@pytest.mark.parametrize(
    ("spec", "niceness"),
    [
        (PRODUCER, PRODUCER_NICENESS),
        (TRANSACTOR, PRODUCER_NICENESS),
        # A script says when it sends, and waits for the answer.
        (test_scripted_producer.SPEC, 0),
        (CONSUMER, 0),
    ],
    ids=lambda given: given.module if isinstance(given, ClientSpec) else None,
)
def test_producers_under_load_give_way(tmp_path: Path, spec: ClientSpec, niceness: int) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with mock_run(tmp_path) as run:
        client = run.start(spec)
        # It says its library once it has set itself up.
        wait_until(client.progress, timeout_s=120, what="a client's first line")

        assert os.getpriority(os.PRIO_PROCESS, client.process.pid) == own + niceness
