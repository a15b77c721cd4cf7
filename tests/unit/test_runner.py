"""A run from its plan to its sealed folder, on a cluster in memory: what ends it, what costs it."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faults.broker_kill import BrokerKill
from faults.targets import LeaderOf
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.metadata import Shortfall
from harness.cluster.pool import ClusterPool
from harness.core.client_library import ClientLibrary
from harness.core.cluster import Broker, ClusterSpec, TopicSpec
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, HealFailed, WaitTimeout
from harness.core.fault import Evidence
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.scenario import SCENARIOS, Scenario, Step
from harness.core.schedule import Script
from harness.core.view import PartitionState
from harness.run.context import RunContext
from harness.run.runner import KeepCluster, Runner
from harness.run.scenario_run import ScenarioRun, _await_read, _await_working
from tests.unit.fake_cluster import FakeCluster

EIGHT_HOURS_S = 8 * 3600.0


class Cluster(FakeCluster):
    """A cluster that can be told to fail where a run ends."""

    timing_s: Mapping[str, float] = {}
    copy_error: Exception | None = None
    partitions_error: Exception | None = None

    unanswered = 0

    def create_topic(self, topic: TopicSpec) -> None:
        self.__dict__.setdefault("topics", []).append(topic)

    def metadata(self) -> Any:
        def partitions(*_: str, **__: float) -> dict[Any, Any]:
            if self.partitions_error:
                raise self.partitions_error
            self.unanswered -= 1
            if self.unanswered >= 0:
                return {}
            known = PartitionState(leader=1, isr=(1, 2, 3), replicas=(1, 2, 3))
            topics = self.__dict__.get("topics", [])
            return {(topic.name, n): known for topic in topics for n in range(topic.partitions)}

        return SimpleNamespace(partitions=partitions)

    def has_full_isr(self, *_: Any, **__: Any) -> bool:
        return True

    missing: Shortfall | None = None

    def await_full_isr(self, *_: Any, **told: Any) -> None:
        # The topics are waited for as well, when they have been created.
        if self.missing and "without" in told:
            raise WaitTimeout("Waited 1 s for full in-sync replicas.")

    def shortfall(self, *_: Any, **__: Any) -> Shortfall:
        assert self.missing
        return self.missing

    def save_processes(self) -> None:
        return

    def save_refusals(self) -> None:
        return

    def host_clock_ns(self) -> int:
        return 1

    def high_watermarks(self, _: Any) -> dict[Any, Any]:
        return {}

    def replica_ends(self, _: Any) -> list[Any]:
        return []

    def log_ends(self, _: str) -> dict[int, int]:
        return {}

    def copy_replicas(self, *_: Any, **__: Any) -> None:
        if self.copy_error:
            raise self.copy_error

    def save_logs(self) -> None:
        self.log.append("saved")


@dataclass
class Pool(ClusterPool):
    """Gives one cluster, and remembers how it came back."""

    cluster: Cluster = field(default_factory=Cluster)
    released: list[bool] = field(default_factory=list)

    def acquire(self, *_: Any, **__: Any) -> DockerCluster:
        return cast("DockerCluster", self.cluster)

    def release(self, *_: Any, is_sound: bool, **__: Any) -> None:
        self.released.append(is_sound)


@dataclass(frozen=True)
class ShortRun:
    """A run of nothing but what it is given to do."""

    work: Callable[[RunContext], None] = lambda _: None
    name: str = "short"
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    contract: Contract = field(default_factory=Contract)
    client: ClientLibrary | None = None
    full_isr_within_s: float = 1.0
    partitions: int = 0

    def topics(self) -> tuple[TopicSpec, ...]:
        orders = TopicSpec(name="orders", partitions=self.partitions, replication_factor=3)
        return (orders,) if self.partitions else ()

    def readers(self) -> tuple[Any, ...]:
        return ()

    def described(self) -> Mapping[str, Any]:
        return {"scenario": self.name, "clients": []}

    def again(self, run: Path, seed: int) -> str:
        return f"again {run} {seed}"

    def plan_json(self, seed: int) -> str:
        return f"{seed}\n"

    def carry_out(self, context: RunContext) -> None:
        self.work(context)


Execute = Callable[..., tuple[RunDir, Pool]]


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Return a function that executes a run: `execute(run, keep=…, copy_error=…)`."""
    # librdkafka and the rest are installed; their versions take a while to look up.
    monkeypatch.setattr("harness.run.runner._versions", dict)
    # Nobody asks the engine, or Maven.
    monkeypatch.setattr("harness.run.runner.reject_unknown_versions", lambda *_, **__: None)

    def executed(run: ShortRun, *, keep: KeepCluster = "never", **told: Any) -> tuple[RunDir, Pool]:
        pool = Pool()
        for name, value in told.items():
            setattr(pool.cluster, name, value)
        runner = Runner(run=run, seed=7, store=tmp_path, keep_cluster=keep, pool=pool)
        try:
            return runner.execute(), pool
        except Exception as error:
            error.add_note(str(pool.released))
            raise

    return executed


