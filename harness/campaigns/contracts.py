"""The matrix of contracts: the same damage under each of them, one run a cell."""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from harness.campaigns.conduct import judge, run_experiment
from harness.campaigns.contract_cell import Cell, Entry, entry_of, failed_entry
from harness.campaigns.contract_page import About, html_page, markdown_page
from harness.campaigns.matrix_folder import Ledger
from harness.core.errors import HealFailed, KafkaChaosError, UsageError
from harness.core.progress import Progress
from harness.core.run_dir import SCHEMA, Journal, RunDir, read_lines, write_atomically
from harness.core.verdict import Verdict
from harness.run.runner import KeepCluster, Runner
from harness.run.scenario_run import ScenarioRun

log = logging.getLogger(__name__)

DEFAULT_SCENARIO = "weak_spots"
_PREFIX, _DONE, _MADE = "contracts-", "runs.jsonl", "made.jsonl"

Choice = Mapping[str, Any]
"""One value for each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A combination that is not run.

    Attributes:
        choice: the combination, in words.
        why: in a sentence.
    """

    choice: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Contracts under one damage.

    Attributes:
        cells: what is run, in this order.
        left_out: what cannot be, or would not be the same damage.
        seed: of every run.
        store: where run folders and the folder of the matrix lie.
        master: Spark master.
        keep_cluster: whether the containers stay.
    """

    cells: tuple[Cell, ...]
    left_out: tuple[LeftOut, ...]
    seed: int
    store: Path
    master: str | None = None
    keep_cluster: KeepCluster = "never"

    @property
    def damage(self) -> dict[str, Any]:
        """What is done to the cluster in every cell: the object of plan.json."""
        document: dict[str, Any] = json.loads(self.cells[0].damage(self.seed))
        return document

    def asked(self) -> dict[str, Any]:
        """Return what is wanted as JSON: a matrix goes on only with one that was asked the same."""
        scenario = self.cells[0].scenario
        cluster = asdict(scenario.cluster)
        del cluster["kafka"]
        asked = {
            "schema": SCHEMA,
            "damage": self.damage,
            "cluster": cluster,
            "workload": {"what": repr(scenario.workload)},
            "cells": [cell.settings for cell in self.cells],
        }
        plain: dict[str, Any] = json.loads(json.dumps(asked))
        return plain


def combine(
    dimensions: Mapping[str, Sequence[Any]], make: Callable[[Choice], Cell], *, seed: int
) -> tuple[tuple[Cell, ...], tuple[LeftOut, ...]]:
    """Return the cells of a product, and the combinations of it that are left out.

    Args:
        dimensions: the values of each; the last one changes fastest.
        make: makes the cell of a combination, or raises UsageError where it cannot be.
        seed: of every run.

    Raises:
        UsageError: nothing is left, with the reasons.
    """
    cells: list[Cell] = []
    left_out: list[LeftOut] = []
    damage, known = "", set[str]()
    for values in product(*dimensions.values()):
        choice = dict(zip(dimensions, values, strict=True))
        words = ", ".join(f"{name}={value}" for name, value in choice.items() if value is not None)
        try:
            cell = make(choice)
            planned = cell.damage(seed)
        except UsageError as error:
            left_out.append(LeftOut(choice=words, why=str(error)))
            continue
        damage = damage or planned
        key = json.dumps(cell.settings, sort_keys=True)
        if planned != damage:
            why = "The plan would be another one, so the runs could not be compared."
            left_out.append(LeftOut(choice=words, why=why))
        elif key in known:
            why = "It is the same contract as one before, its defaults filled in."
            left_out.append(LeftOut(choice=words, why=why))
        else:
            known.add(key)
            cells.append(cell)
    if not cells:
        whys = dict.fromkeys(one.why for one in left_out)
        raise UsageError(f"None of these contracts can be run. {' '.join(whys)}")
    return tuple(cells), tuple(left_out)


@dataclass(slots=True)
class Tally:
    """A matrix that was run, or as much of it as there was time for.

    Attributes:
        matrix: what was wanted.
        folder: where its pages lie.
        entries: what came of each cell, in the order of the cells.
    """

    matrix: Matrix
    folder: Path
    entries: list[Entry] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict; UNKNOWN as well where a cell has none yet."""
        verdicts = [entry.verdict for entry in self.entries]
        if len(verdicts) < len(self.matrix.cells):
            verdicts.append(Verdict.UNKNOWN)
        return Verdict.merge(verdicts)

    def put(self, entry: Entry) -> None:
        """Take an entry to its place."""
        self.entries.append(entry)
        order = [cell.settings for cell in self.matrix.cells]
        self.entries.sort(key=lambda one: order.index(dict(one.settings)))

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "schema": SCHEMA,
            "folder": self.folder.name,
            "verdict": self.verdict.name,
            "wanted": len(self.matrix.cells),
            "damage": self.matrix.damage,
            "left_out": [asdict(one) for one in self.matrix.left_out],
            "runs": [entry.document() for entry in self.entries],
        }

    def write_pages(self) -> None:
        """Write the table as one page of HTML and one of Markdown, linked to the runs beside it."""
        about = About(
            damage=self.matrix.damage,
            left_out=[(one.choice, one.why) for one in self.matrix.left_out],
            runs="../",
        )
        write_atomically(self.folder / "matrix.html", html_page(self.entries, about))
        write_atomically(self.folder / "matrix.md", markdown_page(self.entries, about))


