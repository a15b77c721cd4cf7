"""The matrix: claims × versions, one trial a cell, resumable after an interruption."""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.campaigns.claim_page import html_page, markdown_page
from harness.campaigns.claim_result import Trial, failed_trial
from harness.campaigns.conduct import run_experiment
from harness.campaigns.judging_queue import Backlog
from harness.campaigns.matrix_folder import Ledger
from harness.cluster.pool import ClusterPool
from harness.core.errors import HealFailed, KafkaChaosError, UsageError
from harness.core.progress import Progress
from harness.core.run_dir import SCHEMA, Journal, RunDir, write_atomically
from harness.core.version import numbers
from harness.lab.claim import Claim, Outcome
from harness.lab.claim_run import ClaimRun
from harness.run.runner import KeepCluster, Runner

log = logging.getLogger(__name__)

_PREFIX = "claims-"
_DONE = "trials.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Which claims are tried on which versions.

    Attributes:
        claims: by name.
        versions: of Kafka.
        store: where run folders and the folder of the matrix lie.
        seed: of every run.
        master: Spark master.
        keep_cluster: whether the containers stay.
    """

    claims: dict[str, Claim]
    versions: tuple[str, ...]
    store: Path
    seed: int = 1
    master: str | None = None
    keep_cluster: KeepCluster = "never"

    def cells(self) -> list[ClaimRun]:
        """Return what is to be run: version by version, equal clusters one after the other."""
        cells = [
            ClaimRun(name=name, claim=claim, kafka=kafka)
            for kafka in self.versions
            for name, claim in self.claims.items()
            if claim.expectation(kafka) is not None
        ]
        return sorted(
            cells, key=lambda cell: (numbers(cell.kafka), str(cell.cluster), cell.claim.number)
        )


@dataclass(slots=True)
class Tally:
    """A matrix that was run, or as much of it as there was time for.

    Attributes:
        folder: where its pages lie.
        trials: what came of each cell.
        wanted: how many cells there are.
    """

    folder: Path
    wanted: int
    trials: list[Trial] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: all as expected; 1: something was refuted; 3: something is not known."""
        outcomes = {trial.outcome for trial in self.trials}
        if Outcome.REFUTED in outcomes:
            return 1
        return 3 if Outcome.UNKNOWN in outcomes or len(self.trials) < self.wanted else 0

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "schema": SCHEMA,
            "folder": self.folder.name,
            "wanted": self.wanted,
            "outcomes": {
                str(outcome): sum(trial.outcome is outcome for trial in self.trials)
                for outcome in Outcome
            },
            "trials": [trial.document() for trial in self.trials],
        }


def run_matrix(matrix: Matrix, *, resume: bool, progress: Progress, stop: threading.Event) -> Tally:
    """Run every cell that has no outcome yet; pages are written anew after each.

    Args:
        matrix: what is wanted.
        resume: go on with the newest matrix of the store that was asked the same.
        progress: who is told.
        stop: set from outside to end after what is under way.

    Raises:
        UsageError: no claim speaks of any of the versions, or there is nothing to go on with.
        HealFailed: something may still be broken; nothing more was run.
    """
    cells = matrix.cells()
    if not cells:
        raise UsageError(
            f"None of these claims speaks of Kafka {', '.join(matrix.versions)}: "
            "`kafka-chaos claims` tells which versions each one speaks of."
        )
    find = Ledger.resume if resume else Ledger.begin
    ledger = find(matrix.store, _PREFIX, _asked(matrix), lines=_DONE)
    folder = ledger.folder
    # What could not be run is tried again.
    done = [trial for trial in map(Trial.read, ledger.entries()) if trial.run]
    tally = Tally(folder=folder, wanted=len(cells), trials=done)
    known = {(trial.claim, trial.kafka) for trial in done}
    journal = Journal(ledger.path)
    pool, backlog = ClusterPool(keeps=True), Backlog(master=matrix.master)

    def keep(trials: Iterable[Trial]) -> None:
        for trial in trials:
            tally.trials.append(trial)
            journal.append(trial.document(), sync=True)
            progress.say(f"{trial.outcome}, {trial.claim} on {trial.kafka}: {trial.words}")
            write_pages(folder, tally.trials)

    try:
        for cell in cells:
            if stop.is_set():
                break
            if (cell.name, cell.kafka) in known:
                continue
            progress.say(f"claim {cell.claim.number}, {cell.name}, on Kafka {cell.kafka}")
            begin = time.monotonic()
            try:
                run_dir = _run(cell, matrix, pool, progress, stop)
            except KafkaChaosError as error:
                if isinstance(error, HealFailed | UsageError):
                    raise
                # One cluster that did not start must not cost the night.
                log.warning("%s on %s could not be run: %s", cell.name, cell.kafka, error)
                keep(backlog.finished(wait=True))
                keep([failed_trial(cell, error, seconds=time.monotonic() - begin)])
                continue
            if stop.is_set():
                break
            backlog.add(cell, run_dir, seconds=time.monotonic() - begin)
            keep(backlog.finished())
        keep(backlog.finished(wait=True))
    finally:
        pool.close(say=progress.say)
        backlog.close()
        journal.close()
    write_pages(folder, tally.trials)
    return tally


def write_pages(folder: Path, trials: Sequence[Trial]) -> None:
    """Write the matrix as one page of HTML and one of Markdown, linked to the runs beside it."""
    write_atomically(folder / "matrix.html", html_page(trials, runs="../"))
    write_atomically(folder / "matrix.md", markdown_page(trials, runs="../"))


def _run(
    cell: ClaimRun, matrix: Matrix, pool: ClusterPool, progress: Progress, stop: threading.Event
) -> RunDir:
    runner = Runner(
        run=cell,
        seed=matrix.seed,
        store=matrix.store,
        keep_cluster=matrix.keep_cluster,
        progress=progress,
        stop=stop,
        pool=cell.pool(pool),
    )
    return run_experiment(runner)


def _asked(matrix: Matrix) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "claims": sorted(matrix.claims),
        "versions": list(matrix.versions),
        "seed": matrix.seed,
    }
