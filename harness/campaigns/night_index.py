"""index.html: one page about the nights of a store, the last one against those before."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from markupsafe import Markup

from harness.campaigns.known import KnownFindings
from harness.campaigns.night_findings import NightFinding, State, findings_of
from harness.campaigns.night_log import NIGHTS, NightRun, nights_of
from harness.campaigns.pages import render
from harness.campaigns.scenario_result import tally_of
from harness.campaigns.small_lines import Point, small_line
from harness.core.errors import UsageError
from harness.core.run_dir import write_atomically
from harness.core.verdict import Verdict
from harness.core.version import numbers
from verifiers.report import units
from verifiers.situations.situation import SITUATIONS

INDEX = "index.html"
LOOKS_BACK = 30
"""So many nights, the last one included, the page tells of."""
_MOST_CARDS = 60
_MOST_RUNS = 5
_LONGEST = 400

_MEANINGS: dict[State, str] = {
    "new": "no night before has shown it",
    "ongoing": "at least a quarter of the last ten nights showed it",
    "rare": "fewer of the last ten nights showed it",
    "resolved": "none of the last ten nights showed it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRow:
    """One night, as a row of the page's table.

    Attributes:
        name: of its folder.
        verdict: the worst, findings that are known left out.
        runs: how many runs ended how, in words.
        under_fault: for how much of the runs' time some proven fault was in force; None if unknown.
        acked_per_s: sends acknowledged a second, of the time under load; None if unknown.
        findings: how many different findings it made.
    """

    name: str
    verdict: Verdict
    runs: str
    under_fault: float | None
    acked_per_s: float | None
    findings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One kind of fault in the nights that the page tells of.

    Attributes:
        name: of the fault.
        planned: how many there were.
        proven: how many of them were proven.
        felt: how many of these Kafka or its clients showed.
        runs: how many judged runs had one.
        unknown: how many of these ended UNKNOWN.
        unknown_tonight: how many of the last night's.
        runs_tonight: how many judged runs of the last night had one.
    """

    name: str
    planned: int
    proven: int
    felt: int
    runs: int
    unknown: int
    runs_tonight: int
    unknown_tonight: int

    @property
    def unknown_share(self) -> float:
        """The share of runs that ended UNKNOWN."""
        return self.unknown / self.runs if self.runs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What the page tells of.

    Attributes:
        runs: of all nights.
        known: the findings that are known.
    """

    runs: Sequence[NightRun]
    known: KnownFindings

    @property
    def nights(self) -> list[str]:
        """The nights that the page tells of, the oldest first."""
        return nights_of(self.runs)[-LOOKS_BACK:]

    @property
    def tonight(self) -> str:
        """The last night."""
        return self.nights[-1]

    def rows(self) -> list[NightRow]:
        """Return a row for each night, the last one first."""
        findings = self.fingerprints_by_night()
        return [self._row(night, findings.get(night, 0)) for night in reversed(self.nights)]

    def fingerprints_by_night(self) -> dict[str, int]:
        """Return how many different findings each night made."""
        found = {(run.night, each) for run in self.runs for each in run.result.fingerprints}
        return Counter(night for night, _ in found)

    def _row(self, night: str, findings: int) -> NightRow:
        runs = self._of(night)
        return NightRow(
            name=night,
            verdict=self.known.verdict_of_night([run.result for run in runs]),
            runs=tally_of([run.result for run in runs]),
            under_fault=_under_fault(runs),
            acked_per_s=_acked_per_s(runs),
            findings=findings,
        )

    def _of(self, night: str) -> list[NightRun]:
        return [run for run in self.runs if run.night == night]

    def findings(self) -> list[NightFinding]:
        """Return the findings that have a card: the new first, the resolved last."""
        return findings_of(self.runs, night=self.tonight, known=self.known)[:_MOST_CARDS]

    def counts(self) -> dict[State, int]:
        """Return how many findings are in each state."""
        found = Counter(
            each.state for each in findings_of(self.runs, night=self.tonight, known=self.known)
        )
        return {state: found[state] for state in _MEANINGS}

    def versions(self) -> list[str]:
        """Return the versions that were run, the oldest first."""
        shown = {run.result.kafka for run in self._recent() if run.result.kafka}
        return sorted(shown, key=lambda kafka: (numbers(kafka), kafka))

    def _recent(self) -> list[NightRun]:
        nights = set(self.nights)
        return [run for run in self.runs if run.night in nights]

    def situations(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return in how many runs each situation was reached, tonight and in all nights shown.

        By situation and version; situations that no run has reached have no versions.
        """
        tonight, recent = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for run in self._recent():
            for name, count in run.result.situations.items():
                if count:
                    recent[name, run.result.kafka] += 1
                    tonight[name, run.result.kafka] += run.night == self.tonight
        versions = self.versions()
        return {
            name: {
                kafka: (tonight[name, kafka], recent[name, kafka])
                for kafka in versions
                if recent[name, kafka]
            }
            for name in SITUATIONS
        }

    def lines(self) -> dict[str, dict[str, Markup]]:
        """Return, by version, each quantity as a small line over the nights."""
        return {kafka: self._lines_of(kafka) for kafka in self.versions()}

    def _lines_of(self, kafka: str) -> dict[str, Markup]:
        # What a control does to the cluster is scripted: it says nothing of a night.
        runs = [
            run
            for run in self._recent()
            if run.result.kafka == kafka and run.result.run and not run.result.control
        ]
        return {
            "recovery, median": small_line(
                self._points(runs, _recovery_s), what=f"recovery on Kafka {kafka}"
            ),
            "longest without an acknowledgement": small_line(
                self._points(runs, _unavailable_s), what=f"unavailability on Kafka {kafka}"
            ),
            "acknowledged a second": small_line(
                self._points(runs, _acked_per_s),
                what=f"throughput on Kafka {kafka}",
                say=units.count,
            ),
            "of the time under fault": small_line(
                self._points(runs, _under_fault),
                what=f"time under fault on Kafka {kafka}",
                say=lambda share: f"{share:.0%}",
            ),
        }

    def _points(
        self, runs: Sequence[NightRun], measure: Callable[[Sequence[NightRun]], float | None]
    ) -> list[Point]:
        by_night: dict[str, list[NightRun]] = {night: [] for night in self.nights}
        for run in runs:
            by_night[run.night].append(run)
        return [(night, measure(of_night)) for night, of_night in by_night.items()]

    def faults(self) -> list[FaultRow]:
        """Return each kind of fault, those after which most runs ended UNKNOWN first."""
        recent = [run for run in self._recent() if run.result.run]
        names = {name for run in recent for name in run.result.measured.faults}
        rows = [self._fault_row(name, recent) for name in names]
        return sorted(rows, key=lambda row: (-row.unknown_share, row.name))

    def _fault_row(self, name: str, recent: Sequence[NightRun]) -> FaultRow:
        having = [run for run in recent if name in run.result.measured.faults]
        counts = [run.result.measured.faults[name] for run in having]
        unknown = [run for run in having if run.result.verdict is Verdict.UNKNOWN]
        return FaultRow(
            name=name,
            planned=sum(each.planned for each in counts),
            proven=sum(each.proven for each in counts),
            felt=sum(each.felt for each in counts),
            runs=len(having),
            unknown=len(unknown),
            runs_tonight=sum(run.night == self.tonight for run in having),
            unknown_tonight=sum(run.night == self.tonight for run in unknown),
        )


