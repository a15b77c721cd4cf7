"""Trials: a candidate is run again and again until it is clear whether it still shows a finding."""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from harness.campaigns.campaign import Cell
from harness.campaigns.fingerprint import forbidden_kinds
from harness.campaigns.scenario_result import ScenarioResult
from harness.core.errors import UsageError
from harness.core.run_dir import RunDir, canonical_json, write_atomically
from harness.core.verdict import Verdict
from verifiers.run_folder.result import Report

MISSED = 0.1
"""How likely a candidate may be given up though it shows the finding as often as the run did."""
MOST = 6
"""So many runs say that a candidate does not show a finding, however rare it is."""
REPRODUCED = 2
"""So many runs that show the finding say how often it comes."""
_UNCLEAR = 2
"""So many runs of a candidate may end UNKNOWN without the finding; they count neither way."""


class Numbered(Protocol):
    """A candidate."""

    @property
    def number(self) -> int:
        """Its place in the order in which candidates were tried, from 0: the run as it was."""


C = TypeVar("C", bound=Numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a run shows and its contract forbids.

    Attributes:
        anomaly: its name.
        kinds: those that are forbidden; "" stands for no kind.
    """

    anomaly: str
    kinds: frozenset[str]

    @classmethod
    def of(cls, run_dir: RunDir, report: Report, anomaly: str | None = None) -> "Finding":
        """Return what a run found: the anomaly that is asked for, or else the worst.

        Raises:
            UsageError: it found nothing that its contract forbids, or not that.
        """
        found = {name: each for name, each in report.anomalies.items() if each.forbidden}
        if not found:
            raise UsageError(
                f"{run_dir.path} is {report.verdict.name}: nothing that its contract forbids was "
                "found in it. Name a run that is INVALID."
            )
        if anomaly is None:
            anomaly = min(found, key=lambda name: (found[name].severity, name))
        if anomaly not in found:
            raise UsageError(
                f"{run_dir.path} has no forbidden {anomaly}; it has {', '.join(sorted(found))}."
            )
        return cls(anomaly=anomaly, kinds=frozenset(forbidden_kinds(found[anomaly])))

    def is_in(self, result: ScenarioResult) -> bool:
        """Return whether a run shows it too."""
        return any(
            each.anomaly == self.anomaly and each.kind in self.kinds for each in result.fingerprints
        )

    def __str__(self) -> str:
        kinds = ", ".join(sorted(filter(None, self.kinds)))
        return f"{self.anomaly} ({kinds})" if kinds else self.anomaly


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often a candidate was run, and what came of it.

    Attributes:
        shown: how many runs show the finding.
        clean: how many end VALID, or find something else alone, and do not show it.
        unclear: how many end UNKNOWN, or could not be made.
    """

    shown: int = 0
    clean: int = 0
    unclear: int = 0

    @property
    def made(self) -> int:
        """The runs that count."""
        return self.shown + self.clean

    @property
    def rate(self) -> float:
        """How often the finding comes, from 0 to 1 (the mean of Jeffreys' distribution)."""
        return (self.shown + 0.5) / (self.made + 1)

    def __str__(self) -> str:
        return f"{self.shown} of {self.made}"


def runs_needed(rate: float, missed: float = MISSED, most: int = MOST) -> int:
    """Return how many runs without a finding say that a candidate does not show it.

    Args:
        rate: how often it comes where it does, from 0 to 1, both left out.
        missed: how likely so many runs may miss it though it comes as often as that.
        most: the largest answer.
    """
    return min(most, math.ceil(math.log(missed) / math.log(1 - rate)))


def still_missed(rate: float, runs: int) -> float:
    """Return how likely so many runs miss what comes that often."""
    return float((1 - rate) ** runs)


@dataclass(slots=True, kw_only=True)
class Trials(Generic[C]):
    """The runs of candidates, and what they say.

    One candidate, such as the run as it was, is the base: it is repeated until the finding came
    twice, or six times. Every other one shows the finding as soon as one run does; it does not as
    soon as so many runs did not that a candidate which shows it as often as the base would have
    been missed with a probability of a tenth at most (six runs, if that takes more).

    Attributes:
        finding: what is looked for.
        cell: makes the cell of a candidate; the settings given tell it and its run from others.
        missed: the probability above.
        most: the most runs that a candidate takes.
        results: of all runs so far.
        base: the number of that candidate; None as long as there is none, when the finding is
            taken to come every other time.
    """

    finding: Finding
    cell: Callable[[C, Mapping[str, Any]], Cell[ScenarioResult]]
    missed: float = MISSED
    most: int = MOST
    results: Sequence[ScenarioResult] = field(default_factory=tuple)
    base: int | None = 0

    def of(self, number: int) -> Tally:
        """Return what came of a candidate so far."""
        return self._tally(self._runs_of(number))

    def after_first(self, number: int) -> Tally:
        """Return what came of a candidate after the first run that shows the finding.

        That run made it a candidate to go on with, and says nothing of how often it is shown.
        """
        runs = self._runs_of(number)
        first = next((n for n, run in enumerate(runs) if self.finding.is_in(run)), len(runs))
        return self._tally(runs[first + 1 :])

    def _runs_of(self, number: int) -> list[ScenarioResult]:
        runs = [result for result in self.results if result.settings["candidate"] == number]
        return sorted(runs, key=lambda run: int(run.settings["trial"]))

    def _tally(self, runs: Sequence[ScenarioResult]) -> Tally:
        shown = sum(map(self.finding.is_in, runs))
        unclear = sum(
            run.verdict is Verdict.UNKNOWN and not self.finding.is_in(run) for run in runs
        )
        return Tally(shown=shown, clean=len(runs) - shown - unclear, unclear=unclear)

    def shows(self, number: int) -> bool | None:
        """Return whether a candidate shows the finding; None if more runs must say that."""
        tally = self.of(number)
        if number == self.base:
            if tally.shown >= REPRODUCED or tally.made >= self.most:
                return tally.shown > 0
            return tally.shown > 0 if self.is_unclear(number) else None
        if tally.shown:
            return True
        rate = (Tally() if self.base is None else self.of(self.base)).rate
        needed = runs_needed(rate, self.missed, self.most)
        return False if tally.clean >= needed or self.is_unclear(number) else None

    def is_unclear(self, number: int) -> bool:
        """Return whether too many runs of a candidate said nothing."""
        return self.of(number).unclear > _UNCLEAR

    def cells(self, candidates: Generator[C, bool, None]) -> Iterator[Cell[ScenarioResult]]:
        """Yield runs of candidates until each is clear.

        Args:
            candidates: is sent whether the one that it yielded shows the finding.
        """
        try:
            candidate = next(candidates)
            while True:
                yield from self._cells_of(candidate)
                candidate = candidates.send(bool(self.shows(candidate.number)))
        except StopIteration:
            return

    def _cells_of(self, candidate: C) -> Iterator[Cell[ScenarioResult]]:
        while self.shows(candidate.number) is None:
            yield self.again(candidate)

    def confirmed(self, candidate: C, times: int) -> Iterator[Cell[ScenarioResult]]:
        """Yield further runs of a candidate that shows the finding, to say how often it does."""
        while (tally := self.after_first(candidate.number)).made + tally.unclear < times:
            yield self.again(candidate)

    def again(self, candidate: C) -> Cell[ScenarioResult]:
        """Return one more run of a candidate."""
        # What could not be run is left out when a campaign goes on: its number stays its own.
        numbers = (int(run.settings["trial"]) for run in self._runs_of(candidate.number))
        trial = 1 + max(numbers, default=0)
        return self.cell(candidate, {"candidate": candidate.number, "trial": trial})


def write_summary(folder: Path, document: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Write what came of trials into their folder, as JSON and for people."""
    write_atomically(folder / "summary.json", canonical_json(document))
    write_atomically(folder / "summary.md", "".join(f"{line}\n" for line in lines))
