"""The nemesis: journalled before it strikes, never too much at once, always healed."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from faults.broker_kill import BrokerKill
from faults.broker_pause import BrokerPause
from faults.broker_stop import BrokerStop
from faults.events import Healed
from faults.gc_pause import GcPause
from faults.link import Link
from faults.power_loss import PowerLoss
from faults.targets import AllBrokers, BrokerOfId, LeaderAndFollower, LeaderOf, RandomBroker
from harness.core.cluster import Broker, Cluster, Lease
from harness.core.errors import ClusterBroken, HealFailed
from harness.core.event import Awaited, Event
from harness.core.fault import Evidence
from harness.core.run_dir import Journal
from harness.core.scenario import After, Step
from harness.run.injector import Injector
from harness.run.nemesis import Nemesis
from tests.unit.fake_cluster import FakeCluster


@dataclass(frozen=True)
class Recorded:
    """A fault that only says when it was in force."""

    name: str
    events: list[str]
    fails_to_inject: bool = False

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        self.events.append(f"+{self.name}")
        if self.fails_to_inject:
            raise ClusterBroken("no such wall")
        return Evidence("inject", observed=True)

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        self.events.append(f"-{self.name}")
        return Evidence("heal", observed=True)


@pytest.fixture(autouse=True)
def _instant(instant_time: list[float]) -> None:
    """No test here waits."""


def until(happened: Callable[[], bool]) -> None:
    """Wait, by the true clock, for what another thread does."""
    clock = threading.Condition()
    for _ in range(1000):
        if happened():
            return
        with clock:
            clock.wait(0.01)
    raise AssertionError("It has not happened.")


class Inline(Executor):
    """Does what it is given at once: beside an instant clock nothing takes time."""

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(task(*args, **kwargs))
        except HealFailed as error:
            future.set_exception(error)
        return future


class HealsSlowly(Inline):
    """Heals once it was asked often enough whether that is done."""

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if task.__name__ != "heal":
            return super().submit(task, *args, **kwargs)

        class Late(Future[Any]):
            asked = 0

            def done(self) -> bool:
                self.asked += 1
                if self.asked == 10:
                    self.set_result(task(*args, **kwargs))
                return super().done()

        return Late()


class HealsBeside(Inline):
    """Heals in threads; injects at once: while it is waited for others the clock here races."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor()

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if task.__name__ == "heal":
            return self.threads.submit(task, *args, **kwargs)
        return super().submit(task, *args, **kwargs)


Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Carry out steps on a cluster: `run(cluster, steps, stop=…, …)`."""
    journal = Journal(tmp_path / "f.jsonl")

    def carry_out(
        cluster: FakeCluster,
        steps: list[Step],
        stop: threading.Event | None = None,
        lease_margin_s: float = 30.0,
        hands: Executor | None = None,
        **more: Any,
    ) -> None:
        injector = Injector(
            cluster=cluster, journal=journal, lease_margin_s=lease_margin_s, hands=hands or Inline()
        )
        settings = {"max_at_once": 1, "has_full_isr": lambda: True, **more}
        nemesis = Nemesis(injector=injector, seed=7, **settings)
        nemesis.run(steps, stop or threading.Event())

    yield carry_out
    journal.close()


def _journal(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]


def _step(fault: Any, at_s: float, hold_s: float = 5.0) -> Step:
    return Step(at_s=at_s, fault=fault, target=LeaderOf("orders"), hold_s=hold_s)


def test_victims_are_on_disk_before_the_fault_strikes(tmp_path: Path, run: Run) -> None:
    seen = []

    class Peeping(Recorded):
        def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            seen.append(_journal(tmp_path)[-1])
            return super().inject(cluster, victims)

    run(FakeCluster(), [_step(Peeping("a", []), 1)], threading.Event())

    assert seen[0]["event"] == "decided"
    assert seen[0]["victims"] == [1]


def test_the_agent_is_told_to_heal_when_the_margin_after_the_hold_is_over(
    tmp_path: Path, run: Run
) -> None:
    leases: list[Lease] = []

    class Peeping(Recorded):
        def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            leases.append(cluster.lease)
            return super().inject(cluster, victims)

    run(FakeCluster(), [_step(Peeping("a", []), 1, hold_s=5.0)], lease_margin_s=7.0)

    assert (leases[0].hold_s, leases[0].limit_s) == (5.0, 12.0)
    assert _journal(tmp_path)[0]["lease_s"] == 12.0


def test_every_fault_ends_with_its_healing(tmp_path: Path, run: Run) -> None:
    cluster = FakeCluster()

    run(cluster, [_step(BrokerKill(), 1)], threading.Event())

    assert [line["event"] for line in _journal(tmp_path)] == ["decided", "injected", "healed"]
    assert all(cluster.processes.values())


@pytest.mark.parametrize("second_at_s", [1, 3])
def test_one_fault_at_a_time_means_the_second_waits(run: Run, second_at_s: float) -> None:
    events: list[str] = []
    steps = [_step(Recorded("a", events), 1, 10), _step(Recorded("b", events), second_at_s, 2)]

    run(FakeCluster(), steps, threading.Event())

    assert events == ["+a", "-a", "+b", "-b"]


def test_two_at_once_overlap_as_planned(tmp_path: Path, run: Run) -> None:
    events: list[str] = []
    steps = [_step(Recorded("a", events), 1, 10), _step(Recorded("b", events), 3, 2)]

    run(FakeCluster(), steps, threading.Event(), max_at_once=2)

    assert events == ["+a", "+b", "-b", "-a"]


def test_a_stop_heals_at_once_and_begins_nothing_more(tmp_path: Path, run: Run) -> None:
    events: list[str] = []
    stop = threading.Event()

    class Stopping(Recorded):
        def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            stop.set()
            return super().inject(cluster, victims)

    steps = [_step(Stopping("a", events), 1, 100), _step(Recorded("b", events), 300)]

    run(FakeCluster(), steps, stop)

    assert events == ["+a", "-a"]


def test_the_hold_counts_from_when_the_fault_was_seen_in_force(
    run: Run, instant_time: list[float]
) -> None:
    times_s: list[float] = []

    class Slow(Recorded):
        def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            instant_time[0] += 20
            times_s.append(instant_time[0])
            return super().inject(cluster, victims)

        def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            times_s.append(instant_time[0])
            return super().heal(cluster, victims)

    run(FakeCluster(), [_step(Slow("a", []), 1, hold_s=5.0)])

    in_force_s, healed_s = times_s
    assert healed_s - in_force_s == pytest.approx(5.0, abs=0.01)


def test_a_gc_pause_of_a_broker_that_writes_no_gc_log_ends_nothing(
    tmp_path: Path, run: Run
) -> None:
    events: list[str] = []

    run(
        FakeCluster(writes_gc_log=False),
        [_step(GcPause(), 1), _step(Recorded("next", events), 50)],
    )

    first = [line for line in _journal(tmp_path) if line["id"] == "1"]
    assert [line["event"] for line in first] == ["decided", "failed", "healed"]
    assert "writes no GC log" in first[1]["error"]
    assert events == ["+next", "-next"]


def test_a_fault_that_fails_halfway_is_healed_and_said(tmp_path: Path, run: Run) -> None:
    events: list[str] = []
    fault = Recorded("a", events, fails_to_inject=True)

    run(FakeCluster(), [_step(fault, 1)], threading.Event())

    assert events == ["+a", "-a"]
    assert [line["event"] for line in _journal(tmp_path)] == ["decided", "failed", "healed"]
    assert "no such wall" in _journal(tmp_path)[1]["error"]


def test_nobody_to_hit_is_a_failed_fault_and_not_a_quiet_one(tmp_path: Path, run: Run) -> None:
    events: list[str] = []

    run(FakeCluster(leader=None), [_step(Recorded("a", events), 1)], threading.Event())

    assert events == []
    assert [line["event"] for line in _journal(tmp_path)] == ["decided", "failed"]


def test_a_cluster_that_does_not_recover_is_not_hit_again(tmp_path: Path, run: Run) -> None:
    events: list[str] = []

    run(
        FakeCluster(),
        [_step(Recorded("a", events), 1), _step(Recorded("b", events), 2)],
        threading.Event(),
        has_full_isr=lambda: False,
    )

    first, second = [line for line in _journal(tmp_path) if line["event"] == "failed"]
    assert events == []
    assert "were not full" in first["error"]
    # It was waited for in vain once.
    assert second["time_ns"] - first["time_ns"] < 10e9


def test_a_cluster_that_can_never_recover_is_not_waited_for(tmp_path: Path, run: Run) -> None:
    # Neither what is planned for later, nor what would follow an event at once.
    after = After(event=Healed(), within_s=0.1)
    follows = replace(_step(Recorded("b", []), 1), after=after)
    steps = [_step(Recorded("a", []), 1), follows, _step(Recorded("c", []), 500)]
    begin_ns = time.monotonic_ns()

    run(FakeCluster(), steps, has_full_isr=lambda: False, is_vain=lambda: True)

    failed = [line for line in _journal(tmp_path) if line["event"] == "failed"]
    assert [line["id"] for line in failed] == ["1", "2", "3"]
    assert all("a broker has ended by itself" in line["error"] for line in failed)
    assert failed[-1]["time_ns"] - begin_ns < 4e9


def test_a_failed_healing_ends_everything(tmp_path: Path, run: Run) -> None:
    cluster = FakeCluster(fails_to_heal=True)
    steps = [_step(BrokerKill(), 1), _step(BrokerKill(), 50)]

    with pytest.raises(HealFailed, match="Fault 1, broker_kill on broker 1"):
        run(cluster, steps, threading.Event())

    assert [line["event"] for line in _journal(tmp_path)] == ["decided", "injected", "failed"]


def test_a_step_follows_its_event_by_its_delay(
    tmp_path: Path, run: Run, instant_time: list[float]
) -> None:
    heard: list[Awaited] = []

    def listen(event: Event) -> Awaited:
        # The effect of the step before: it comes while that one is in force.
        heard.append(Awaited(event=event, came_ns=time.monotonic_ns() + int(2e9)))
        return heard[-1]

    events: list[str] = []
    first = _step(Recorded("a", events), 1, hold_s=9.0)
    after = After(event=Healed(), delay_s=0.5)
    second = replace(_step(Recorded("b", events), 1), after=after)

    run(FakeCluster(), [first, second], max_at_once=2, listen=listen)

    decided = [line for line in _journal(tmp_path) if line["event"] == "decided"]
    assert events == ["+a", "+b", "-b", "-a"]
    assert len(heard) == 1
    assert decided[1]["time_ns"] - decided[0]["time_ns"] == pytest.approx(2.5e9, abs=0.1e9)
    assert decided[1]["after"] == {"event": "healed", "delay_s": 0.5, "came_ns": heard[0].came_ns}
    assert "after" not in decided[0]


def test_an_event_that_does_not_come_is_not_waited_for_for_ever(tmp_path: Path, run: Run) -> None:
    events: list[str] = []
    after = After(event=Healed(), within_s=6.0)
    steps = [
        _step(Recorded("a", events), 1, hold_s=20.0),
        replace(_step(Recorded("b", events), 1), after=after),
    ]

    run(FakeCluster(), steps, max_at_once=2)

    decided = [line for line in _journal(tmp_path) if line["event"] == "decided"]
    assert decided[1]["time_ns"] - decided[0]["time_ns"] == pytest.approx(6e9, abs=0.1e9)
    assert decided[1]["after"]["came_ns"] is None


def test_who_follows_an_event_does_not_wait_for_full_replicas(tmp_path: Path, run: Run) -> None:
    events: list[str] = []
    asked: list[float] = []
    after = After(event=Healed(), within_s=1.0)

    def has_full_isr() -> bool:
        asked.append(time.monotonic())
        return True

    steps = [
        _step(Recorded("a", events), 1, hold_s=2.0),
        replace(_step(Recorded("b", events), 8), after=after),
    ]

    run(FakeCluster(), steps, has_full_isr=has_full_isr)

    assert events == ["+a", "-a", "+b", "-b"]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("returned", ["?", "+a", "-a", "?", "+b", "-b"]),
        ("divided", ["?", "+a", "+b", "-b", "-a"]),
        ("alone", ["?", "+a", "+b", "-b", "-a"]),
    ],
)
def test_a_pattern_finds_the_cluster_whole(pattern: str, order: list[str], run: Run) -> None:
    events: list[str] = []

    def has_full_isr() -> bool:
        events.append("?")
        return True

    before = "divided" if pattern == "divided" else "alone"
    steps = [
        replace(_step(Recorded("a", events), 1, hold_s=20), pattern=before),
        # Of one that is divided the second stroke falls into the hold of the first.
        replace(_step(Recorded("b", events), 2, hold_s=5), pattern=pattern),
    ]
    run(FakeCluster(), steps, max_at_once=2, has_full_isr=has_full_isr)

    assert events == order


def test_who_is_down_is_healed_while_the_next_step_waits_for_somebody_to_hit(
    tmp_path: Path, run: Run
) -> None:
    cluster = FakeCluster()
    everybody = Step(at_s=1, fault=BrokerKill(), target=AllBrokers(), hold_s=40)
    somebody = Step(at_s=5, fault=BrokerKill(), target=RandomBroker(), hold_s=5)

    run(cluster, [everybody, somebody], max_at_once=2)

    lines = [(line["id"], line["event"]) for line in _journal(tmp_path)]
    assert lines == [
        ("1", "decided"), ("1", "injected"), ("1", "healed"),
        ("2", "decided"), ("2", "injected"), ("2", "healed"),
    ]  # fmt: skip


def test_a_heal_that_fails_while_somebody_is_looked_for_ends_everything(
    tmp_path: Path, run: Run
) -> None:
    class Stuck(BrokerKill):
        def heal(self, cluster: Any, victims: Sequence[Broker]) -> Evidence:
            raise ClusterBroken("no way back")

    everybody = Step(at_s=1, fault=Stuck(), target=AllBrokers(), hold_s=10)
    somebody = Step(at_s=5, fault=BrokerKill(), target=RandomBroker(), hold_s=5)

    with pytest.raises(HealFailed, match="no way back"):
        run(FakeCluster(), [everybody, somebody], max_at_once=2)


def test_a_broker_that_is_down_is_hit_again_only_when_it_is_back(tmp_path: Path, run: Run) -> None:
    cluster = FakeCluster()

    run(cluster, [_step(BrokerKill(), 1, hold_s=20), _step(BrokerPause(), 2)], max_at_once=2)

    lines = [(line["id"], line["event"]) for line in _journal(tmp_path)]
    assert lines[:4] == [("1", "decided"), ("1", "injected"), ("1", "healed"), ("2", "decided")]


def test_a_link_opens_when_its_ends_can_answer_over_it(tmp_path: Path, run: Run) -> None:
    cluster = FakeCluster()
    cut = Step(at_s=1, fault=Link(), target=LeaderAndFollower("orders"), hold_s=3)

    run(cluster, [cut, _step(BrokerKill(), 2, hold_s=10)], max_at_once=2)

    lines = [(line["id"], line["event"]) for line in _journal(tmp_path)]
    assert lines == [
        ("1", "decided"), ("1", "injected"), ("2", "decided"), ("2", "injected"),
        ("2", "healed"), ("1", "healed"),
    ]  # fmt: skip
    assert all(line["evidence"]["observed"] for line in _journal(tmp_path) if "evidence" in line)


def test_a_broker_behind_a_cut_is_shut_down_only_when_that_is_open(
    tmp_path: Path, run: Run
) -> None:
    cut = Step(at_s=1, fault=Link(), target=LeaderAndFollower("orders"), hold_s=3)

    run(FakeCluster(), [cut, _step(BrokerStop(), 2, hold_s=10)], max_at_once=2)

    lines = [(line["id"], line["event"]) for line in _journal(tmp_path)]
    assert lines[:4] == [("1", "decided"), ("1", "injected"), ("1", "healed"), ("2", "decided")]


@pytest.mark.parametrize(
    ("after", "order"),
    [
        (After(event=Healed(), within_s=0.01), ["?", "+a", "+b", "-a", "-b"]),
        (None, ["?", "+a", "-a", "?", "+b", "-b"]),
    ],
    ids=["follows an event", "begins alone"],
)
def test_only_who_follows_an_event_does_not_wait_for_a_heal_that_takes_long(
    after: After | None, order: list[str], run: Run
) -> None:
    events: list[str] = []

    def has_full_isr() -> bool:
        events.append("?")
        return True

    steps = [
        _step(Recorded("a", events), 1, hold_s=2),
        replace(_step(Recorded("b", events), 3.01), after=after),
    ]
    run(FakeCluster(), steps, max_at_once=2, has_full_isr=has_full_isr, hands=HealsSlowly())

    assert events == order


def test_a_step_keeps_its_distance_from_the_fault_in_whose_hold_it_begins(
    tmp_path: Path, run: Run, instant_time: list[float]
) -> None:
    class Late(Recorded):
        def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
            instant_time[0] += 20  # Until it is seen to be in force.
            return super().inject(cluster, victims)

    events: list[str] = []
    steps = [
        _step(Late("cut", events), 10, hold_s=19),
        _step(Recorded("power", events), 25, hold_s=6),
        _step(Recorded("other", events), 60, hold_s=6),
    ]
    begin_s = time.monotonic()

    run(FakeCluster(), steps, max_at_once=2)

    in_force_s = [
        line["time_ns"] / 1e9 - begin_s
        for line in _journal(tmp_path)
        if line["event"] == "injected"
    ]
    assert in_force_s == [pytest.approx(at_s, abs=0.2) for at_s in (30, 45, 60)]
    assert events == ["+cut", "+power", "-cut", "-power", "+other", "-other"]


class InNeedOfALink(BrokerKill):
    """A broker that starts only once the links of the cluster are mended."""

    def heal(self, cluster: Any, victims: Sequence[Broker]) -> Evidence:
        until(lambda: any(line.startswith("mend") for line in cluster.log))
        return BrokerKill.heal(self, cluster, victims)


@pytest.mark.parametrize("is_stopped", [False, True], ids=["at its time", "when a run is stopped"])
def test_a_link_opens_for_a_broker_that_needs_it_to_start(is_stopped: bool, run: Run) -> None:
    stop = threading.Event()

    class Killed(InNeedOfALink):
        def inject(self, cluster: Any, victims: Sequence[Broker]) -> Evidence:
            if is_stopped:
                stop.set()
            return super().inject(cluster, victims)

    cluster = FakeCluster()
    cut = Step(at_s=1, fault=Link(), target=LeaderAndFollower("orders"), hold_s=3)

    run(cluster, [cut, _step(Killed(), 2, hold_s=9)], stop, max_at_once=2, hands=HealsBeside())

    opened = [line.split()[0] for line in cluster.log]
    assert opened.index("mend") < opened.index("start")


def test_what_is_due_is_healed_while_another_fault_is_being_injected(run: Run) -> None:
    events: list[str] = []

    class Long(Recorded):
        def inject(self, cluster: Any, victims: Sequence[Broker]) -> Evidence:
            evidence = super().inject(cluster, victims)
            until(lambda: "-a" in events)
            return evidence

    steps = [_step(Recorded("a", events), 1, hold_s=3), _step(Long("b", events), 2)]

    with ThreadPoolExecutor() as hands:
        run(FakeCluster(), steps, max_at_once=2, hands=hands)

    assert events.index("-a") < events.index("-b")


@pytest.mark.parametrize(("at_most", "gap"), [(1, "full"), (None, "at once")])
def test_data_is_destroyed_on_no_more_brokers_than_the_contract_survives(
    tmp_path: Path, run: Run, at_most: int | None, gap: str
) -> None:
    full = [False]
    steps = [
        Step(at_s=1, fault=PowerLoss(), target=BrokerOfId(1), hold_s=3),
        Step(at_s=2, fault=PowerLoss(), target=BrokerOfId(2), hold_s=3),
    ]

    def has_full_isr() -> bool:
        # The first step asks before it begins, and finds it so.
        full.append(len(full) < 3 or len(full) > 20)
        return full[-1]

    run(FakeCluster(), steps, max_at_once=2, destroys_at_most=at_most, has_full_isr=has_full_isr)

    lines = [(line["id"], line["event"]) for line in _journal(tmp_path)]
    assert (lines.index(("1", "healed")) < lines.index(("2", "decided"))) is (gap == "full")
    assert ("2", "healed") in lines


def test_what_no_contract_survives_is_not_begun(tmp_path: Path, run: Run) -> None:
    step = Step(at_s=1, fault=PowerLoss(), target=AllBrokers(), hold_s=3)

    run(FakeCluster(), [step], max_at_once=2, destroys_at_most=1)

    assert [line["event"] for line in _journal(tmp_path)] == ["decided", "failed"]
