"""The two sides of a comparison: a run, the runs of a campaign, or those of a version."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.campaigns.campaign import RESULTS, key_of
from harness.campaigns.fingerprint import contract_class
from harness.campaigns.night_log import NIGHTS, read_nights
from harness.campaigns.repetitions import AGAIN
from harness.campaigns.scenario_result import ScenarioResult, stored_result, tally_of
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import RunDir, read_lines
from harness.core.verdict import Verdict
from harness.core.version import numbers
from verifiers.report import units

_VERSION = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: of the run, of the campaign's folder, or of the version.
        kind: which of them it is.
        runs: all of them, those among them that are not compared.
    """

    name: str
    kind: Literal["run", "campaign", "version"]
    runs: tuple[ScenarioResult, ...]

    @property
    def compared(self) -> list[ScenarioResult]:
        """The runs that are compared: no control, no repetition, none that could not be made here.

        A control must lose whatever the version is. A repetition is made because something was
        found: counted, it would make that look more frequent than it is.
        """
        return [
            run for run in self.runs if not (run.by_machine or run.control or AGAIN in run.settings)
        ]

    @property
    def judged(self) -> list[ScenarioResult]:
        """Those of the compared runs whose verdict is known."""
        return [run for run in self.compared if run.verdict is not Verdict.UNKNOWN]

    @property
    def tally(self) -> str:
        """How many of the compared runs ended how, and the share of those that are UNKNOWN."""
        compared = self.compared
        unknown = len(compared) - len(self.judged)
        share = f" ({unknown / len(compared):.0%} UNKNOWN)" if unknown else ""
        return f"{tally_of(compared)}{share}"

    @property
    def not_compared(self) -> dict[str, int]:
        """How many runs are not compared, by the reason."""
        made = [run for run in self.runs if not run.by_machine]
        controls = sum(run.control for run in made)
        return {
            "controls": controls,
            "repetitions": len(made) - controls - len(self.compared),
            "not run on this machine": len(self.runs) - len(made),
        }

    @property
    def kafka(self) -> list[str]:
        """The versions of the compared runs, the oldest first."""
        versions = {run.kafka for run in self.compared if run.kafka}
        return sorted(versions, key=lambda kafka: (numbers(kafka), kafka))

    @property
    def load_s(self) -> float:
        """For how long clients worked in the compared runs, seconds."""
        return sum(run.measured.load_s for run in self.compared)

    @property
    def under_fault_s(self) -> float:
        """For how long of that some proven fault was in force, seconds."""
        return sum(run.measured.under_fault_s for run in self.compared)

    def about(self) -> dict[str, str]:
        """Return how many runs it has and how long they were, in words, by what that is."""
        left = ", ".join(f"{why}: {count}" for why, count in self.not_compared.items() if count)
        return {
            "compared": self.tally,
            "left out": left or "none",
            "Kafka": ", ".join(self.kafka),
            "under load": units.span(self.load_s),
            "under fault": units.span(self.under_fault_s),
        }

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object, the runs by their names alone."""
        return {
            "name": self.name,
            "kind": self.kind,
            "kafka": self.kafka,
            "compared": len(self.compared),
            "verdicts": {
                verdict.name: sum(run.verdict is verdict for run in self.compared)
                for verdict in Verdict
            },
            "not_compared": self.not_compared,
            "load_s": round(self.load_s, 1),
            "under_fault_s": round(self.under_fault_s, 1),
            "runs": [run.run for run in self.compared if run.run],
        }


def kind_of(run: ScenarioResult, *, with_version: bool = False) -> str:
    """Return in what a run must be like another to be compared with it, in words."""
    parts = [run.workload, contract_class(run.contract)]
    if with_version:
        parts.append(f"Kafka {run.kafka}")
    return " · ".join(parts)


def read_side(name: str, store: Path) -> Side:
    """Return the side that a person names.

    Args:
        name: a path, or the name of a folder in the store: of a run that was judged, of a night, of
            a search, or of a matrix of contracts; or a version, or how versions begin (3.9), which
            stands for all its runs in all nights of the store.
        store: where the folders lie.

    Raises:
        UsageError: there is nothing of that name, it holds no results, or no night ran the version.
        HistoryUnreadable: a file that must be read is damaged.
    """
    folder = next((each for each in (Path(name), store / name) if each.is_dir()), None)
    if folder is None:
        if _VERSION.fullmatch(name):
            return _of_version(name, store)
        raise UsageError(
            f"{name} is no folder, of a run or of a night, and no version such as 3.9.1; "
            f"{_versions_said(store)}"
        )
    if (folder / "run.json").is_file():
        run_dir = RunDir.open(folder)
        return Side(name=run_dir.name, kind="run", runs=(stored_result(run_dir),))
    if not (folder / RESULTS).is_file():
        raise UsageError(
            f"{folder} holds neither a run (run.json) nor the runs of a night, of a search or of a "
            f"matrix of contracts ({RESULTS})."
        )
    try:
        runs = _last(("", ScenarioResult.read(line)) for line in read_lines(folder / RESULTS))
    except HistoryUnreadable as error:
        raise HistoryUnreadable(f"{folder / RESULTS} cannot be read: {error}") from error
    if not runs:
        raise UsageError(f"{folder / RESULTS} is empty: no run was judged yet.")
    return Side(name=folder.resolve().name, kind="campaign", runs=runs)


def _of_version(name: str, store: Path) -> Side:
    wanted = numbers(name)
    lines = [(line.night, line.result) for line in read_nights(store)]
    runs = _last(line for line in lines if numbers(line[1].kafka)[: len(wanted)] == wanted)
    if not runs:
        raise UsageError(f"No night has run Kafka {name}; {_versions_said(store)}")
    return Side(name=name, kind="version", runs=runs)


def _last(lines: Iterable[tuple[str, ScenarioResult]]) -> tuple[ScenarioResult, ...]:
    """Return the results: what was made after all counts, and not that it once could not be."""
    latest = {(night, run.kafka, key_of(run.settings)): run for night, run in lines}
    return tuple(latest.values())


def _versions_said(store: Path) -> str:
    versions = {run.result.kafka for run in read_nights(store) if run.result.kafka}
    if not versions:
        return f"{store / NIGHTS} has no runs: `kafka-chaos nightly` makes some."
    return f"{store / NIGHTS} has runs of {', '.join(sorted(versions, key=numbers))}."
