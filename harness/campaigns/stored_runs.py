"""Runs and op histories wherever they are stored: by a path of this machine, or by a URI."""

from pathlib import Path

from harness.core.run_dir import RunDir

Named = Path | str
"""A path of this machine, or a URI."""


def name_or_path(given: Path | str) -> Named:
    """Return the name of what a person names: a URI as text, anything else as a path."""
    from verifiers.spark import storage

    is_uri = isinstance(given, str) and storage.is_uri(given)
    return storage.name_of(given) if is_uri else Path(given)


def kind_of(name: Named, *, master: str | None = None) -> str | None:
    """Return "folder" or "file", None if there is nothing of that name.

    Args:
        name: of it.
        master: the Spark master that is used anyway, if Spark alone can say what there is.

    Raises:
        EnvironmentBroken: the storage cannot be reached.
    """
    if isinstance(name, Path):
        return "folder" if name.is_dir() else "file" if name.exists() else None
    from verifiers.spark import storage

    if not storage.opens_in_tasks(name):
        from verifiers.spark.session import open_session

        open_session(master)
    with storage.reachable(name):
        return storage.kind_of(name)


def open_run(name: Named, into: Path) -> RunDir:
    """Return the folder of a run; of one on another storage, that of its files fetched from there.

    Args:
        name: of the run.
        into: a folder of this machine to fetch files into, made if need be.

    Raises:
        UsageError: there is no such run.
        EnvironmentBroken: the storage cannot be reached.
    """
    if isinstance(name, Path):
        return RunDir.open(name)
    from verifiers.run_folder.remote import fetch_run

    into.mkdir(exist_ok=True)
    return fetch_run(name, into)
