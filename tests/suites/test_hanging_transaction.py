"""A transaction that hangs in a partition of a real broker is found on its disk."""

import json
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from confluent_kafka.admin import AdminClient

from faults.targets import LeaderOf
from harness.core.cluster import Broker, Cluster, ClusterSpec
from harness.core.fault import Evidence, fault
from harness.core.scenario import SCENARIOS, Step
from harness.core.schedule import Script
from harness.core.verdict import Verdict
from kafka_chaos import run
from tests.batches import transactional, value_of
from workloads.transactional import Transactional

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

PRODUCER_ID = 987_654
_PRODUCE, _VERSION, _ALL_REPLICAS, _LIMIT_MS = 0, 3, -1, 10_000


@fault("hanging_transaction_test")
@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """Append a transactional batch that no coordinator knows of: KIP-890's late request."""

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        (leader,) = victims
        batch = transactional(0, [value_of(999, 0)], producer=PRODUCER_ID)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        at = admin.list_topics(timeout=30).brokers[leader.node_id]
        error = produce((str(at.host), at.port), "orders", 0, batch)
        return Evidence("inject", observed=error == 0, details={"error": error})

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        return Evidence("heal", observed=True)


def produce(address: tuple[str, int], topic: str, partition: int, batch: bytes) -> int:
    """Send one produce request by hand, as no client library would; return its error code."""
    body = b"".join(
        (
            _string("late"), struct.pack(">hi", _ALL_REPLICAS, _LIMIT_MS),
            struct.pack(">i", 1), _string(topic),
            struct.pack(">ii", 1, partition), struct.pack(">i", len(batch)), batch,
        )
    )  # fmt: skip
    request = struct.pack(">hhi", _PRODUCE, _VERSION, 7) + _string("by-hand") + body
    with socket.create_connection(address, timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (length,) = struct.unpack(">i", answer.read(4))
            told = answer.read(length)
    # Correlation id, one topic with its name, one partition with its number, its error.
    error: int = struct.unpack_from(">h", told, 4 + 4 + 2 + len(topic) + 4 + 4)[0]
    return error


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def test_a_transaction_that_no_coordinator_ends_is_found(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # Nobody reads beyond it, so no reader comes to its end.
    monkeypatch.setattr("harness.run.runner._READERS_S", 20.0)
    monkeypatch.setattr("harness.run.scenario_run._READ_S", 1.0)
    step = Step(at_s=5.0, fault=HangingTransaction(), target=LeaderOf("orders", 0), hold_s=1.0)
    # Since KIP-890 brokers ask the coordinator first, unless they are told not to.
    cluster = ClusterSpec(config=(("transaction.partition.verification.enable", "false"),))
    scenario = replace(
        SCENARIOS["mixed"](), cluster=cluster, workload=Transactional(timeout_s=20),
        schedule=Script(script=(step,)), duration_s=20,
    )  # fmt: skip

    outcome = run(scenario, seed=7, store=request.config.getoption("--chaos-store"))

    told = (outcome.run_dir.path / "verdict.json").read_text()
    found = json.loads(told)["anomalies"]
    assert outcome.verdict is Verdict.INVALID, told
    assert found["hanging-transaction"]["kinds"] == {"forgotten": 1}, told
    # Its record is none of this run.
    expected = {"hanging-transaction", "corrupt-record"}
    assert {name for name in found if not found[name]["permitted"]} == expected, told