def test_a_run_that_went_well_is_complete_and_its_cluster_sound(execute: Execute) -> None:
    run_dir, pool = execute(ShortRun())

    assert (run_dir.meta()["state"], run_dir.meta()["reasons"]) == ("complete", [])
    assert pool.released == [True]
    assert pool.cluster.log == ["saved"]


def test_a_cluster_that_is_whole_again_is_recorded_with_the_bound(execute: Execute) -> None:
    run_dir, _ = execute(ShortRun())

    recovery = run_dir.meta()["recovery"]
    assert (recovery["whole"], recovery["bound_s"], recovery["partitions"]) == (True, 1.0, [])
    assert recovery["from_ns"] <= recovery["to_ns"]


def test_what_is_missing_when_the_bound_has_run_out_is_recorded_and_judged_later(
    execute: Execute,
) -> None:
    short = PartitionState(leader=1, isr=(1, 2), replicas=(1, 2, 3))
    missing = Shortfall(answered=True, unregistered=(3,), partitions={("orders", 0): short})

    run_dir, pool = execute(ShortRun(), missing=missing)

    recovery = run_dir.meta()["recovery"]
    assert (recovery["whole"], recovery["answered"]) == (False, True)
    assert recovery["unregistered"] == [3]
    assert recovery["partitions"] == [
        {"topic": "orders", "partition": 0, "leader": 1, "isr": [1, 2], "replicas": [1, 2, 3]}
    ]
    assert (run_dir.meta()["state"], run_dir.meta()["reasons"]) == ("complete", [])
    assert pool.released == [False]


def test_a_cluster_that_is_whole_at_the_last_look_is_whole(execute: Execute) -> None:
    nothing = Shortfall(answered=True, unregistered=(), partitions={})

    run_dir, pool = execute(ShortRun(), missing=nothing)

    assert run_dir.meta()["recovery"]["whole"]
    assert pool.released == [True]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("serves", [True, False])
def test_producers_that_nobody_serves_do_not_wait_long_for_what_is_under_way(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, *, is_whole: bool, serves: bool
) -> None:
    patience: list[float | None] = []

    def stop(_: Any, role: str, *, limit_s: float, patience_s: float | None = None) -> None:
        assert (role, limit_s) == ("producer", 140.0)
        patience.append(patience_s)

    monkeypatch.setattr(RunContext, "stop_clients", stop)

    def work(context: RunContext) -> None:
        context.await_working = lambda: serves

    short = PartitionState(leader=1, isr=(1, 2), replicas=(1, 2, 3))
    missing = Shortfall(answered=True, unregistered=(3,), partitions={("orders", 0): short})

    execute(ShortRun(work), missing=None if is_whole else missing)

    assert patience == [None if is_whole and serves else 10.0]


@pytest.mark.parametrize("error", [OSError("no space left"), ValueError("a bug")])
def test_what_cannot_be_saved_costs_neither_the_verdict_nor_the_removal(
    execute: Execute, error: Exception
) -> None:
    run_dir, pool = execute(ShortRun(), copy_error=error)

    assert (run_dir.meta()["state"], run_dir.meta()["reasons"]) == ("complete", [])
    assert len(pool.released) == 1


def test_a_cluster_with_brokers_left_down_is_not_sound(execute: Execute) -> None:
    _, pool = execute(ShortRun(lambda context: context.left_down.add(1)))

    assert pool.released == [False]


def test_a_cluster_of_a_run_with_a_reason_is_not_sound(execute: Execute) -> None:
    run_dir, pool = execute(ShortRun(lambda context: context.note(["Client 3 ended."])))

    assert pool.released == [False]
    assert run_dir.meta()["reasons"] == ["Client 3 ended."]


