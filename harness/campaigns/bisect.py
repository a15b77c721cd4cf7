"""Bisecting: the release of Kafka from which on a finding is no longer shown, or first is."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Campaign, Cell, Session, open_folder, run_campaign
from harness.campaigns.configure import with_topic
from harness.campaigns.scenario_result import ScenarioResult, scenario_cell
from harness.campaigns.trials import Finding, Tally, Trials, still_missed, write_summary
from harness.core.errors import UsageError
from harness.core.run_dir import SCHEMA
from harness.core.scenario import Scenario
from harness.core.version import (
    FIRST_KRAFT,
    FIRST_WITH_LARGE_SEGMENTS,
    FIRST_WITHOUT_ZOOKEEPER,
    SMALLEST_SEGMENT,
    numbers,
)

MISSED = 0.05
"""How likely a release that has the finding may be told to be without it."""
MOST = 12
"""So many runs a release at most, however rare the finding is."""
_OF_A_RELEASE = ("inter.broker.protocol.version", "log.message.format.version")
"""Properties whose value names a release: another one may not know it."""
_SEGMENT = "log.segment.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Kafka under the experiment.

    Attributes:
        number: its place in the order in which releases were tried; 0 is the bad one.
        kafka: its version.
        scenario: the experiment on it.
    """

    number: int
    kafka: str
    scenario: Scenario


