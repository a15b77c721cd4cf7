"""A campaign: many runs one after the other, each verified while the next one goes on.

What is asked for and what came of each run lie in a folder beside the run folders, so that a
campaign that was interrupted or killed can be resumed.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from harness.campaigns.judging_queue import Interpret, JudgingQueue
from harness.cluster import cleanup
from harness.cluster.pool import ClusterPool
from harness.core.errors import (
    ClusterBroken,
    EnvironmentBroken,
    HealFailed,
    KafkaChaosError,
    UsageError,
)
from harness.core.progress import Progress
from harness.core.run_dir import (
    Journal,
    RunDir,
    canonical_json,
    read_lines,
    read_object,
    write_atomically,
)
from harness.core.wait import StopOf, pause
from harness.run.context import Run
from harness.run.runner import KeepCluster, Runner

log = logging.getLogger(__name__)

_ASKED, _MADE, _OWNER = "matrix.json", "made.jsonl", "owner"
RESULTS = "runs.jsonl"
"""Name of the file of JSON lines, one a result, in the folder of most campaigns."""
_LONGEST_PAUSE_S = 30.0
SEED_RANGE = 1_000_000
"""Seeds of runs are drawn below it: short enough to be typed."""
RUNS_A_CLUSTER = 3
"""So many runs in a row share a cluster, where what follows is drawn."""


class Result(Protocol):
    """What came of a cell; its text is a line for the console."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the cell."""

    @property
    def run(self) -> str:
        """The name of the run's folder; empty if the run was not made, or not judged."""

    @property
    def seconds(self) -> float:
        """How long it took, verification included."""

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""


class Summary(Protocol):
    """What came of a campaign so far, for people."""

    def write(self, folder: Path) -> None:
        """Write its pages into the folder of the campaign."""


R = TypeVar("R", bound=Result)
S = TypeVar("S", bound=Summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmade:
    """Why a cell has no judged run.

    Attributes:
        reason: in a sentence.
        seconds: how long it was tried.
        by_machine: whether the run could not even be made for want of something on this machine.
    """

    reason: str
    seconds: float
    by_machine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Generic[R]):
    """One run of a campaign.

    Attributes:
        settings: what tells it from the other cells, as plain JSON.
        title: the same for a person.
        run: what is run.
        seed: draws its plan.
        shares_cluster: whether it may use the cluster of the run before.
        interpret: makes a result of the judged run, in another process.
        without_run: makes a result where there is no judged run.
        again: makes the cell of a repetition, by its number; None if it is not to be repeated.
    """

    settings: Mapping[str, Any]
    title: str
    run: Run
    seed: int
    shares_cluster: bool
    interpret: Interpret[R]
    without_run: Callable[[Unmade], R]
    again: "Callable[[int], Cell[R]] | None" = None

    @property
    def key(self) -> str:
        """The settings as one text."""
        return key_of(self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(Generic[R, S]):
    """What is run, and how the results are read and summed up.

    Attributes:
        cells: in the order in which they are run; they may be without an end.
        read: reads a result from its JSON object.
        summarize: sums up all results so far, in the order of the cells.
        results_file: name of the file of JSON lines, one a result.
        is_over: asked after each result: whether no further run is wanted.
        is_last: whether a result ends the campaign; asked while the next run goes on, which is then
            cut short.
        waits: whether a run is judged before the next one is chosen, which depends on it.
    """

    cells: Iterable[Cell[R]]
    read: Callable[[Mapping[str, Any]], R]
    summarize: Callable[[Sequence[R]], S]
    results_file: str = RESULTS
    is_over: Callable[[], bool] = lambda: False
    is_last: Callable[[R], bool] = lambda _: False
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """How a campaign is run this time.

    Attributes:
        store: where run folders and the folder of the campaign lie.
        resume: whether to go on with the newest campaign that was asked the same.
        master: the Spark master; None is this machine.
        keep_cluster: whether the containers stay.
        progress: who is told.
        stop: set from outside to end early; a run that this cuts short does not count.
        budget_s: the first run is begun in any case, each other one only if it will be judged
            within so many seconds, should it take as long as the median one; None: all are.
    """

    store: Path
    resume: bool = False
    master: str | None = None
    keep_cluster: KeepCluster = "never"
    progress: Progress = field(default_factory=Progress)
    stop: threading.Event = field(default_factory=threading.Event)
    budget_s: float | None = None


def open_folder(session: Session, name: str, asked: Mapping[str, Any]) -> Path:
    """Return the folder of a campaign: a new one, or one to go on with.

    Before a campaign goes on, what its killed process left behind is removed.

    Args:
        session: says which, and where.
        name: of the folder; `*` stands for the time at which the campaign began.
        asked: what is asked for, as plain JSON; what goes on was asked all of this.

    Raises:
        UsageError: the store cannot be written to; there is nothing to go on with, or its process
            still runs.
        HealFailed: something that was left behind could not be removed.
    """
    store = session.store.resolve()
    if session.resume:
        for folder in campaigns_in(store, name):
            if asked.items() <= asked_in(folder).items():
                _remove_leftovers(folder, session)
                return folder
        raise UsageError(
            f"Nothing in {session.store} was asked the same, so there is nothing to go on with: "
            "leave out --resume."
        )
    folder = store / name.replace("*", datetime.now(UTC).strftime("%Y%m%dT%H%M%S"), 1)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"The store {session.store} cannot hold {folder.name} ({error.strerror}): "
            "choose another with --store."
        ) from error
    write_atomically(folder / _ASKED, canonical_json(asked))
    return folder


