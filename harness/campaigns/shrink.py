"""Shrinking: the smallest experiment that still shows what a run has found."""

import re
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Cell, Session, open_folder, run_campaign
from harness.campaigns.configure import with_topic
from harness.campaigns.fingerprint import covers
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.campaigns.trials import Finding, Tally, Trials, write_summary
from harness.core.errors import UsageError
from harness.core.fault import describe
from harness.core.run_dir import SCHEMA, write_atomically
from harness.core.scenario import SCENARIOS, Scenario, Step
from harness.core.schedule import Script
from harness.run.nemesis import ALONE, opens_pattern, plan, plan_json
from verifiers.run_folder.result import Report

CONFIRMED = 3
"""So many further runs of the smallest candidate say how often it shows the finding."""
_QUIET_S = 3.0
"""Before the first fault of a candidate, and after the last: as in plans that are drawn."""
_GAP_S = 5.0
"""A longer gap between two faults is not needed for a run."""
_SHORTEST_HOLD_S = 1.0
_LAST_PART = 0.25
"""Of the time, what is kept for the runs that confirm the result."""
_FAULT_ID = re.compile(r"\((\d+)\)")
_AT_S = re.compile(r" at ([\d.]+) s\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An experiment that may show the finding.

    Attributes:
        number: its place in the order in which candidates were tried; 0 is the run as it was.
        words: what is smaller than in the smallest one before it.
        scenario: the experiment.
    """

    number: int
    words: str
    scenario: Scenario


@dataclass(slots=True, kw_only=True)
class Shrink:
    """What is shrunk, and how far that has come.

    Attributes:
        scenario: of the run.
        seed: of the run; it draws what is left to chance, such as victims.
        finding: what must still be shown.
        suspects: ids of the steps that the verdict connects with the finding; tried alone, first.
        is_late: whether the rest of the time is needed to confirm what was found.
    """

    scenario: Scenario
    seed: int
    finding: Finding
    suspects: Collection[str] = ()
    is_late: Callable[[], bool] = lambda: False
    tried: list[Candidate] = field(default_factory=list)
    trials: Trials[Candidate] = field(init=False)
    _smallest: Candidate | None = None

    def __post_init__(self) -> None:
        """Make ready to count the runs of candidates."""
        self.trials = Trials(finding=self.finding, cell=self._cell)

    @property
    def smallest(self) -> Candidate | None:
        """The smallest candidate that shows the finding; None as long as no run has shown it."""
        return self._smallest

    def cells(self) -> Iterator[Cell[ScenarioResult]]:
        """Yield the runs of ever smaller candidates, then some more of the smallest."""
        yield from self.trials.cells(self._candidates())
        if self._smallest is not None and self._smallest.number:
            yield from self.trials.confirmed(self._smallest, CONFIRMED)

    def _cell(self, candidate: Candidate, settings: Mapping[str, Any]) -> Cell[ScenarioResult]:
        topic = f"shrink-{candidate.number}-{settings['trial']}"
        return scenario_cell(
            with_topic(candidate.scenario, topic),
            settings={**settings, "words": candidate.words, "seed": self.seed},
            title=f"candidate {candidate.number}, {candidate.words}, run {settings['trial']}",
            seed=self.seed,
            shares_cluster=True,
        )

    def _candidates(self) -> Generator[Candidate, bool, None]:
        # Steps that are written out are the same in every candidate that keeps them. The topic is
        # the one that a plan or a scenario file is read for. What is left of a pattern is none.
        steps = plan(self.scenario, self.seed)
        written = Script(script=tuple(replace(step, pattern="") for step in steps))
        registered: Any = SCENARIOS[self.scenario.name]().workload
        begin = with_topic(replace(self.scenario, schedule=written), registered.topic)
        if not (yield from self._based(self._next("as it was", begin), steps)):
            return
        yield from self._fewer_steps()
        for words, smaller in _REDUCTIONS:
            # What was possible once is tried again: half of half the rate.
            while (scenario := smaller(self._now)) is not None:
                if not (yield from self._try(words, scenario)):
                    break

    @property
    def _now(self) -> Scenario:
        return (self._smallest or self.tried[0]).scenario

    def _next(self, words: str, scenario: Scenario) -> Candidate:
        candidate = Candidate(number=len(self.tried), words=words, scenario=scenario)
        self.tried.append(candidate)
        return candidate

    def _based(self, whole: Candidate, planned: Sequence[Step]) -> Generator[Candidate, bool, bool]:
        """Try the suspects alone, and only if they do not show the finding the run as it was.

        Their runs are shorter. The one that shows it is run until it is clear how often it does.
        """
        self.trials.base = None
        steps = steps_of(whole.scenario)
        hanging = _with_what_hangs_together(planned, self.suspects)
        alone = tuple(s for n, s in enumerate(steps, start=1) if str(n) in hanging)
        if 0 < len(alone) < len(steps) and (yield from self._try_steps(alone)):
            self.trials.base = self.tried[-1].number
            return (yield self.tried[-1])
        self.trials.base = whole.number
        if shows := (yield whole):
            self._smallest = whole
        return shows

    def _try(self, words: str, scenario: Scenario) -> Generator[Candidate, bool, bool]:
        if self.is_late():
            return False
        candidate = self._next(words, scenario)
        shows = yield candidate
        if shows:
            self._smallest = candidate
        return shows

    def _fewer_steps(self) -> Generator[Candidate, bool, None]:
        """Leave out ever smaller parts of the steps (after Zeller's ddmin)."""
        steps = steps_of(self._now)
        parts = 2
        while len(steps) > 1:
            parts = min(parts, len(steps))
            for rest in _without_a_part(steps, parts):
                if (yield from self._try_steps(rest)):
                    steps, parts = rest, max(2, parts - 1)
                    break
            else:
                if parts == len(steps):
                    return
                parts *= 2

    def _try_steps(self, steps: tuple[Step, ...]) -> Generator[Candidate, bool, bool]:
        words = f"{len(steps)} of {len(steps_of(self.tried[0].scenario))} steps"
        return (yield from self._try(words, _with_steps(self._now, steps)))


def suspects(report: Report, finding: Finding, origin_ns: int | None) -> frozenset[str]:
    """Return the ids of the faults that a verdict connects with a finding.

    These are the faults that it names as the cause, and those in force at the time of the cause or
    of an offence.

    Args:
        report: on the run.
        finding: what was found.
        origin_ns: the zero of the report's seconds; None if unknown.
    """
    found: set[str] = set()
    for example in report.anomalies[finding.anomaly].examples:
        if (example.kind or "") not in finding.kinds:
            continue
        cause = example.detail.get("lost_by") or ""
        found.update(_FAULT_ID.findall(cause))
        times_s = [float(at_s) for at_s in _AT_S.findall(cause)]
        if example.time_ns is not None and origin_ns is not None:
            times_s.append((example.time_ns - origin_ns) / 1e9)
        for fault in report.faults:
            if any(covers(fault, at_s) for at_s in times_s):
                found.add(fault.id)
    return frozenset(found & {fault.id for fault in report.faults})


def _with_what_hangs_together(steps: Sequence[Step], ids: Collection[str]) -> set[str]:
    """Return ids of steps, of all in their patterns, and of those that follow by an event.

    One opens what another one meets.
    """
    groups: list[set[str]] = []
    before: Step | None = None
    for number, step in enumerate(steps, start=1):
        is_single = step.pattern in ("", ALONE)
        begins = step.after is None and (is_single or opens_pattern(step, before))
        if begins or not groups:
            groups.append(set())
        groups[-1].add(str(number))
        before = step
    return set().union(*(group for group in groups if not group.isdisjoint(ids)))


def steps_of(scenario: Scenario) -> tuple[Step, ...]:
    """Return the steps of a scenario whose steps are written out."""
    return scenario.schedule.script if isinstance(scenario.schedule, Script) else ()


def _without_a_part(steps: tuple[Step, ...], parts: int) -> list[tuple[Step, ...]]:
    """Return steps without each of so many parts of about the same length."""
    bounds = [len(steps) * n // parts for n in range(parts + 1)]
    return [steps[:a] + steps[b:] for a, b in pairwise(bounds)]


def _with_steps(scenario: Scenario, steps: Sequence[Step]) -> Scenario:
    """Return a scenario with these steps alone; it begins with the first, and ends with the last.

    A step that waits for an event listens from the step before it; the first one has none.
    """
    early_s = steps[0].at_s - min(steps[0].at_s, _QUIET_S)
    moved = tuple(replace(step, at_s=round(step.at_s - early_s, 2)) for step in steps)
    last_s = max(step.at_s + step.hold_s + _wait_s(step) for step in moved)
    return replace(
        scenario,
        schedule=Script(script=moved),
        duration_s=min(scenario.duration_s, round(last_s + _QUIET_S, 1)),
    )


def _wait_s(step: Step) -> float:
    return 0.0 if step.after is None else step.after.delay_s + step.after.within_s


# -- what is made smaller once no step can be left out -----------------------------------------


def _without_gaps(scenario: Scenario) -> Scenario | None:
    moved: list[Step] = []
    early_s = end_s = 0.0
    for step in steps_of(scenario):
        if moved:
            early_s = max(early_s, step.at_s - end_s - _GAP_S)
        moved.append(replace(step, at_s=round(step.at_s - early_s, 2)))
        end_s = max(end_s, step.at_s + step.hold_s)
    return _with_steps(scenario, moved) if early_s >= 1 else None


def _shorter_holds(scenario: Scenario) -> Scenario | None:
    steps, halved, early_s = steps_of(scenario), [], 0.0
    if all(step.hold_s < 2 * _SHORTEST_HOLD_S for step in steps):
        return None
    for step in steps:
        hold_s = max(_SHORTEST_HOLD_S, round(step.hold_s / 2, 2)) if step.hold_s else step.hold_s
        halved.append(replace(step, at_s=max(0.0, round(step.at_s - early_s, 2)), hold_s=hold_s))
        early_s += max(0.0, step.hold_s - hold_s) if _is_alone(step, steps) else 0.0
    return _with_steps(scenario, halved)


def _is_alone(step: Step, steps: Sequence[Step]) -> bool:
    """Return whether no other step begins while a step's fault is in force."""
    return not any(step.at_s <= other.at_s < step.at_s + step.hold_s for other in steps
                   if other is not step)  # fmt: skip


def _of_workload(name: str, smallest: Callable[[Any], Any]) -> Callable[[Scenario], Any]:
    """Return what makes a field of the workload smaller, if there is one and it is larger."""

    def smaller(scenario: Scenario) -> Scenario | None:
        workload: Any = scenario.workload
        if name not in {entry.name for entry in fields(workload)}:
            return None
        before, after = getattr(workload, name), smallest(scenario)
        if after is None or after >= before:
            return None
        try:
            return replace(scenario, workload=replace(workload, **{name: after}))
        except UsageError:
            return None

    return smaller


def _partitions(scenario: Scenario) -> int:
    """Return how many partitions the steps speak of."""
    named = [
        describe(thing)["parameters"].get("partition") or 0
        for step in steps_of(scenario)
        for thing in (step.target, *((step.after.event,) if step.after else ()))
    ]
    return 1 + max(named, default=0)


def _half_rate(scenario: Scenario) -> float | None:
    workload: Any = scenario.workload
    return workload.rate_per_s / 2 if workload.rate_per_s >= 20 else None


def _fewer_brokers(scenario: Scenario) -> Scenario | None:
    least = scenario.contract.replication_factor
    if not scenario.cluster.is_ours or scenario.cluster.brokers <= least:
        return None
    return replace(scenario, cluster=replace(scenario.cluster, brokers=least))


_REDUCTIONS: tuple[tuple[str, Callable[[Scenario], Scenario | None]], ...] = (
    ("no long gaps", _without_gaps),
    ("holds half as long", _shorter_holds),
    ("one producer", _of_workload("producers", lambda _: 1)),
    ("no subscribers", _of_workload("subscribers", lambda _: 0)),
    ("one consumer", _of_workload("consumers", lambda _: 1)),
    ("fewer partitions", _of_workload("partitions", _partitions)),
    ("half the rate", _of_workload("rate_per_s", _half_rate)),
    ("fewer brokers", _fewer_brokers),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkSummary:
    """A shrinking as far as it has come.

    Attributes:
        run: name of the run.
        kafka: version of its brokers.
        finding: what is shown.
        seed: of the run.
        first: how often the run as it was shows it; it is not run where its suspects alone do.
        tried: how many candidates were tried.
        runs: how many runs that took.
        before: the run as it was.
        smallest: the smallest candidate that shows it; None if the run itself did not again.
        shown: how often that one shows it, the run that made it the smallest left out.
        elapsed_s: since the shrinking began, or went on, seconds.
    """

    run: str
    kafka: str
    finding: Finding
    seed: int
    first: Tally
    tried: int
    runs: int
    before: Scenario | None
    smallest: Candidate | None
    shown: Tally
    elapsed_s: float

    @property
    def is_reproduced(self) -> bool:
        """Whether a run showed the finding again."""
        return self.smallest is not None

    def lines(self) -> list[str]:
        """Return the summary for a console."""
        if self.smallest is None or self.before is None:
            return [f"{self.finding} of {self.run} was not shown again in {self.runs} runs."]
        first = f"shown by {self.first} runs as it was; " if self.first.made else ""
        lines = [
            f"{self.finding} of {self.run}, Kafka {self.kafka}: {first}{self.tried} candidates, "
            f"{self.runs} runs, {self.elapsed_s / 60:.0f} min"
        ]
        before, after = _sizes(self.before), _sizes(self.smallest.scenario)
        smaller = [f"{name} {was:g} → {after[name]:g}" for name, was in before.items()
                   if after[name] != was]  # fmt: skip
        lines.append(f"  smaller: {', '.join(smaller) or 'nothing'}")
        if self.smallest.number:
            lines.append(f"  the smallest was run again: {self.shown} runs show it")
        for number, step in enumerate(steps_of(self.smallest.scenario), start=1):
            when, fault, target, hold = step.words()
            lines.append(f"  {number}  {when}  {fault}  {target}  for {hold}")
        return lines

    def document(self) -> dict[str, Any]:
        """Return the summary as one JSON object."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "kafka": self.kafka,
            "anomaly": self.finding.anomaly,
            "kinds": sorted(self.finding.kinds),
            "seed": self.seed,
            "first": {"shown": self.first.shown, "made": self.first.made},
            "reproduced": self.is_reproduced,
            "candidates": self.tried,
            "runs": self.runs,
            "elapsed_s": round(self.elapsed_s, 1),
            "before": self.before and _sizes(self.before),
            "after": self.smallest and _sizes(self.smallest.scenario),
            "again": {"shown": self.shown.shown, "made": self.shown.made},
        }

    def write(self, folder: Path) -> None:
        """Write the summary, and the plan of the smallest candidate."""
        write_summary(folder, self.document(), self.lines())
        if self.smallest is not None:
            write_atomically(folder / "plan.json", plan_json(self.smallest.scenario, self.seed))


def _sizes(scenario: Scenario) -> dict[str, float]:
    """Return what a person reads of the size of an experiment, by name."""
    workload: Any = scenario.workload
    names = ("partitions", "producers", "consumers", "subscribers", "rate_per_s")
    return {
        "steps": len(steps_of(scenario)),
        "seconds": scenario.duration_s,
        "brokers": scenario.cluster.brokers,
        **{name: getattr(workload, name) for name in names if hasattr(workload, name)},
    }


def run_shrink(shrink: Shrink, run: str, session: Session) -> tuple[ShrinkSummary, Path]:
    """Try ever smaller experiments until none is left, or the time is over.

    Args:
        shrink: what is shrunk.
        run: name of the run.
        session: how; its budget is the time.

    Returns:
        What came of it, and the folder in which that lies, the plan of the smallest among it.

    Raises:
        UsageError: there is nothing to go on with, or the store cannot be written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    asked = {"schema": SCHEMA, "run": run, "anomaly": shrink.finding.anomaly}
    folder = open_folder(session, f"*-shrink-{run}", asked)
    begin = time.monotonic()
    if session.budget_s is not None:
        last_s = begin + (1 - _LAST_PART) * session.budget_s
        shrink.is_late = lambda: time.monotonic() > last_s

    def summarize(results: Sequence[ScenarioResult]) -> ShrinkSummary:
        shrink.trials.results = results
        smallest = shrink.smallest
        shown = Tally() if smallest is None else shrink.trials.after_first(smallest.number)
        return ShrinkSummary(
            run=run, kafka=shrink.scenario.cluster.kafka, finding=shrink.finding, seed=shrink.seed,
            first=shrink.trials.of(0), tried=len(shrink.tried), runs=len(results),
            before=shrink.tried[0].scenario if shrink.tried else None, smallest=smallest,
            shown=shown, elapsed_s=time.monotonic() - begin,
        )  # fmt: skip

    campaign = Campaign(
        cells=shrink.cells(), read=ScenarioResult.read, summarize=summarize, waits=True
    )
    summary = run_campaign(campaign, folder, session)
    session.progress.say(f"the plan and the summary lie in {folder}")
    return summary, folder
