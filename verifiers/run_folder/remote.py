"""Runs on another storage: their small files are fetched, and what comes of them is stored there.

A run is small but for its history and its replicas' segments, which tasks read where they lie
(`verifiers.run_folder.large_files`).
"""

from pathlib import Path

from harness.core.errors import EnvironmentBroken, UsageError
from harness.core.run_dir import RunDir
from harness.history.seal import is_sealed
from verifiers.run_folder.large_files import LargeFiles, is_history, is_large
from verifiers.spark import storage

_MADE = ("anomalies/", "replicas/", ".verify-")
"""What lies below these came of a verification."""
_RESULTS = ("lanes.json", "spells.jsonl", "report.html", "junit.xml", "summary.md")
_VERDICT, _RUN = "verdict.json", "run.json"
_RAW = "history/raw/"
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
    if _RUN not in files:
        raise UsageError(
            f"{name} is not a run folder: it has no run.json. Give a run that "
            "`kafka-chaos archive` stored there."
        )
    folder = into / storage.last_part(name)
    folder.mkdir()
    kept = is_large if storage.opens_in_tasks(name) else is_history
    large = {file: size for file, size in files.items() if kept(file)}
    small = [file for file in files if file not in large and not file.startswith(_MADE)]
    with storage.reachable(name):
        storage.fetch_all({storage.join(name, file): folder / file for file in small})
    LargeFiles(folder=folder, home=name, sizes_bytes=large).note()
    return RunDir.open(folder)


def archive_run(run: RunDir, store: str) -> str:
    """Copy a sealed run to a storage, and return the name of the copy.

    Its run.json comes last, and only a folder with one is a run: a copy that was not finished is
    never taken for one, and is made anew. What clients wrote before it was sealed stays behind.

    Args:
        run: the run.
        store: the name of the folder in which the copy is made.

    Raises:
        UsageError: the run goes on, or is not sealed, or there is a run of that name in the store.
        HistoryUnreadable: run.json, or the inventory of what is sealed, is damaged.
        EnvironmentBroken: the storage cannot be reached, or refuses.
    """
    if run.meta().get("state") not in ("complete", "aborted"):
        raise UsageError(f"{run.path} has not ended: archive it when it has.")
    run.reject_pruned()
    if not is_sealed(run.path):
        raise UsageError(
            f"{run.path} is not sealed: `kafka-chaos verify {run.path}` seals it, then archive it."
        )
    target = storage.join(store, run.name)
    files = {
        file: size
        for file, size in storage.files_below(str(run.path)).items()
        if not file.startswith((_RAW, ".")) and not file.endswith(".draft")
    }
    with storage.reachable(store):
        there = storage.files_below(target)
        if _RUN in there:
            raise UsageError(
                f"There is a run {target} already: remove it, or choose another store."
            )
        for stale in there.keys() - files.keys():
            storage.remove(storage.join(target, stale))
        storage.put_all(
            {run.path / file: storage.join(target, file) for file in files if file != _RUN}
        )
        there = storage.files_below(target)
        short = [file for file in files if file != _RUN and there.get(file) != files[file]]
        if short:
            raise EnvironmentBroken(
                f"{storage.join(target, short[0])} is not as large as what was copied there: did "
                "something else write to it? Archive the run again."
            )
        storage.put(run.path / _RUN, storage.join(target, _RUN))
    return target


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