def campaigns_in(store: Path, name: str) -> list[Path]:
    """Return the folders of campaigns whose name is like a pattern, the newest first."""
    folders = sorted(store.glob(name), reverse=True)
    return [folder for folder in folders if (folder / _ASKED).is_file()]


def asked_in(folder: Path) -> dict[str, Any]:
    """Return what the campaign of a folder was asked for.

    Raises:
        HistoryUnreadable: that is no JSON object.
    """
    return read_object(folder / _ASKED)


def runs_in(folder: Path) -> frozenset[str]:
    """Return the names of the runs that a campaign has made so far, judged or not."""
    return frozenset(str(line.get("run")) for line in read_lines(folder / _MADE))


def _remove_leftovers(folder: Path, session: Session) -> None:
    owner_file = folder / _OWNER
    if not owner_file.is_file():
        return
    owner = owner_file.read_text(encoding="utf-8")
    if cleanup.is_running(owner):
        raise UsageError(
            f"Process {owner.partition('@')[0]} still works on {folder}: wait for it, or end it."
        )
    if session.keep_cluster == "never":
        cleanup.clean(owner=owner, say=session.progress.say)


def run_campaign(campaign: Campaign[R, S], folder: Path, session: Session) -> S:
    """Run every cell that has no result yet; after each result the summary is written anew.

    A run that was made to its end and not judged is only judged.

    Returns:
        The summary of all results.

    Raises:
        UsageError: what is asked for cannot be run.
        HealFailed: something may still be broken; nothing more was run.
    """
    owner_file = folder / _OWNER
    write_atomically(owner_file, cleanup.owner())
    runs = _Runs(campaign, folder, session)
    try:
        runs.make()
        runs.pool.close(say=session.progress.say)
        runs.take_results(leave=0)
    finally:
        runs.close()
        owner_file.unlink()
    return runs.write_summary()