@dataclass(slots=True, kw_only=True)
class Bisect:
    """What is bisected, and how far that has come.

    Attributes:
        scenario: of the run.
        seed: of the run.
        finding: what is looked for.
        releases: all that there are, the oldest first.
        bad: the one that shows the finding.
        good: the one that does not.
    """

    scenario: Scenario
    seed: int
    finding: Finding
    releases: Sequence[str]
    bad: str
    good: str
    tried: dict[str, Release] = field(default_factory=dict)
    trials: Trials[Release] = field(init=False)

    def __post_init__(self) -> None:
        """Make ready to count the runs of releases.

        Raises:
            UsageError: one of the two is not among the releases, or both are one.
        """
        self.trials = Trials(finding=self.finding, cell=self._cell, missed=MISSED, most=MOST)
        for version in (self.bad, self.good):
            if version not in self.releases:
                raise UsageError(
                    f"There is no Kafka {version} to bisect with; there are "
                    f"{', '.join(self.releases)}."
                )
        if self.bad == self.good:
            raise UsageError(f"{self.bad} cannot be good and bad: name two releases.")
        oldest, newest = sorted(map(self.releases.index, (self.bad, self.good)))
        self.scenario = for_all(self.scenario, self.releases[oldest : newest + 1])

    def cells(self) -> Iterator[Cell[ScenarioResult]]:
        """Yield runs: of the bad release, of the good one, then of those halfway between."""
        return self.trials.cells(self._candidates())

    def _cell(self, release: Release, settings: Mapping[str, Any]) -> Cell[ScenarioResult]:
        topic = f"bisect-{release.number}-{settings['trial']}"
        return scenario_cell(
            with_topic(release.scenario, topic),
            settings={**settings, "kafka": release.kafka, "seed": self.seed},
            title=f"Kafka {release.kafka}, run {settings['trial']}",
            seed=self.seed,
            shares_cluster=True,
        )

    def _candidates(self) -> Generator[Release, bool, None]:
        if not (yield self._next(self.bad)):
            return
        yield self._next(self.good)
        if not self.is_without(self.good):
            return
        while between := self.between:
            yield self._next(between[len(between) // 2])

    def _next(self, kafka: str) -> Release:
        if kafka not in self.tried:
            scenario = on_release(self.scenario, kafka)
            self.tried[kafka] = Release(number=len(self.tried), kafka=kafka, scenario=scenario)
        return self.tried[kafka]

    def shows(self, kafka: str) -> bool | None:
        """Return whether a release shows the finding; None if that is not clear yet."""
        release = self.tried.get(kafka)
        return None if release is None else self.trials.shows(release.number)

    def is_without(self, kafka: str) -> bool:
        """Return whether enough runs of a release did not show the finding."""
        return self.shows(kafka) is False and kafka not in self.unclear

    @property
    def unclear(self) -> list[str]:
        """The releases whose runs said nothing."""
        return [
            kafka
            for kafka, release in self.tried.items()
            if self.trials.is_unclear(release.number) and not self.shows(kafka)
        ]

    def tally(self, kafka: str) -> Tally:
        """Return what came of a release."""
        release = self.tried.get(kafka)
        return Tally() if release is None else self.trials.of(release.number)

    @property
    def bounds(self) -> tuple[str, str]:
        """The last release known to be bad and the first known to be good, seen from the bad."""
        order = [*self.releases] if self._is_mended else [*reversed(self.releases)]
        order = order[order.index(self.bad) : order.index(self.good) + 1]
        bad = max((v for v in order if self.shows(v)), key=order.index, default=self.bad)
        after = order[order.index(bad) + 1 :]
        good = next((v for v in after if self.is_without(v)), self.good)
        return bad, good

    @property
    def _is_mended(self) -> bool:
        return self.releases.index(self.bad) < self.releases.index(self.good)

    @property
    def between(self) -> list[str]:
        """The releases between the two bounds, those left out whose runs say nothing."""
        bad, good = sorted(map(self.releases.index, self.bounds))
        return [kafka for kafka in self.releases[bad + 1 : good] if kafka not in self.unclear]

    @property
    def answer(self) -> str:
        """What is known, in a sentence."""
        if self.shows(self.bad) is False:
            return f"{self.finding} was not shown again: {self.tally(self.bad)} runs on {self.bad}."
        if self.shows(self.good):
            return f"{self.good} shows {self.finding} too: {self.tally(self.good)} runs."
        bad, good = self.bounds
        if not self.is_answered:
            return f"Not done: {self.finding} is shown by {bad}, and is to be gone by {good}."
        skipped = f" Nothing could be told of {', '.join(self.unclear)}." if self.unclear else ""
        if self._is_mended:
            return (
                f"{good} is the first release without {self.finding}; {bad} is the last with it."
                f"{skipped}"
            )
        return (
            f"{bad} is the first release with {self.finding}; {good} is the last without it."
            f"{skipped}"
        )

    @property
    def is_answered(self) -> bool:
        """Whether two neighbouring releases were told apart."""
        return bool(self.shows(self.bad)) and self.is_without(self.good) and not self.between


def for_all(scenario: Scenario, releases: Sequence[str]) -> Scenario:
    """Return an experiment whose broker properties all of these releases take.

    Releases are to differ in nothing else, so where one of them has a bound, all are given it.
    """
    if all(numbers(kafka) < FIRST_WITH_LARGE_SEGMENTS for kafka in releases):
        return scenario
    config = dict(scenario.cluster.config)
    if _SEGMENT in config:
        config[_SEGMENT] = str(max(int(config[_SEGMENT]), SMALLEST_SEGMENT))
    return replace(scenario, cluster=replace(scenario.cluster, config=tuple(config.items())))


def on_release(scenario: Scenario, kafka: str) -> Scenario:
    """Return an experiment on another release of Kafka, with what that one can do.

    Properties and features that belong to a release are left out, and so is an explicit place of
    the metadata that the release does not have.

    Raises:
        UsageError: the contract cannot be kept by the release, or the cluster is a user's own.
    """
    if not scenario.cluster.is_ours or scenario.cluster.image:
        raise UsageError(
            "The run was made on brokers of your own: releases of Kafka cannot take their place."
        )
    version, cluster = numbers(kafka), scenario.cluster
    metadata = cluster.metadata
    if (metadata == "kraft" and version < FIRST_KRAFT) or (
        metadata == "zookeeper" and version >= FIRST_WITHOUT_ZOOKEEPER
    ):
        metadata = None
    spec = replace(
        cluster,
        kafka=kafka,
        metadata=metadata,
        features=(),
        config=tuple((key, value) for key, value in cluster.config if key not in _OF_A_RELEASE),
    )
    return replace(scenario, cluster=spec, contract=scenario.contract.kept_by(kafka))


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectSummary:
    """A bisection as far as it has come.

    Attributes:
        run: name of the run.
        bisect: what is known.
        runs: how many there were.
        elapsed_s: since it began, or went on, seconds.
    """

    run: str
    bisect: Bisect
    runs: int
    elapsed_s: float

    @property
    def doubt(self) -> float:
        """How likely the clean runs of the first good release missed what it has all the same."""
        bisect = self.bisect
        return still_missed(bisect.tally(bisect.bad).rate, bisect.tally(bisect.bounds[1]).clean)

    def lines(self) -> list[str]:
        """Return the summary for a console."""
        bisect = self.bisect
        lines = [bisect.answer]
        for kafka in bisect.releases:
            if kafka in bisect.tried:
                lines.append(f"  {kafka}  shown by {bisect.tally(kafka)} runs")
        if bisect.is_answered:
            _, good = bisect.bounds
            lines.append(
                f"  If {good} showed it as often as {bisect.bad}, so many runs would all have "
                f"missed it with a probability of {self.doubt:.2g}."
            )
        lines.append(f"  {self.runs} runs, {self.elapsed_s / 60:.0f} min")
        return lines

    def document(self) -> dict[str, Any]:
        """Return the summary as one JSON object."""
        bisect = self.bisect
        bad, good = bisect.bounds
        return {
            "schema": SCHEMA,
            "run": self.run,
            "anomaly": bisect.finding.anomaly,
            "kinds": sorted(bisect.finding.kinds),
            "seed": bisect.seed,
            "answered": bisect.is_answered,
            "answer": bisect.answer,
            "bad": bad,
            "good": good,
            "doubt": self.doubt if bisect.is_answered else None,
            "releases": [
                {"kafka": kafka, "shown": tally.shown, "made": tally.made, "unclear": tally.unclear}
                for kafka in bisect.releases
                if kafka in bisect.tried
                for tally in [bisect.tally(kafka)]
            ],
            "runs": self.runs,
            "elapsed_s": round(self.elapsed_s, 1),
        }

    def write(self, folder: Path) -> None:
        """Write the summary as JSON, and for people."""
        write_summary(folder, self.document(), self.lines())


def run_bisect(bisect: Bisect, run: str, session: Session) -> BisectSummary:
    """Run the experiment on one release after the other until two neighbours are told apart.

    Args:
        bisect: what is bisected.
        run: name of the run.
        session: how; its budget is the time.

    Raises:
        UsageError: there is nothing to go on with, or the store cannot be written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    asked = {"schema": SCHEMA, "run": run, "anomaly": bisect.finding.anomaly, "bad": bisect.bad,
             "good": bisect.good}  # fmt: skip
    folder = open_folder(session, f"*-bisect-{run}", asked)
    begin = time.monotonic()

    def summarize(results: Sequence[ScenarioResult]) -> BisectSummary:
        bisect.trials.results = results
        return BisectSummary(
            run=run, bisect=bisect, runs=len(results), elapsed_s=time.monotonic() - begin
        )

    campaign = Campaign(
        cells=bisect.cells(), read=ScenarioResult.read, summarize=summarize, waits=True
    )
    summary = run_campaign(campaign, folder, session)
    session.progress.say(f"the summary lies in {folder}")
    return summary
