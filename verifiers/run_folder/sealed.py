"""A sealed history by the footers of its files: which files there are, and how large it is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.errors import HistoryUnreadable
from harness.history.seal import INVENTORY
from verifiers.run_folder.clients import settings_files
from verifiers.run_folder.journal import damage_named
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.schema import HISTORY_SCHEMAS, YOUNGER_COLUMNS
from verifiers.spark import storage

Files = Mapping[str, Sequence[str]]
"""The names of the Parquet files of a history, by dataset (`verifiers.spark.storage`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A sealed history, all of whose files are complete.

    Attributes:
        files: by dataset; those of all datasets that there may be.
        rows: of all datasets together.
        rows_by_file: how many rows each file has, by dataset and process.
        inventory: what was written down when the history was sealed, by the name of the raw file:
            `process`, `clock` and `rows` by dataset; None if nothing was.
        processes: all processes of the run have lower numbers than this, also those that
            recorded nothing.
    """

    files: Files
    rows: int
    processes: int
    rows_by_file: Mapping[tuple[str, int], int] = field(default_factory=dict)
    inventory: Mapping[str, Mapping[str, Any]] | None = None


def read_sealed(path: Path) -> Sealed:
    """Return a sealed history by its footers, each of which is read once.

    This finds a footer that is missing or that lacks a column within milliseconds, before Spark
    would return nulls or fail.

    Args:
        path: the run's folder.

    Raises:
        HistoryUnreadable: a file is truncated, is no Parquet, or lacks a column.
    """
    large = LargeFiles.of(path)
    files = {
        dataset: large.within(path / "history" / dataset, ".parquet") for dataset in HISTORY_SCHEMAS
    }
    rows = 0
    by_file: dict[tuple[str, int], int] = {}
    highest = max(settings_files(path), default=-1)
    for dataset, paths in files.items():
        footers = storage.parquet_footers([*map(large.name, paths)])
        for file in paths:
            name = large.name(file)
            with unreadable_named(name):
                footer = next(footers)
                columns = footer.schema.to_arrow_schema().names
                _reject_gaps(name, dataset, columns)
                rows += footer.num_rows
                if file.stem.isdigit():
                    by_file[dataset, int(file.stem)] = footer.num_rows
                highest = max(highest, _highest(name, footer, columns.index("process")))
    return Sealed(
        files={dataset: [*map(large.name, paths)] for dataset, paths in files.items()},
        rows=rows,
        processes=highest + 1,
        rows_by_file=by_file,
        inventory=_inventory(path / "history" / INVENTORY),
    )


def _inventory(path: Path) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the inventory; None if there is none, or it was written before rows were counted."""
    if not path.is_file():
        return None
    cure = "restore the file, or seal the raw history again"
    with damage_named(f"{path} is no inventory of the history", cure):
        entries = json.loads(path.read_text(encoding="utf-8"))
        return None if any(isinstance(entry, int) for entry in entries.values()) else entries


def _reject_gaps(file: str, dataset: str, columns: Sequence[str]) -> None:
    # Only a transaction must have its number.
    optional = frozenset() if dataset == "txn" else YOUNGER_COLUMNS
    known = optional.union(columns)
    missing = [name for name in HISTORY_SCHEMAS[dataset].names if name not in known]
    if missing:
        raise HistoryUnreadable(
            f"{file} has no column {', '.join(missing)}: it was not written as "
            "docs/run-folder.md says; seal the raw history again."
        )


def _highest(file: str, footer: pq.FileMetaData, column: int) -> int:
    groups = range(footer.num_row_groups)
    known = [footer.row_group(number).column(column).statistics for number in groups]
    if all(statistics is not None and statistics.has_min_max for statistics in known):
        return max((int(statistics.max) for statistics in known), default=-1)
    highest = pc.max(storage.read_parquet(file, ["process"])["process"]).as_py()
    return -1 if highest is None else int(highest)


@contextmanager
def unreadable_named(file: str) -> Iterator[None]:
    """Turn Arrow's error about a damaged file into HistoryUnreadable.

    Raises:
        HistoryUnreadable: the file could not be read.
    """
    try:
        yield
    except storage.ERRORS as error:
        raise HistoryUnreadable(
            f"{file} cannot be read as Parquet ({str(error).splitlines()[0]}): "
            "restore it, or seal the raw history again."
        ) from error
