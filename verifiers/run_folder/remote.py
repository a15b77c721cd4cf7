"""Runs on another storage: their small files are fetched, and what comes of them is stored there.

A run is small but for its history and its replicas' segments, which tasks read where they lie
(`verifiers.run_folder.large_files`).
"""

from pathlib import Path

from harness.core.errors import UsageError
from harness.core.run_dir import RunDir
from verifiers.run_folder.large_files import NOTE, LargeFiles, is_large
from verifiers.spark import storage

_MADE = ("anomalies/", "replicas/", ".verify-")
"""What lies below these came of a verification."""
_RESULTS = ("lanes.json", "spells.jsonl", "report.html", "junit.xml", "summary.md")
_VERDICT = "verdict.json"
_CRASH = "crash-*.txt"


def fetch_run(name: str, into: Path) -> RunDir:
    """Fetch the small files of a run into a folder of its name below `into`, and return that.

    Args:
        name: the URI of the run.
        into: an empty folder of this machine.

    Raises:
        UsageError: there is nothing of that name, or it is no run.
        EnvironmentBroken: the storage cannot be reached, or refuses.
    """
    with storage.reachable(name):
        files = storage.files_below(name)
    if not files:
        raise UsageError(f"There is no run folder {name}.")
    if "run.json" not in files:
        raise UsageError(
            f"{name} is not a run folder: it has no run.json. Give a run that "
            "`kafka-chaos archive` stored there."
        )
    folder = into / storage.last_part(name)
    folder.mkdir()
    large = {file: size for file, size in files.items() if is_large(file)}
    small = [file for file in files if file not in large and not file.startswith(_MADE)]
    with storage.reachable(name):
        storage.fetch_all({storage.join(name, file): folder / file for file in small})
    LargeFiles(folder=folder, home=name, sizes_bytes=large).note()
    return RunDir.open(folder)


def publish(folder: Path) -> None:
    """Store what a verification wrote into a folder of fetched files beside the run itself.

    The verdict comes last. A run that lies in its folder already has all of it.

    Raises:
        EnvironmentBroken: the storage cannot be reached, or refuses.
    """
    large = LargeFiles.of(folder)
    if not large.elsewhere:
        return
    with storage.reachable(large.home):
        for made in ("anomalies", "replicas/batches"):
            if (folder / made).is_dir():
                storage.replace_folder(str(folder / made), storage.join(large.home, made))
        crashes = {file.name for file in folder.glob(_CRASH)}
        for stale in storage.files_below(large.home):
            if Path(stale).match(_CRASH) and "/" not in stale and stale not in crashes:
                storage.remove(storage.join(large.home, stale))
        written = [name for name in (*_RESULTS, *crashes) if (folder / name).is_file()]
        storage.put_all({folder / name: storage.join(large.home, name) for name in written})
        storage.put(folder / _VERDICT, storage.join(large.home, _VERDICT))


__all__ = ["NOTE", "fetch_run", "publish"]
