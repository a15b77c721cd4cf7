"""A run that is ready to be verified: all that is read of its folder without Spark."""

from dataclasses import dataclass
from pathlib import Path

from harness.core.run_dir import RunDir
from harness.history.seal import seal
from verifiers.replicas.copied import Copied, read_copied
from verifiers.run_folder.folder import RunInput, read_run
from verifiers.run_folder.sealed import Sealed, read_sealed
from verifiers.timeline.frames import Seen, see


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """What is known of a run before its history is looked at.

    Attributes:
        run: what its folder tells beside the history.
        history: the files of its history, and how large that is.
        copied: what lay on the disks.
        seen: what the timeline gives.
    """

    run: RunInput
    history: Sealed
    copied: Copied
    seen: Seen


def load_run(run_dir: Path) -> LoadedRun:
    """Return a run that is ready to be verified; its raw history is sealed first if it is not.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: what was recorded is damaged; the message names the file.
    """
    run = read_run(run_dir)
    if (run.path / "history" / "raw").is_dir():
        seal(run.path)
        run = read_run(run_dir)
    return LoadedRun(
        run=run,
        history=read_sealed(run.path),
        copied=read_copied(RunDir(run.path), run.meta),
        seen=see(run),
    )