def run_matrix(matrix: Matrix, *, resume: bool, progress: Progress, stop: threading.Event) -> Tally:
    """Run every cell that has no verdict yet, one after the other; pages are written after each.

    Each has a cluster of its own: what power loss and cuts leave in the logs and groups of one
    run must not be seen by the next.

    Args:
        matrix: what is wanted.
        resume: go on with the newest matrix of the store that was asked the same; a run that was
            made and not verified is only verified.
        progress: who is told.
        stop: set from outside to end early; a run that this cuts short does not count.

    Raises:
        UsageError: there is nothing to go on with, or the store cannot be written to.
        HealFailed: something may still be broken; nothing more was run.
    """
    find = Ledger.resume if resume else Ledger.begin
    ledger = find(matrix.store, _PREFIX, matrix.asked(), lines=_DONE)
    tally = Tally(matrix=matrix, folder=ledger.folder)
    for written in map(Entry.read, ledger.entries()):
        # What could not be run is tried again.
        if written.run:
            tally.put(written)
    known = [dict(entry.settings) for entry in tally.entries]
    todo = [cell for cell in matrix.cells if cell.settings not in known]
    made = _Made(ledger.folder / _MADE, matrix.store)
    journal = Journal(ledger.path)
    try:
        for number, cell in enumerate(todo, start=1):
            if stop.is_set():
                break
            progress.say(f"contract {number} of {len(todo)}: {cell}")
            entry = _run(cell, matrix, made, progress, stop)
            if entry is None:
                break
            tally.put(entry)
            journal.append(entry.document(), sync=True)
            tally.write_pages()
            told = " · ".join(f"{name} {found}" for name, found in entry.headlines.items())
            progress.say(f"{entry.verdict.name}, {cell}: {told}")
    finally:
        journal.close()
        made.journal.close()
    tally.write_pages()
    return tally


class _Made:
    """Which runs were made to their end, so that they need not be made again to be verified."""

    def __init__(self, path: Path, store: Path) -> None:
        self._store = store
        self._known = list(read_lines(path))
        self.journal = Journal(path)

    def find(self, cell: Cell) -> RunDir | None:
        """Return the folder of a cell's run, if it is still there."""
        for one in self._known:
            folder = self._store / one["run"]
            if one["settings"] == cell.settings and (folder / "run.json").is_file():
                return RunDir.open(folder)
        return None

    def note(self, cell: Cell, run_dir: RunDir) -> None:
        """Take note of a run that came to its end."""
        self.journal.append({"settings": cell.settings, "run": run_dir.name}, sync=True)


def _run(
    cell: Cell, matrix: Matrix, made: _Made, progress: Progress, stop: threading.Event
) -> Entry | None:
    """Return what came of a cell; None if its run was cut short."""
    begin = time.monotonic()
    try:
        run_dir = made.find(cell)
        if run_dir is None:
            run_dir = run_experiment(_runner(cell, matrix, progress, stop))
            if run_dir.meta()["state"] != "complete":
                return None
            made.note(cell, run_dir)
        outcome = judge(run_dir, master=matrix.master, progress=progress)
    except (HealFailed, UsageError):
        raise
    except KafkaChaosError as error:
        # One cluster that did not start must not cost the rest.
        log.warning("%s could not be run: %s", cell, error)
        return failed_entry(cell, error, seed=matrix.seed, seconds=time.monotonic() - begin)
    return entry_of(cell, outcome, seconds=time.monotonic() - begin)


def _runner(cell: Cell, matrix: Matrix, progress: Progress, stop: threading.Event) -> Runner:
    return Runner(
        run=ScenarioRun(cell.scenario),
        seed=matrix.seed,
        store=matrix.store,
        keep_cluster=matrix.keep_cluster,
        progress=progress,
        stop=stop,
    )