def test_a_cluster_whose_faults_could_not_be_healed_is_not_sound(execute: Execute) -> None:
    def fail(_: RunContext) -> None:
        raise HealFailed("Fault 1 could not be healed.")

    with pytest.raises(HealFailed) as failed:
        execute(ShortRun(fail))

    assert failed.value.__notes__ == ["[False]"]


def test_a_cluster_that_is_to_be_kept_is_not_given_back(execute: Execute) -> None:
    _, always = execute(ShortRun(), keep="always")
    _, sound = execute(ShortRun(), keep="failed")
    _, unsound = execute(ShortRun(lambda c: c.note(["It failed."])), keep="failed")

    assert (always.released, sound.released, unsound.released) == ([], [True], [])


def test_a_monitor_that_failed_is_a_reason(execute: Execute) -> None:
    run_dir, _ = execute(ShortRun(), partitions_error=ValueError("odd metadata"))

    (reason,) = run_dir.meta()["reasons"]
    assert reason.startswith("The monitor failed, so it may have missed something")


def test_no_fault_comes_before_every_partition_has_been_seen(execute: Execute) -> None:
    seen: list[int] = []

    def look(context: RunContext) -> None:
        lines = (context.run_dir.path / "timeline.jsonl").read_text().splitlines()
        seen.extend(json.loads(line)["partition"] for line in lines)

    run_dir, _ = execute(ShortRun(look, partitions=2), unanswered=2)

    assert seen == [0, 1]
    assert run_dir.meta()["reasons"] == []


def test_a_run_that_was_ended_early_is_not_complete(execute: Execute) -> None:
    def end(context: RunContext) -> None:
        context.ended_early = True

    run_dir, _ = execute(ShortRun(end))

    assert run_dir.meta()["state"] == "aborted"
    assert run_dir.meta()["reasons"] == ["The run was ended before its plan was carried out."]


# --- a scenario's faults


@dataclass
class Client:
    """A client that has ended by itself, or works."""

    sentence: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def failure(self) -> str | None:
        return self.sentence


@contextmanager
def no_phase(_: str) -> Iterator[None]:
    yield


def context_of(cluster: FakeCluster, tmp_path: Path, *clients: Client) -> RunContext:
    return RunContext(
        cluster=cast("DockerCluster", cluster),
        run_dir=RunDir.create(tmp_path, scenario="x", seed=7),
        run_id="0" * 16,
        seed=7,
        topics=("orders",),
        phase=cast("Any", no_phase),
        progress=Progress(),
        stop=threading.Event(),
        clients=cast("Any", list(clients)),
    )


