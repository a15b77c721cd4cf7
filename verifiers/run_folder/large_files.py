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

_LARGE = re.compile(
    r"history/(send|txn|poll|final|event)/[^/]+\.parquet|cluster/[^/]+/data[^/]*/[^/]+/[^/]+\.log"
)


def is_large(file: str) -> bool:
    """Tell whether a file of a run, by its path in the folder, is read where it lies."""
    return _LARGE.fullmatch(file) is not None


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
        if self.sizes_bytes is None:
            return sorted(folder.glob(f"*{suffix}"))
        begin = f"{folder.relative_to(self.folder)}/"
        inside = (f.removeprefix(begin) for f in self.sizes_bytes if f.startswith(begin))
        return sorted(folder / name for name in inside if "/" not in name and name.endswith(suffix))

    def folders_within(self, folder: Path) -> list[Path]:
        """Return the folders that lie right in a folder, in their order."""
        entries = folder.iterdir() if folder.is_dir() else ()
        there = {entry for entry in entries if entry.is_dir()}
        begin = f"{folder.relative_to(self.folder)}/"
        inside = (f.removeprefix(begin) for f in self.sizes_bytes or () if f.startswith(begin))
        there |= {folder / name.partition("/")[0] for name in inside if "/" in name}
        return sorted(there)

    def size_bytes(self, file: Path) -> int:
        """Return the size of one of them."""
        if self.sizes_bytes is None:
            return file.stat().st_size
        return self.sizes_bytes[str(file.relative_to(self.folder))]

    def name(self, file: Path) -> str:
        """Return the name by which one of them is opened, here and in tasks."""
        return storage.join(self.home, str(file.relative_to(self.folder)))