class _Runs(Generic[R, S]):
    """The runs of a campaign: those that were made, those being judged, and the results."""

    def __init__(self, campaign: Campaign[R, S], folder: Path, session: Session) -> None:
        self._campaign, self._folder, self._session = campaign, folder, session
        self.pool = ClusterPool(keeps=True)
        self._stop = StopOf(session.stop)
        self._queue: JudgingQueue[tuple[Cell[R], float], R] = JudgingQueue(session.master)
        made, self._made_journal = _reopen(folder / _MADE)
        self._made = {key_of(line["settings"]): line for line in made}
        results, self._journal = _reopen(folder / campaign.results_file)
        # What could not be run is tried again.
        self._results = {key_of(r.settings): r for r in map(campaign.read, results) if r.run}
        self._order: dict[str, int] = {}
        self._runs_s: list[float] = []
        self._judgings_s: list[float] = []

    def write_summary(self) -> S:
        """Write the summary of all results so far, and return it."""
        last = len(self._order) + 1
        results = sorted(
            self._results.values(),
            key=lambda result: self._order.get(key_of(result.settings), last),
        )
        summary = self._campaign.summarize(results)
        summary.write(self._folder)
        return summary

    def make(self) -> None:
        """Make the runs that are missing, as long as there is time."""
        begin = time.monotonic()
        if self._results:
            # What comes next may depend on what was found before.
            self.write_summary()
        cells = self._campaign.cells
        total = f" of {len(cells)}" if isinstance(cells, Sized) else ""
        for number, cell in enumerate(cells, start=1):
            self._order[cell.key] = number
            if cell.key in self._results:
                continue
            run_begin = time.monotonic()
            if self._stop.is_set() or self._campaign.is_over():
                return
            if not self._fits(run_begin - begin):
                return
            self._session.progress.say(f"run {number}{total}: {cell.title}")
            try:
                if not self._make(cell):
                    return
            except (HealFailed, UsageError):
                raise
            except KafkaChaosError as error:
                # One cluster that did not start must not cost the rest.
                self._fail(cell, "made", error, seconds=time.monotonic() - run_begin)
                if self._session.budget_s is not None:
                    # Nor may all the time be spent on trying again at once.
                    pause(min(_LONGEST_PAUSE_S, self._session.budget_s / 20), self._session.stop)
            self._runs_s.append(time.monotonic() - run_begin)
            # One run is judged behind the next, and no more: results are not to lag behind.
            self.take_results(leave=0 if self._campaign.waits else 1)

    def _fits(self, spent_s: float) -> bool:
        """Return whether one more run, and all that is not judged yet, is done in time."""
        budget_s = self._session.budget_s
        if budget_s is None or not self._runs_s:
            return True
        needed_s = time_needed_s(self._runs_s, self._judgings_s, waiting=len(self._queue))
        return spent_s + needed_s <= budget_s

    def _make(self, cell: Cell[R]) -> bool:
        """Make the run of a cell and have it judged; return whether it came to its end."""
        made = self._made.get(cell.key)
        if made is None or not (self._session.store / made["run"] / "run.json").is_file():
            begin = time.monotonic()
            run_dir = self._runner(cell).execute()
            if run_dir.meta()["state"] != "complete":
                return False
            seconds = round(time.monotonic() - begin, 1)
            made = {"settings": cell.settings, "run": run_dir.name, "seconds": seconds}
            self._made_journal.append(made, sync=True)
        run_dir = RunDir.open(self._session.store / made["run"])
        seconds = made.get("seconds", 0.0)
        self._queue.add(
            (cell, seconds), run_dir, cell.interpret, seconds=seconds, told=self._look_at
        )
        return True

    def _look_at(self, result: R) -> None:
        if self._campaign.is_last(result):
            self._stop.set()

    def _runner(self, cell: Cell[R]) -> Runner:
        return Runner(
            run=cell.run,
            seed=cell.seed,
            store=self._session.store,
            keep_cluster=self._session.keep_cluster,
            progress=self._session.progress,
            stop=self._stop,
            pool=self.pool if cell.shares_cluster else ClusterPool(),
        )

    def take_results(self, *, leave: int) -> None:
        """Keep the results of the runs that were judged; so many may be left for later."""
        for (cell, run_s), result in self._queue.finished(leave=leave):
            if isinstance(result, KafkaChaosError):
                self._fail(cell, "judged", result, seconds=run_s)
            else:
                self._judgings_s.append(result.seconds - run_s)
                self._keep(cell, result)

    def _fail(self, cell: Cell[R], verb: str, error: KafkaChaosError, *, seconds: float) -> None:
        reason = f"The run could not be {verb}: {error}"
        log.warning("%s: %s", cell.title, reason)
        # A cluster that does not start may be Kafka's own doing.
        by_machine = (
            verb == "made"
            and isinstance(error, EnvironmentBroken)
            and not isinstance(error, ClusterBroken)
        )
        unmade = Unmade(reason=reason, seconds=round(seconds, 1), by_machine=by_machine)
        self._keep(cell, cell.without_run(unmade))

    def _keep(self, cell: Cell[R], result: R) -> None:
        self._results[cell.key] = result
        self._journal.append(result.document(), sync=True)
        self._session.progress.say(f"{cell.title}: {result}")
        self.write_summary()

    def close(self) -> None:
        """Remove the cluster that is kept, and end the process that judges."""
        self.pool.close(say=self._session.progress.say)
        self._queue.close()
        self._journal.close()
        self._made_journal.close()


def time_needed_s(runs_s: Sequence[float], judgings_s: Sequence[float], *, waiting: int) -> float:
    """Return the time until one more run is judged, seconds.

    Those that wait are judged while it goes on, itself when nothing else does: so as fast as the
    fastest, and not like the median, which shares the machine with a run.

    Args:
        runs_s: how long the runs so far took, at least one.
        judgings_s: how long it took to judge them; that is not known until one was judged.
        waiting: so many wait to be judged.
    """
    beside_s = waiting * median(judgings_s or [0.0])
    return max(median(runs_s), beside_s) + min(judgings_s, default=0.0)


def key_of(settings: Mapping[str, Any]) -> str:
    """Return the settings of a cell as one text, the same for those that were written and read."""
    return json.dumps(settings, sort_keys=True)


def _reopen(path: Path) -> tuple[list[dict[str, Any]], Journal]:
    """Return the objects in a file of JSON lines, and the file to add more.

    Half a line, as a killed process leaves it, is taken away.
    """
    documents = list(read_lines(path))
    lines = (json.dumps(each, sort_keys=True, ensure_ascii=False) for each in documents)
    write_atomically(path, "".join(f"{line}\n" for line in lines))
    return documents, Journal(path)
