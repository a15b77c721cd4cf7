"""The injector: how long a fault is held, and that one failed healing hides no other."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.core.cluster import Broker, Cluster
from harness.core.errors import ClusterBroken, HealFailed
from harness.core.fault import Evidence
from harness.core.run_dir import Journal
from harness.run.injector import Header, Injector
from tests.unit.fake_cluster import FakeCluster


@dataclass(frozen=True)
class Slow:
    """A fault whose effect is seen late, or that cannot be taken back."""

    clock: list[float] = field(default_factory=lambda: [0.0])
    takes_s: float = 0.0
    is_stuck: bool = False
    is_odd: bool = False
    healed: list[str] = field(default_factory=list)

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        self.clock[0] += self.takes_s
        return Evidence("inject", observed=True)

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        if self.is_stuck:
            raise ValueError("no answer") if self.is_odd else ClusterBroken("no answer")
        self.healed.append("healed")
        return Evidence("heal", observed=True)


def header(fault_id: str, fault: Slow, hold_s: float = 20.0) -> Header:
    return Header(fault_id=fault_id, fault=fault, target="all", at_s=0.0, hold_s=hold_s)


@pytest.fixture
def injector(tmp_path: Path) -> Iterator[Injector]:
    journal = Journal(tmp_path / "faults.jsonl")
    yield Injector(cluster=FakeCluster(), journal=journal)
    journal.close()


def test_a_fault_is_held_from_when_it_was_seen_and_not_from_the_decision(
    injector: Injector, instant_time: list[float]
) -> None:
    fault = Slow(clock=instant_time, takes_s=7.0)
    decided_s = instant_time[0]

    active = injector.inject(header("1", fault, hold_s=20.0), injector.cluster.brokers[:1])

    assert active is not None
    assert active.due_ns == int((decided_s + 7.0 + 20.0) * 1e9)


@pytest.mark.parametrize("is_odd", [False, True], ids=["ClusterBroken", "ValueError"])
def test_a_healing_that_fails_in_any_way_hides_no_other(
    injector: Injector, tmp_path: Path, is_odd: bool
) -> None:
    healed: list[str] = []
    stuck = Slow(is_stuck=True, is_odd=is_odd)
    faults = [Slow(healed=healed), stuck, Slow(healed=healed), stuck]
    for number, fault in enumerate(faults, start=1):
        injector.inject(header(str(number), fault), injector.cluster.brokers[:1])

    with pytest.raises(HealFailed) as failed:
        injector.heal_all()

    assert len(healed) == 2
    assert injector.active == []
    assert [f"Fault {number}," in str(failed.value) for number in "1234"] == [
        False, True, False, True,
    ]  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "faults.jsonl").read_text().splitlines()]
    assert [line["error"] for line in lines if line["event"] == "failed"] == ["heal: no answer"] * 2


def test_all_is_healed_side_by_side(injector: Injector) -> None:
    both = threading.Barrier(2, timeout=10)

    class InNeedOfTheOther(Slow):
        def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            both.wait()
            return super().heal(cluster, victims)

    for fault_id in "12":
        injector.inject(header(fault_id, InNeedOfTheOther()), injector.cluster.brokers[:1])

    injector.heal_all()

    assert injector.active == []
    assert injector.healed == 2
