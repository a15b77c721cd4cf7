"""A run as it is loaded for verification: everything that is read without Spark."""

from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.run_dir import RunDir
from harness.history.seal import seal
from verifiers.replicas.copied import Copied, read_copied
from verifiers.run_folder.folder import RunInput, read_run
from verifiers.run_folder.sealed import Sealed, read_sealed
from verifiers.situations.events import RunEvents
from verifiers.situations.loss_causes import loss_causes, taken_commits, taken_notes
from verifiers.timeline.frames import TimelineRows, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """A run before its history is read: its folder's other files.

    Attributes:
        run: what its folder holds besides the history.
        history: the files of its history, and how large that is.
        copied: the replicas copied from the brokers' disks.
        timeline: the rows of the timeline frames.
        events: the events in which situations and effects of faults are recognised.
    """

    run: RunInput
    history: Sealed
    copied: Copied
    timeline: TimelineRows
    events: RunEvents


def load_run(run_dir: Path) -> LoadedRun:
    """Return a loaded run; its raw history is sealed first if it is not yet.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: what was recorded is damaged; the message names the file.
    """
    run = read_run(run_dir)
    if (run.path / "history" / "raw").is_dir():
        seal(run.path)
        run = read_run(run_dir)
    copied = read_copied(RunDir(run.path), run.meta)
    timeline = read_rows(run, copied.replicas)
    events = RunEvents(run=run, timeline=timeline.timeline, truncations=copied.cuts)
    causes = loss_causes(events, copied.replicas)
    notes = taken_notes(causes)
    rows = {
        "loss_causes": causes,
        "taken_commits": taken_commits(events),
        "clients": [{**row, **notes} for row in timeline.rows["clients"]],
    }
    return LoadedRun(
        run=run,
        history=read_sealed(run.path),
        copied=copied,
        timeline=replace(timeline, rows={**timeline.rows, **rows}),
        events=events,
    )
