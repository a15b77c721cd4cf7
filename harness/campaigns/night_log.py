"""nights.jsonl: a line for each run of any night of a store, for tools and for the index page."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.campaigns.scenario_result import ScenarioResult
from harness.core.run_dir import SCHEMA, Journal, read_lines

NIGHTS = "nights.jsonl"
"""Name of the file in the store."""

REPORT = "report.html"

CONTROL = "leader_cut_and_kill"
"""The scenario of the run that begins a night, and must lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """One run of a night; one line of nights.jsonl.

    Attributes:
        night: name of the night's folder, which begins with the time at which the night began.
        result: what came of the run.
    """

    night: str
    result: ScenarioResult

    @property
    def key(self) -> tuple[str, str, str]:
        """What no other line has: the night, what was run, and the folder of the run."""
        settings = json.dumps(self.result.settings, sort_keys=True)
        return self.night, settings, self.result.run

    @property
    def report(self) -> str:
        """The way from the store to the report; empty if there was no run."""
        return f"{self.result.run}/{REPORT}" if self.result.run else ""

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        result, measured = self.result, self.result.measured
        share = measured.under_fault_s / measured.made_s if measured.made_s else 0.0
        reached = {name: count for name, count in result.situations.items() if count}
        return {
            **result.document(),
            "schema": SCHEMA,
            "night": self.night,
            "scenario": result.settings.get("scenario"),
            "seed": result.settings.get("seed"),
            "situations": reached,
            "under_fault_share": round(share, 3),
            "report": self.report or None,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "NightRun":
        """Return the run that a line tells of.

        Raises:
            HistoryUnreadable: it tells of none.
        """
        return cls(night=str(document.get("night", "")), result=ScenarioResult.read(document))


def read_nights(store: Path) -> Iterator[NightRun]:
    """Yield every run of every night of a store, in the order in which they were kept.

    Raises:
        HistoryUnreadable: a line of the file is damaged.
    """
    for document in read_lines(store / NIGHTS):
        yield NightRun.read(document)


class NightLog:
    """Adds the runs of one night to nights.jsonl, each of them once."""

    def __init__(self, store: Path, night: str) -> None:
        path = store / NIGHTS
        _drop_half_line(path)
        self._night = night
        self._written = {run.key for run in read_nights(store) if run.night == night}
        self._journal = Journal(path)

    def add(self, results: Iterable[ScenarioResult]) -> None:
        """Write those results that have no line yet, down to the disk."""
        for result in results:
            run = NightRun(night=self._night, result=result)
            if run.key not in self._written:
                self._journal.append(run.document(), sync=True)
                self._written.add(run.key)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


def _drop_half_line(path: Path) -> None:
    """Take away the half line that a killed process left: another may follow a whole one only."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - 65536)
            file.seek(begin)
            cut = file.read(end - begin).rfind(b"\n")
            if cut >= 0:
                file.truncate(begin + cut + 1)
                return
            end = begin
        file.truncate(0)


def nights_of(runs: Sequence[NightRun]) -> list[str]:
    """Return the names of the nights, the oldest first."""
    return sorted({run.night for run in runs})
