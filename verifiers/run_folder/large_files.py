"""The large files of a run: its sealed history, and the segments of its replicas.

They are read where they lie. Of a run on another storage, the other files are fetched into a local
folder (`verifiers.run_folder.remote`), which notes where the run lies and how large these are.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from harness.core.run_dir import canonical_json
from verifiers.spark import storage

NOTE = ".home.json"
"""In a folder of fetched files: where the run lies, and the sizes of its large files."""

_HISTORY = re.compile(r"history/(send|txn|poll|final|event)/[^/]+\.parquet")
_SEGMENT = re.compile(r"cluster/[^/]+/data[^/]*/[^/]+/[^/]+\.log")


def is_history(file: str) -> bool:
    """Tell whether a file of a run, by its path in the folder, is one of its sealed history."""
    return _HISTORY.fullmatch(file) is not None


def is_large(file: str) -> bool:
    """Tell whether a file of a run is read where it lies: of its history, or a segment."""
    return is_history(file) or _SEGMENT.fullmatch(file) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeFiles:
    """The large files of a run, by their paths in its folder.

    Attributes:
        folder: the run's folder, or that of the files fetched from it.
        home: the name of the run's folder (`verifiers.spark.storage`).
        sizes_bytes: of each of them, if the run lies elsewhere; None: the folder itself has them.
    """

    folder: Path
    home: str
    sizes_bytes: dict[str, int] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return those of a run folder, or of a folder of fetched files."""
        note = folder / NOTE
        if not note.is_file():
            return cls(folder=folder, home=str(folder))
        told = json.loads(note.read_text(encoding="utf-8"))
        return cls(folder=folder, home=told["home"], sizes_bytes=told["sizes_bytes"])

    def note(self) -> None:
        """Write down in the folder where the run lies."""
        told = {"home": self.home, "sizes_bytes": self.sizes_bytes}
        (self.folder / NOTE).write_text(canonical_json(told), encoding="utf-8")

    @property
    def elsewhere(self) -> bool:
        """Whether the run lies on another storage than its folder here."""
        return self.sizes_bytes is not None

    def within(self, folder: Path, suffix: str) -> list[Path]:
        """Return the paths of those that lie right in a folder, in their order.

        Of a run elsewhere, these paths are names only: there is nothing to open.
        """
        files = {*folder.glob(f"*{suffix}"), *self._listed_within(folder)}
        return sorted(file for file in files if file.parent == folder and file.suffix == suffix)

    def folders_within(self, folder: Path) -> list[Path]:
        """Return the folders that lie right in a folder, in their order."""
        entries = folder.iterdir() if folder.is_dir() else ()
        there = {entry for entry in entries if entry.is_dir()}
        below = (file.relative_to(folder).parts for file in self._listed_within(folder))
        return sorted({*there, *(folder / parts[0] for parts in below if len(parts) > 1)})

    def size_bytes(self, file: Path) -> int:
        """Return the size of one of them."""
        listed = (self.sizes_bytes or {}).get(str(file.relative_to(self.folder)))
        return file.stat().st_size if listed is None else listed

    def name(self, file: Path) -> str:
        """Return the name by which a file of the history is opened."""
        return storage.join(self.home, str(file.relative_to(self.folder)))

    @property
    def segments_home(self) -> str:
        """The name of the folder below which tasks find the segments.

        Those that only Spark could read were fetched with the small files.
        """
        return self.home if storage.opens_in_tasks(self.home) else str(self.folder)

    def _listed_within(self, folder: Path) -> list[Path]:
        files = map(self.folder.joinpath, self.sizes_bytes or ())
        return [file for file in files if folder in file.parents]
