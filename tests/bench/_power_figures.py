"""What goes of the bench `power` say together: how often, how soon, and at which false alarms."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.campaigns.field_values import read_dataclass
from harness.core.run_dir import SCHEMA, read_lines
from tests.bench._bugs import OTHERS_GOAL_MIN, Bug, Side
from tests.bench._goals import Goal

_UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """One search of one version: a line of power.jsonl.

    Attributes:
        bug: the bug that was looked for.
        side: whether the version has it.
        seed: of the search.
        without: the pattern that was left out; empty if none was.
        settings: the flags of the search but for seed, budget and store.
        budget_s: how long it was allowed to take, seconds.
        found: whether an anomaly of the bug was found where it is forbidden.
        seconds: from the beginning of the search until the first run with such an anomaly was
            judged; None if there was none.
        anomalies: those of the bug, as that run found them, with their counts.
        run: the folder of that run, relative to the store; empty if there is none.
        others: runs with other forbidden anomalies: `run` as above, and `anomalies`.
        verdicts: how many runs ended how.
        situations: how many situations some run reached.
        elapsed_s: how long the search took, seconds.
        commit: of the tree that searched; `+` at its end: with changes.
        at_utc: when the search ended.
    """

    bug: str
    side: Side
    seed: int
    without: str = ""
    settings: tuple[str, ...]
    budget_s: float
    found: bool
    seconds: float | None = None
    anomalies: Mapping[str, int] = field(default_factory=dict)
    run: str = ""
    others: tuple[Mapping[str, Any], ...] = ()
    verdicts: Mapping[str, int] = field(default_factory=dict)
    situations: int
    elapsed_s: float
    commit: str
    at_utc: str

    @property
    def runs(self) -> int:
        """How many runs were made."""
        return sum(self.verdicts.values())

    @property
    def known(self) -> int:
        """How many runs say something: those that are not UNKNOWN."""
        return self.runs - self.verdicts.get(_UNKNOWN, 0)

    def document(self) -> dict[str, Any]:
        """Return the go as a JSON object."""
        return {"schema": SCHEMA, **asdict(self)}


def read_goes(path: Path) -> list[Go]:
    """Return the goes in a file of JSON lines; none if there is no file.

    Raises:
        HistoryUnreadable: a line holds no go.
    """
    return [read_dataclass(Go, line) for line in read_lines(path)]


def is_same(go: Go, *, bug: Bug, side: Side, settings: Sequence[str]) -> bool:
    """Return whether a go looked for a bug on a side with these flags."""
    return (go.bug, go.side, go.settings) == (bug.id, side, tuple(settings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the goes for one bug say together.

    Attributes:
        bug: what was looked for.
        budget_s: a bug that was not found within it was not found, seconds.
        affected: the goes on the version that has the bug, each with at least this budget.
        fixed: the goes on the version that does not.
    """

    bug: Bug
    budget_s: float
    affected: Sequence[Go]
    fixed: Sequence[Go] = ()

    @property
    def found(self) -> int:
        """In how many goes the bug was found within the budget."""
        return sum(seconds < math.inf for seconds in self._times_s)

    @property
    def _times_s(self) -> list[float]:
        """Seconds to the first finding, by go; infinite if it did not come within the budget."""
        times = [math.inf if go.seconds is None else go.seconds for go in self.affected]
        return [seconds if seconds <= self.budget_s else math.inf for seconds in times]

    @property
    def median_s(self) -> float | None:
        """Median of the seconds to the first finding, those of goes without one being the budget.

        It is only known to be larger if half of the goes found nothing; None without a go, or if
        more than half of them found nothing: then it is larger than the budget.
        """
        times = self._times_s
        if not times or 2 * self.found < len(times):
            return None
        return statistics.median(min(seconds, self.budget_s) for seconds in times)

    @property
    def is_median_known(self) -> bool:
        """Whether more than half of the goes found the bug."""
        return 2 * self.found > len(self.affected)

    @property
    def median_min(self) -> str:
        """The median in words, minutes."""
        if not self.affected:
            return "not measured yet"
        if self.median_s is None:
            return f"> {self.budget_s / 60:g}"
        return f"{'' if self.is_median_known else '≥ '}{self.median_s / 60:.1f}"

    @property
    def false_alarms(self) -> list[Go]:
        """The goes that found the bug where it is not."""
        return [go for go in self.fixed if go.found]

    @property
    def situations(self) -> float | None:
        """Median of the situations that a go on the affected version reached; None without one."""
        return statistics.median(go.situations for go in self.affected) if self.affected else None

    @property
    def runs_an_hour(self) -> float | None:
        """Runs of all goes in an hour; None without any."""
        goes = [*self.affected, *self.fixed]
        elapsed_s = sum(go.elapsed_s for go in goes)
        return 3600 * sum(go.runs for go in goes) / elapsed_s if elapsed_s else None

    @property
    def others(self) -> list[tuple[Go, Mapping[str, Any]]]:
        """The runs on the fixed version that found something else that is forbidden."""
        return [(go, run) for go in self.fixed for run in go.others]

    def document(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        rate = self.runs_an_hour
        return {
            "bug": self.bug.id,
            "anomalies": list(self.bug.anomalies),
            "affected": str(self.bug.affected),
            "fixed": str(self.bug.fixed),
            "budget_s": self.budget_s,
            "found": self.found,
            "goes": len(self.affected),
            "median_s": self.median_s if self.is_median_known else None,
            "median_min": self.median_min,
            "situations": self.situations,
            "runs_an_hour": None if rate is None else round(rate, 1),
            "verdicts": dict(_verdicts(self.affected)),
            "fixed_goes": len(self.fixed),
            "fixed_verdicts": dict(_verdicts(self.fixed)),
            "false_alarms": [go.run for go in self.false_alarms],
            "others_on_fixed": [dict(run) for _, run in self.others],
        }


def _verdicts(goes: Iterable[Go]) -> Counter[str]:
    total: Counter[str] = Counter()
    for go in goes:
        total.update(go.verdicts)
    return total


def figures_of(
    bug: Bug, goes: Sequence[Go], *, budget_s: float, patterns: Sequence[str] = ()
) -> Figures:
    """Return what goes say of a bug.

    Goes with other flags than those of today do not count, and on the affected version neither do
    those that were given less time.

    Args:
        bug: the bug.
        goes: of any bugs.
        budget_s: as of `Figures`.
        patterns: the flags with which a pattern is left out; empty: none is.
    """

    def those(side: Side) -> list[Go]:
        settings = [*bug.arguments(side), *patterns]
        return [go for go in goes if is_same(go, bug=bug, side=side, settings=settings)]

    return Figures(
        bug=bug,
        budget_s=budget_s,
        affected=[go for go in those("affected") if go.budget_s >= budget_s],
        fixed=those("fixed"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What a pattern contributes to the finding of a bug.

    Attributes:
        pattern: its name.
        all_patterns: what the goes with all patterns say, within the budget of the others.
        all_but_it: what those without the pattern say.
    """

    pattern: str
    all_patterns: Figures
    all_but_it: Figures

    def document(self) -> dict[str, Any]:
        """Return the contribution as a JSON object."""
        return {
            "pattern": self.pattern,
            "all_patterns": self.all_patterns.document(),
            "all_but_it": self.all_but_it.document(),
        }


def contribution_of(
    pattern: str, bug: Bug, goes: Sequence[Go], *, patterns: Sequence[str]
) -> Contribution | None:
    """Return what a pattern contributes; None if no go was made without it.

    Args:
        pattern: its name.
        bug: what was looked for.
        goes: of any bugs.
        patterns: the flags with which the pattern is left out.
    """
    settings = [*bug.arguments("affected"), *patterns]
    budgets_s = [
        go.budget_s for go in goes if is_same(go, bug=bug, side="affected", settings=settings)
    ]
    if not budgets_s:
        return None
    budget_s = min(budgets_s)
    return Contribution(
        pattern=pattern,
        all_patterns=figures_of(bug, goes, budget_s=budget_s),
        all_but_it=figures_of(bug, goes, budget_s=budget_s, patterns=patterns),
    )


def goals_of(asked: Sequence[Figures], measured: Sequence[Figures]) -> list[Goal]:
    """Return what was aimed at.

    Args:
        asked: of the bugs that were asked for.
        measured: of all bugs.
    """
    goals = []
    for figures in asked:
        bug = figures.bug
        if bug.goal_min is not None:
            goals.append(
                Goal(
                    name=f"{bug.id}, minutes until it is found, median",
                    measured=_minutes(figures),
                    at_most=bug.goal_min,
                )
            )
        name = f"{bug.id}, on the fixed version {bug.fixed}"
        alarms, known = len(figures.false_alarms), sum(go.known for go in figures.fixed)
        goals.append(Goal(name=f"{name}, false alarms", measured=alarms, at_most=0))
        # Nothing was found where nothing was looked at, too.
        goals.append(Goal(name=f"{name}, runs not UNKNOWN", measured=known, at_least=1))
    if any(figures.bug.goal_min is None for figures in asked):
        others = [figures for figures in measured if figures.bug.goal_min is None]
        goals.append(
            Goal(
                name=f"the first of {', '.join(each.bug.id for each in others)}, minutes, median",
                measured=min(map(_minutes, others)),
                at_most=OTHERS_GOAL_MIN,
            )
        )
    return goals


def _minutes(figures: Figures) -> float:
    """Return the median in minutes; infinite if it is not known."""
    known = figures.is_median_known and figures.median_s is not None
    return round((figures.median_s or 0.0) / 60, 2) if known else math.inf