def write_index(store: Path, runs: Iterable[NightRun], *, known: KnownFindings) -> Path:
    """Write the page into a store, and return its path.

    It is one file that needs no network. What is told of the past is bounded, so that it does not
    grow with the number of nights.

    Args:
        store: where the folders of the runs lie.
        runs: of all nights.
        known: the findings that are known.

    Raises:
        UsageError: there was no night yet.
    """
    index = Index(runs=list(runs), known=known)
    if not index.runs:
        raise UsageError(
            f"No night has left anything in {store / NIGHTS}: `kafka-chaos nightly` makes one."
        )
    page = render(
        "index.html.j2",
        index=index,
        meanings=_MEANINGS,
        most_runs=_MOST_RUNS,
        looks_back=LOOKS_BACK,
        short=lambda text: units.shortened(text, _LONGEST),
        is_web=lambda link: link.startswith(("https://", "http://")),
    )
    path = store / INDEX
    write_atomically(path, page)
    return path


def _under_fault(runs: Sequence[NightRun]) -> float | None:
    made_s = sum(run.result.measured.made_s for run in runs)
    under_s = sum(run.result.measured.under_fault_s for run in runs)
    return under_s / made_s if made_s else None


def _acked_per_s(runs: Sequence[NightRun]) -> float | None:
    load_s = sum(run.result.measured.load_s for run in runs)
    acked = sum(run.result.acked for run in runs if run.result.measured.load_s)
    return acked / load_s if load_s else None


def _recovery_s(runs: Sequence[NightRun]) -> float | None:
    times = [seconds for run in runs for seconds in run.result.measured.recoveries_s]
    return median(times) if times else None


def _unavailable_s(runs: Sequence[NightRun]) -> float | None:
    times = [r.result.unavailable_s for r in runs if r.result.unavailable_s is not None]
    return max(times, default=None)
