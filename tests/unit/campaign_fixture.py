"""A machine on which runs are made and judged at once, for the tests of campaigns."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.campaigns.conduct import RunResult
from harness.core.errors import KafkaChaosError
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from verifiers.run_folder.result import AnomalyFinding, Counts, JudgedFault, Report


class Machine:
    """Stands in for containers and Spark.

    Attributes:
        runners: those of the runs that were made.
        events: "made" and "judged" with the names of runs, in their order.
        during: called in the middle of each run; it may set the runner's `stop`, or raise.
        report: makes the report of a run.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runners: list[Runner] = []
        self.events: list[str] = []
        self.during: Callable[[Runner], None] = lambda _: None
        self.report: Callable[[Runner], Report | KafkaChaosError] = lambda runner: report(runner)
        self.reports: dict[str, Report | KafkaChaosError] = {}
        monkeypatch.setattr(Runner, "execute", lambda runner: self.record_run(runner))
        self.queue = Queue(self)
        monkeypatch.setattr("harness.campaigns.campaign.JudgingQueue", lambda _: self.queue)

    @property
    def made(self) -> list[str]:
        """The names of the runs that were made to their end."""
        return [event.removeprefix("made ") for event in self.events if event.startswith("made")]

    def record_run(self, runner: Runner) -> RunDir:
        """Make a run."""
        was_stopped = runner.stop.is_set()
        self.runners.append(runner)
        self.during(runner)
        run_dir = RunDir.create(runner.store, scenario=runner.run.name, seed=runner.seed)
        cut_short = runner.stop.is_set() and not was_stopped
        run_dir.update(state="aborted" if cut_short else "complete")
        if not cut_short:
            self.events.append(f"made {run_dir.name}")
        self.reports[run_dir.name] = self.report(runner)
        return run_dir


class Queue:
    """Judges each run while the next one is made, and not before."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._waiting: deque[tuple[Any, RunDir, Any, float]] = deque()
        self._told: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Any, run_dir: RunDir, interpret: Any, *, seconds: float, told: Any) -> None:
        self._waiting.append((item, run_dir, interpret, seconds))
        self._told.append(told)

    def tell(self) -> None:
        """Judge all that waits; what it says comes to whom it concerns before it is asked for."""
        for (_, run_dir, interpret, seconds), told in zip(self._waiting, self._told, strict=True):
            found = self._machine.reports[run_dir.name]
            assert not isinstance(found, KafkaChaosError)
            told(interpret(RunResult(run_dir=run_dir, report=found), seconds + 1.0))

    def finished(self, *, leave: int) -> Iterator[tuple[Any, Any]]:
        while len(self._waiting) > leave:
            item, run_dir, interpret, seconds = self._waiting.popleft()
            self._told.popleft()
            found = self._machine.reports[run_dir.name]
            self._machine.events.append(f"judged {run_dir.name}")
            if isinstance(found, KafkaChaosError):
                yield item, found
            else:
                yield item, interpret(RunResult(run_dir=run_dir, report=found), seconds + 1.0)

    def close(self) -> None:
        self._waiting.clear()
        self._told.clear()


def report(
    runner: Runner,
    verdict: Verdict = Verdict.VALID,
    *,
    reasons: tuple[str, ...] = (),
    destroys_data: bool = True,
    **anomalies: tuple[int, bool],
) -> Report:
    """Return the report of a run with one proven fault, and these anomalies: count, permitted."""
    fault = JudgedFault(
        id="1", name="power_loss", target="leader", victims=(1,), injected_at_s=3.0,
        healed_at_s=9.0, proven=True, destroys_data=destroys_data,
    )  # fmt: skip
    return Report(
        run="a-run", scenario=runner.run.name, seed=runner.seed, kafka=runner.run.cluster.kafka,
        verdict=verdict, reasons=reasons,
        anomalies={
            name.replace("_", "-"): AnomalyFinding(
                count=count, permitted=permitted, why="", kinds={}, examples=()
            )
            for name, (count, permitted) in anomalies.items()
        },
        counts=Counts(acked=1234), faults=(fault,), checkers={}, timing_s={},
        liveness={"widest": {"gap_s": 12.5}},
    )  # fmt: skip


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)
