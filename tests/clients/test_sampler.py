"""What the monitor and the sampler write down while a run goes on, and what they pass over."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cluster.admin import Admin
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.metadata import ReplicaEnd, Watermark
from harness.core.access import Access
from harness.core.cluster import Broker
from harness.core.errors import ClusterBroken
from harness.core.run_dir import Journal
from harness.core.view import Partition, PartitionState
from harness.core.wait import wait_until
from harness.run.monitor import Monitor
from harness.run.sampler import Sampler
from tests.clients.mock_kafka import TOPIC, MockKafka

WHOLE = PartitionState(leader=1, isr=(1, 2, 3), replicas=(1, 2, 3))
SMALL = PartitionState(leader=1, isr=(1,), replicas=(1, 2, 3))
ORDERS: Partition = ("orders", 0)


@dataclass
class Cluster:
    """Tells what it is given to tell."""

    counts: list[float | None] = field(default_factory=list)
    asked: list[tuple[int, str]] = field(default_factory=list)
    has_clock: bool = True
    brokers: tuple[Broker, ...] = (Broker(1, "one"), Broker(2, "two"))

    def high_watermarks(self, places: Sequence[Partition]) -> Mapping[Partition, Watermark]:
        told = Watermark(asked_ns=5, answered_ns=9, offset=40, leader_epoch=3)
        return dict.fromkeys(places, told)

    def replica_ends(self, topics: Sequence[str]) -> list[ReplicaEnd]:
        assert topics == ["orders"]
        if not self.has_clock:
            raise ClusterBroken("The fault agent does not answer.")
        end = ReplicaEnd(node_id=2, topic="orders", partition=0, log_end=41, high_watermark=None)
        return [end]

    def host_clock_ns(self) -> int:
        if not self.has_clock:
            raise ClusterBroken("The fault agent does not answer.")
        return 1_700_000_000_000_000_000

    def jmx(
        self, broker: Broker, object_names: str | Sequence[str], attribute: str
    ) -> dict[str, float]:
        assert attribute == "Value"
        self.asked.append((broker.node_id, str(object_names)))
        count = self.counts.pop(0) if self.counts else None
        if count is None:
            raise ClusterBroken("There is no JVM.")
        name = "kafka.cluster:name=InSyncReplicasCount,topic=orders,partition={},type=Partition"
        return {name.format(0): count, name.format(1): 3.0}


Sample = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sample:
    """Return a function that samples a cluster until it has asked so many times."""
    monkeypatch.setattr("harness.run.sampler._EVERY_S", 0.001)

    def run(
        cluster: Cluster, states: Callable[[], Mapping[Partition, PartitionState]], rounds: int = 3
    ) -> list[dict[str, Any]]:
        left = [rounds]

        def counted() -> Mapping[Partition, PartitionState]:
            left[0] -= 1
            return states()

        journal = Journal(tmp_path / "samples.jsonl")
        sampler = Sampler(cast("DockerCluster", cluster), counted, 2, journal)
        sampler.watcher.start()
        wait_until(lambda: left[0] <= 0, timeout_s=120, what="the sampler to have asked")
        sampler.watcher.stop()
        journal.close()
        return [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]

    return run


def kinds(lines: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [line for line in lines if line["sample"] == kind]


def test_high_watermarks_are_written_with_when_they_were_asked_for(sample: Sample) -> None:
    lines = sample(Cluster(), lambda: {ORDERS: WHOLE})

    assert kinds(lines, "high-watermark")[0] == {
        "sample": "high-watermark", "asked_ns": 5, "answered_ns": 9, "topic": "orders",
        "partition": 0, "offset": 40, "leader_epoch": 3,
    }  # fmt: skip
    assert kinds(lines, "isr-count") == []


def test_the_clock_is_read_with_every_sample_and_at_the_end(sample: Sample) -> None:
    clocks = kinds(sample(Cluster(), lambda: {}), "clock")

    assert len(clocks) >= 4
    assert all(line["asked_ns"] <= line["answered_ns"] for line in clocks)
    assert {line["host_ns"] for line in clocks} == {1_700_000_000_000_000_000}


def test_an_agent_that_does_not_tell_the_time_costs_no_sample(sample: Sample) -> None:
    lines = sample(Cluster(has_clock=False), lambda: {ORDERS: WHOLE})

    assert kinds(lines, "clock") == []
    assert kinds(lines, "high-watermark")


def test_a_leader_is_asked_until_it_knows_that_its_isr_is_too_small(sample: Sample) -> None:
    cluster = Cluster(counts=[None, 3.0, 1.0, 1.0])

    lines = sample(cluster, lambda: {ORDERS: SMALL}, rounds=8)

    found = kinds(lines, "isr-count")
    assert [(line["broker"], line["partition"], line["count"]) for line in found] == [
        (1, 0, 3), (1, 0, 1),
    ]  # fmt: skip
    assert len(cluster.asked) == 3
    assert "topic=orders" in cluster.asked[0][1]


def test_a_new_shortage_is_asked_about_anew(sample: Sample) -> None:
    cluster = Cluster(counts=[1.0, 1.0, 1.0])
    states: Iterator[PartitionState] = iter([SMALL, SMALL, WHOLE, SMALL, SMALL])

    lines = sample(cluster, lambda: {ORDERS: next(states, WHOLE)}, rounds=6)

    assert len(kinds(lines, "isr-count")) == 2


def test_a_partition_without_a_leader_has_nobody_to_ask(sample: Sample) -> None:
    nobody = PartitionState(leader=None, isr=(1,), replicas=(1, 2, 3))
    cluster = Cluster(counts=[1.0])

    lines = sample(cluster, lambda: {ORDERS: nobody})

    assert cluster.asked == []
    assert {line["sample"] for line in lines} == {"clock", "replica"}


def test_where_replicas_end_is_written_once_in_a_while(sample: Sample) -> None:
    lines = sample(Cluster(), lambda: {ORDERS: WHOLE}, rounds=5)

    (line,) = (line for line in lines if line["sample"] == "replica")
    assert line["asked_ns"] <= line["answered_ns"]
    assert line | {"asked_ns": 0, "answered_ns": 0} == {
        "sample": "replica", "asked_ns": 0, "answered_ns": 0, "broker": 2, "topic": "orders",
        "partition": 0, "log_end": 41, "high_watermark": None,
    }  # fmt: skip


def test_leaders_tell_their_high_watermarks() -> None:
    kafka = MockKafka()
    for _ in range(3):
        kafka.append(b"x", 1)

    found = Admin(Access(kafka.bootstrap)).high_watermarks([(TOPIC, 0), (TOPIC, 1)], timeout_s=120)

    assert {place[1]: told.offset for place, told in found.items()} == {0: 0, 1: 3}
    assert all(told.asked_ns <= told.answered_ns for told in found.values())


def test_nobody_is_asked_about_nothing() -> None:
    assert Admin(Access("127.0.0.1:1")).high_watermarks([]) == {}


def test_leaders_that_do_not_answer_are_left_out() -> None:
    assert Admin(Access("127.0.0.1:1")).high_watermarks([(TOPIC, 0)], timeout_s=0.1) == {}


class Source:
    """Metadata that says what it is given, one answer after the other, and then the last one."""

    def __init__(self, *answers: PartitionState) -> None:
        self.answers = list(answers)
        self.asked = 0

    def broker_ids(self, *, timeout_s: float = 3.0) -> set[int]:
        return set()

    def partitions(
        self, topic: str | None = None, *, timeout_s: float = 3.0
    ) -> dict[Partition, PartitionState]:
        self.asked += 1
        state = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {ORDERS: state, ("others", 0): state}


def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *answers: PartitionState) -> list[Any]:
    monkeypatch.setattr("harness.run.monitor._EVERY_S", 0.001)
    journal = Journal(tmp_path / "timeline.jsonl")
    source = Source(*answers)
    monitor = Monitor(source, ["orders"], journal)
    monitor.watcher.start()
    wait_until(
        lambda: source.asked > len(answers) + 1, timeout_s=120, what="the monitor to have asked"
    )
    monitor.watcher.stop()
    journal.close()
    assert monitor.states == {ORDERS: answers[-1]}
    return [json.loads(line) for line in (tmp_path / "timeline.jsonl").read_text().splitlines()]


def test_a_source_that_counts_nothing_gives_lines_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = watch(tmp_path, monkeypatch, WHOLE, WHOLE, SMALL)

    assert [(line["leader"], line["isr"]) for line in lines] == [(1, [1, 2, 3]), (1, [1])]
    assert set(lines[0]) == {"time_ns", "topic", "partition", "leader", "isr", "replicas"}


def test_a_source_that_counts_says_how_long_a_state_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versioned(version: int, *isr: int) -> PartitionState:
        return PartitionState(
            leader=1, isr=isr, replicas=(1, 2, 3), leader_epoch=4, version=version
        )

    answers = [versioned(0, 1, 2, 3), versioned(0, 1, 2, 3), versioned(1, 1)]
    lines = watch(tmp_path, monkeypatch, *answers)

    assert [line["version"] for line in lines] == [0, 1, 1]
    first, second, last = lines
    assert first["held_ns"] is None
    assert first["time_ns"] < second["held_ns"] < second["asked_ns"] < second["time_ns"]
    assert second["asked_ns"] < last["held_ns"] <= last["time_ns"]
    assert {line["leader_epoch"] for line in lines} == {4}
