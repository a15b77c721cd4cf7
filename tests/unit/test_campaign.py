"""The campaign: what is run again and what is not, what is judged when, and what a kill leaves."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import (
    Campaign,
    Cell,
    Session,
    open_folder,
    run_campaign,
    runs_in,
    time_needed_s,
)
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.judging_queue import JudgingQueue, _judge
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.cluster import cleanup
from harness.core.errors import (
    ClusterBroken,
    EnvironmentBroken,
    HealFailed,
    SparkEnded,
    UsageError,
)
from harness.core.run_dir import RunDir
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, Queue, machine, report

__all__ = ["machine"]

ASKED = {"what": "three runs"}


def cells(count: int = 3, *, shares_cluster: bool = True) -> Iterator[Cell[ScenarioResult]]:
    scenario = configure("mixed", Overrides())
    for number in range(1, count + 1):
        yield scenario_cell(
            scenario, settings={"number": number}, title=f"the run {number}", seed=number,
            shares_cluster=shares_cluster,
        )  # fmt: skip


@dataclass
class Numbers:
    """The numbers of the results, as a summary."""

    results: Sequence[ScenarioResult]

    @property
    def numbers(self) -> list[int]:
        return [result.settings["number"] for result in self.results]

    def write(self, folder: Path) -> None:
        (folder / "page").write_text(json.dumps(self.numbers))


def spend(session: Session, wanted: Any = None) -> list[int]:
    """Run a campaign and return the numbers of its results."""
    folder = open_folder(session, "test-*", ASKED)
    campaign = Campaign(
        cells=cells() if wanted is None else wanted,
        read=ScenarioResult.read,
        summarize=Numbers,
    )
    return run_campaign(campaign, folder, session).numbers


def test_a_result_that_ends_a_campaign_ends_the_run_that_goes_on_meanwhile(
    machine: Machine, tmp_path: Path
) -> None:
    session = Session(store=tmp_path)
    folder = open_folder(session, "test-*", ASKED)
    machine.during = lambda _: machine.queue.tell()
    campaign = Campaign(
        cells=cells(), read=ScenarioResult.read, summarize=Numbers,
        is_last=lambda result: result.settings["number"] == 1,
    )  # fmt: skip

    assert run_campaign(campaign, folder, session).numbers == [1]
    assert len(machine.runners) == 2
    assert not session.stop.is_set(), "nobody interrupted it"


def seeds(machine: Machine) -> list[int]:
    return [runner.seed for runner in machine.runners]


def breaks(seed: int, error: Exception) -> Callable[[Runner], None]:
    def during(runner: Runner) -> None:
        if runner.seed == seed:
            raise error

    return during


def ended_from_outside(_: Queue, *, leave: int) -> Iterator[Any]:
    if leave == 0:
        raise EnvironmentBroken("The process that verifies runs was ended from outside.")
    yield from ()


def folder_in(store: Path) -> Path:
    (folder,) = store.glob("test-*")
    return folder


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


# -- one after the other ---------------------------------------------------------------------------


def test_a_run_is_judged_while_the_next_one_is_made(machine: Machine, tmp_path: Path) -> None:
    spend(Session(store=tmp_path), cells(2))

    first, second = machine.made
    assert machine.events == [
        f"made {first}", f"made {second}", f"judged {first}", f"judged {second}",
    ]  # fmt: skip


def test_only_runs_that_share_clusters_get_the_pool_that_keeps_one(
    machine: Machine, tmp_path: Path
) -> None:
    spend(Session(store=tmp_path), [*cells(2), *islice(cells(4, shares_cluster=False), 2, None)])

    pools = [runner.pool for runner in machine.runners]
    assert [pool.keeps for pool in pools] == [True, True, False, False]
    assert pools[0] is pools[1]


def test_the_page_is_written_after_each_result(machine: Machine, tmp_path: Path) -> None:
    pages: list[str] = []

    def read_page(_: Runner) -> None:
        page = folder_in(tmp_path) / "page"
        pages.append(page.read_text() if page.exists() else "")

    machine.during = read_page

    spend(Session(store=tmp_path))

    assert pages == ["", "", "[1]"]
    assert (folder_in(tmp_path) / "page").read_text() == "[1, 2, 3]"


def test_a_cluster_that_does_not_start_costs_one_run_and_is_tried_again(
    machine: Machine, tmp_path: Path
) -> None:
    machine.during = breaks(2, ClusterBroken("Broker 2 did not register."))

    assert spend(Session(store=tmp_path)) == [1, 2, 3]
    (failed,) = (line for line in lines(folder_in(tmp_path) / "runs.jsonl") if not line["run"])
    assert (failed["settings"], failed["verdict"]) == ({"number": 2}, "UNKNOWN")
    assert failed["reasons"] == ["The run could not be made: Broker 2 did not register."]

    machine.during = lambda _: None
    assert spend(Session(store=tmp_path, resume=True)) == [1, 2, 3]
    assert seeds(machine) == [1, 2, 3, 2]


def test_a_run_that_cannot_be_judged_costs_one_run_and_is_only_judged_again(
    machine: Machine, tmp_path: Path
) -> None:
    machine.report = lambda _: EnvironmentBroken("There is no Java.")
    spend(Session(store=tmp_path), cells(1))
    (failed,) = lines(folder_in(tmp_path) / "runs.jsonl")
    machine.reports[machine.made[0]] = report(machine.runners[0])

    assert spend(Session(store=tmp_path, resume=True), cells(1)) == [1]
    assert failed["reasons"] == ["The run could not be judged: There is no Java."]
    assert seeds(machine) == [1]


@pytest.mark.parametrize("error", [HealFailed("A broker is frozen."), UsageError("No such Kafka.")])
def test_what_could_not_be_healed_or_cannot_be_ends_everything(
    machine: Machine, tmp_path: Path, error: Exception
) -> None:
    machine.during = breaks(2, error)

    with pytest.raises(type(error)):
        spend(Session(store=tmp_path))

    assert seeds(machine) == [1, 2]


# -- time ------------------------------------------------------------------------------------------


def test_no_run_is_begun_that_would_not_be_judged_within_the_budget(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = count(0, 10)  # seconds that pass between two looks at the clock
    monkeypatch.setattr("harness.campaigns.campaign.time.monotonic", lambda: next(now))

    spend(Session(store=tmp_path, budget_s=150), cells(50))

    assert 1 < len(machine.runners) < 5


def test_one_run_that_took_long_does_not_end_a_campaign_before_its_time(
    machine: Machine, tmp_path: Path, instant_time: list[float]
) -> None:
    def take(_: object) -> None:
        instant_time[0] += 300 if len(machine.runners) == 2 else 100

    machine.during = take

    spend(Session(store=tmp_path, budget_s=1010), cells(50))

    assert len(machine.runners) == 8


@pytest.mark.parametrize(
    ("judgings_s", "waiting", "needed_s"),
    [([], 1, 120), ([90, 30, 100], 0, 150), ([90, 30, 100], 1, 150), ([90, 30, 100], 2, 210)],
    ids=["none was judged", "none waits", "one is judged beside", "they outlast the run"],
)
def test_what_waits_is_judged_while_one_more_run_goes_on(
    judgings_s: list[float], waiting: int, needed_s: float
) -> None:
    assert time_needed_s([100, 120, 600], judgings_s, waiting=waiting) == needed_s


def test_the_first_run_is_made_whatever_the_budget(machine: Machine, tmp_path: Path) -> None:
    assert spend(Session(store=tmp_path, budget_s=0.001)) == [1]


# -- going on --------------------------------------------------------------------------------------


def test_a_campaign_goes_on_where_it_was_interrupted(machine: Machine, tmp_path: Path) -> None:
    def interrupt(runner: Runner) -> None:
        if len(machine.runners) == 2:
            runner.stop.set()  # Ctrl-C in the middle of a run

    machine.during = interrupt

    assert spend(Session(store=tmp_path)) == [1]
    assert spend(Session(store=tmp_path, resume=True)) == [1, 2, 3]
    assert seeds(machine) == [1, 2, 2, 3]


def test_a_campaign_goes_on_where_it_was_killed(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[str] = []
    monkeypatch.setattr(cleanup, "clean", lambda *, owner, say: cleaned.append(owner))
    spend(Session(store=tmp_path), cells(2))
    folder = folder_in(tmp_path)
    # SIGKILL in the middle of the third run, and of writing a line.
    (folder / "owner").write_text("999999999@1")
    with (folder / "runs.jsonl").open("a") as file:
        file.write('{"settings": {"num')

    assert spend(Session(store=tmp_path, resume=True)) == [1, 2, 3]
    assert seeds(machine) == [1, 2, 3]
    assert cleaned == ["999999999@1"]
    assert [line["settings"]["number"] for line in lines(folder / "runs.jsonl")] == [1, 2, 3]
    assert not (folder / "owner").exists()


def test_a_campaign_whose_process_still_runs_is_left_to_it(
    machine: Machine, tmp_path: Path
) -> None:
    spend(Session(store=tmp_path), cells(1))
    (folder_in(tmp_path) / "owner").write_text(cleanup.owner())

    with pytest.raises(UsageError, match=f"Process {os.getpid()} still works on"):
        spend(Session(store=tmp_path, resume=True))


def test_a_run_that_was_made_and_not_judged_is_only_judged(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "finished", ended_from_outside)
        with pytest.raises(EnvironmentBroken):
            spend(Session(store=tmp_path), cells(1))
    (folder,) = tmp_path.glob("test-*")
    # The time that goes on from here was not spent on it.
    assert runs_in(folder) == set(machine.made)

    assert spend(Session(store=tmp_path, resume=True), cells(1)) == [1]
    assert seeds(machine) == [1]


def test_what_was_asked_otherwise_is_not_gone_on_with(machine: Machine, tmp_path: Path) -> None:
    spend(Session(store=tmp_path), cells(1))

    with pytest.raises(UsageError, match="leave out --resume"):
        open_folder(Session(store=tmp_path, resume=True), "test-*", {"what": "other runs"})


# -- the process that judges -----------------------------------------------------------------------


def test_runs_that_cannot_be_judged_say_why_in_the_order_of_the_runs(tmp_path: Path) -> None:
    queue: JudgingQueue[int, None] = JudgingQueue(start=lambda: ThreadPoolExecutor(1))
    try:
        for number in (1, 2):
            queue.add(number, RunDir(tmp_path / str(number)), print, seconds=7.0)
        judged = list(queue.finished(leave=0))
    finally:
        queue.close()

    assert [number for number, _ in judged] == [1, 2]
    assert all("There is no run folder" in str(error) for _, error in judged)


def kill(queue: JudgingQueue[int, None]) -> None:
    pool: Any = queue._pool
    (process,) = pool._processes.values()
    process.kill()


def test_a_run_whose_judge_is_killed_is_judged_by_another(tmp_path: Path) -> None:
    queue: JudgingQueue[int, None] = JudgingQueue()
    try:
        for number in (1, 2):
            queue.add(number, RunDir(tmp_path / str(number)), print, seconds=7.0)
        kill(queue)
        judged = list(queue.finished(leave=0))
    finally:
        queue.close()

    assert [number for number, _ in judged] == [1, 2]
    assert all("There is no run folder" in str(error) for _, error in judged)


def test_a_run_that_no_judge_outlives_is_no_verdict_and_the_next_one_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue: JudgingQueue[int, None] = JudgingQueue()
    again = queue._start_again

    def start_and_kill(self: JudgingQueue[int, None]) -> None:
        again()
        kill(self)

    try:
        queue.add(1, RunDir(tmp_path), print, seconds=7.0)
        kill(queue)
        with monkeypatch.context() as patch:
            patch.setattr(JudgingQueue, "_start_again", start_and_kill)
            ((_, unjudged),) = queue.finished(leave=0)
        queue.add(2, RunDir(tmp_path / "2"), print, seconds=7.0)
        ((_, judged),) = queue.finished(leave=0)
    finally:
        queue.close()

    assert isinstance(unjudged, EnvironmentBroken)
    assert "ended 2 times" in str(unjudged)
    assert "There is no run folder" in str(judged)


def _without_spark(run_dir: RunDir, master: str | None) -> None:
    raise SparkEnded("The JVM ended.")


def test_a_judge_without_its_jvm_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("harness.campaigns.judging_queue.judge", _without_spark)
    monkeypatch.setattr(os, "_exit", sys.exit)

    with pytest.raises(SystemExit):
        _judge(RunDir(tmp_path), print, 7.0, None)