@dataclass(frozen=True)
class Stuck:
    """A fault that cannot be taken back."""

    def inject(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        return Evidence("inject", observed=True)

    def heal(self, cluster: Cluster, victims: Sequence[Broker]) -> Evidence:
        raise ClusterBroken("no answer")


def long_run(fault: Any = BrokerKill()) -> ScenarioRun:  # noqa: B008 (frozen)
    """A run of eight hours that hits the leader at once, and heals at once."""
    scenario: Scenario = SCENARIOS["mixed"]()
    step = Step(at_s=0.0, fault=fault, target=LeaderOf("orders", 0), hold_s=0.0)
    schedule = Script(script=(step,))
    return ScenarioRun(replace(scenario, schedule=schedule, duration_s=EIGHT_HOURS_S))


def test_a_nemesis_that_cannot_heal_ends_the_run_at_once(tmp_path: Path) -> None:
    with pytest.raises(HealFailed, match="Fault 1, Stuck"):
        long_run(Stuck())._break(context_of(Cluster(), tmp_path))


def test_a_client_that_ended_by_itself_ends_the_run_at_once_with_everything_healed(
    tmp_path: Path,
) -> None:
    cluster = Cluster()
    context = context_of(cluster, tmp_path, Client(), Client("Client 2 ended by itself."))

    long_run()._break(context)

    assert context.ended_early
    assert context.reasons == ["Client 2 ended by itself."]
    assert all(cluster.processes.values())


def test_what_goes_on_beside_the_nemesis_ends_the_run_when_it_fails(tmp_path: Path) -> None:
    def fail(_: threading.Event) -> None:
        raise ClusterBroken("the coordinator is gone")

    with pytest.raises(ClusterBroken, match="coordinator"):
        long_run()._break(context_of(Cluster(), tmp_path), fail)


def test_an_interrupted_run_ends_what_goes_on_beside_the_nemesis(tmp_path: Path) -> None:
    context = context_of(Cluster(), tmp_path)
    context.stop.set()

    long_run()._break(context, lambda stop: cast("None", stop.wait(EIGHT_HOURS_S)))

    assert not context.ended_early


@dataclass
class Producer:
    """A producer that says at each look how many of its records were acknowledged, then ends."""

    acked: Iterator[int]
    role: str = "producer"
    looked: int = 0

    @property
    def spec(self) -> Any:
        return SimpleNamespace(role=self.role, process=id(self))

    is_running = True

    @property
    def counts(self) -> dict[str, int]:
        self.looked += 1
        return {"t_ns": time.monotonic_ns(), "ok": next(self.acked)}


def test_a_healed_cluster_is_left_alone_until_it_serves_every_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.scenario_run._LOOK_S", 0.0)
    served, waiting = Producer(count(10)), Producer(chain([10] * 5, repeat(11)))
    reader = Producer(repeat(0), role="reader")
    context = context_of(Cluster(), tmp_path, cast("Any", served), cast("Any", waiting))
    context.clients.append(cast("Any", reader))

    assert _await_working(context)
    assert waiting.looked == 6
    assert reader.looked == 0


def test_nobody_waits_forever_for_a_cluster_that_serves_no_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.scenario_run._LOOK_S", 0.0)
    monkeypatch.setattr("harness.run.scenario_run._WORKING_S", 0.05)
    said: list[str] = []
    context = context_of(Cluster(), tmp_path, cast("Any", Producer(repeat(10))))
    context.progress = cast("Any", SimpleNamespace(say=said.append, counts=lambda _: None))

    assert not _await_working(context)
    assert "acknowledgement for every producer after the last healing" in said[0]


@dataclass
class Consumer:
    """A consumer that has polled up to some offset of each partition, further at each look."""

    last: Iterator[Mapping[str, int]]
    group: str | None = None
    is_running: bool = True
    looked: int = 0

    @property
    def spec(self) -> Any:
        config = {"group.id": self.group} if self.group else {}
        own = {} if self.group else {"partitions": [0, 1]}
        settings = {"topic": "orders", "config": config, **own}
        return SimpleNamespace(role="consumer", process=id(self), settings=settings)

    @property
    def counts(self) -> Mapping[str, Any]:
        self.looked += 1
        return {"last_polled": next(self.last)}


def read(first: int, second: int) -> Mapping[str, int]:
    return {"orders-0": first, "orders-1": second}


def test_consumers_are_stopped_when_they_are_near_the_ends_of_all_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.scenario_run._LOOK_S", 0.0)
    alone = Consumer(chain(repeat(read(900, 990), 4), repeat(read(960, 990))))
    # Of a group each member reads a part, and a rebalance hands parts on; a log of few records may
    # be nothing but markers.
    members = [Consumer(repeat(read(999, 0)), "g"), Consumer(repeat(read(0, 980)), "g")]
    gone = Consumer(repeat({}), is_running=False)
    context = context_of(Cluster(), tmp_path, cast("Any", alone), cast("Any", gone))
    context.clients += cast("Any", members)
    monkeypatch.setattr(Cluster, "log_ends", lambda *_: {0: 1000, 1: 1000, 2: 99})
    monkeypatch.setattr(RunContext, "report_counts", lambda _: None)

    _await_read(context)

    assert alone.looked > 4
    assert gone.looked == 0


def test_short_logs_are_read_too_before_consumers_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.scenario_run._LOOK_S", 0.0)
    monkeypatch.setattr(Cluster, "log_ends", lambda *_: {0: 40, 1: 20})
    monkeypatch.setattr(RunContext, "report_counts", lambda _: None)
    behind = Consumer(chain(repeat({}, 3), repeat(read(39, 10), 3), repeat(read(39, 14))))

    _await_read(context_of(Cluster(), tmp_path, cast("Any", behind)))

    assert behind.looked == 7


def test_nobody_waits_forever_for_a_consumer_that_reads_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run.scenario_run._READ_S", 0.05)
    monkeypatch.setattr(Cluster, "log_ends", lambda *_: {0: 1000})
    monkeypatch.setattr(RunContext, "report_counts", lambda _: None)
    stuck = Consumer(repeat({}))

    _await_read(context_of(Cluster(), tmp_path, cast("Any", stuck)))

    assert stuck.looked
