"""A run that is ready to be verified: all that is read of its folder without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.history_seal import seal
from harness.run_dir import RunDir
from verifiers.replicas.copied import Copied, read_copied
from verifiers.run_folder.folder import Extent, RunInput, check_history, extent_of, read_run
from verifiers.timeline.frames import Seen, see


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What is known of a run before its history is looked at.

    Attributes:
        run: what its folder tells beside the history.
        files: the Parquet files of the history, by dataset.
        extent: how large it is.
        copied: what lay on the disks.
        seen: what the timeline gives.
    """

    run: RunInput
    files: Mapping[str, Sequence[Path]]
    extent: Extent
    copied: Copied
    seen: Seen


def make_ready(run_dir: Path) -> Ready:
    """Return a run that is ready to be verified; its raw history is sealed first if it is not.

    Raises:
        UsageError: it is not a run folder.
        HistoryUnreadable: what was recorded is damaged; the message names the file.
    """
    run = read_run(run_dir)
    if (run.path / "history" / "raw").is_dir():
        seal(run.path)
        run = read_run(run_dir)
    files = check_history(run.path)
    return Ready(
        run=run,
        files=files,
        extent=extent_of(files),
        copied=read_copied(RunDir(run.path), run.meta),
        seen=see(run),
    )
