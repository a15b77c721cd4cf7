"""What no client library would send to a real broker is found: on its disk, or by its count."""

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
from tests.batches import transactional, v2, value_of
from workloads.transactional import Transactional

pytestmark = [pytest.mark.docker, pytest.mark.nightly]

PRODUCER_ID = 987_654
_PRODUCE, _VERSION, _ALL_REPLICAS, _LIMIT_MS = 0, 3, -1, 10_000
_CORRUPT_MESSAGE = 2


@fault("hanging_transaction_test")
@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """Append a transactional batch that no coordinator knows of: KIP-890's late request."""

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        batch = transactional(0, [value_of(999, 0)], producer=PRODUCER_ID)
        return _sent(cluster, victims, batch, error=0)

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        return Evidence("heal", observed=True)


@fault("corrupt_batch_test")
@dataclass(frozen=True, slots=True)
class CorruptBatch:
    """Send a batch of which a byte was changed after its checksum was computed: KAFKA-19012."""

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        batch = bytearray(v2(0, [value_of(999, 0)]))
        batch[-1] ^= 1
        return _sent(cluster, victims, bytes(batch), error=_CORRUPT_MESSAGE)

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        return Evidence("heal", observed=True)


def _sent(cluster: Cluster, victims: Sequence[Broker], batch: bytes, *, error: int) -> Evidence:
    """Send a batch to a leader, and tell whether it answers as it should."""
    (leader,) = victims
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    at = admin.list_topics(timeout=30).brokers[leader.node_id]
    told = produce((str(at.host), at.port), "orders", 0, batch)
    return Evidence("inject", observed=told == error, details={"error": told})


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


def test_a_batch_that_a_broker_refused_for_its_checksum_is_found(
    request: pytest.FixtureRequest,
) -> None:
    step = Step(at_s=5.0, fault=CorruptBatch(), target=LeaderOf("orders", 0), hold_s=1.0)
    scenario = replace(SCENARIOS["mixed"](), schedule=Script(script=(step,)), duration_s=10)

    outcome = run(scenario, seed=7, store=request.config.getoption("--chaos-store"))

    told = (outcome.run_dir.path / "verdict.json").read_text()
    found = json.loads(told)["anomalies"]
    assert outcome.verdict is Verdict.INVALID, told
    assert {name: found[name]["count"] for name in found} == {"corrupt-batch": 1}, told
