"""The ledger of a matrix: what was asked, and what came of each cell as it ended.

It is a folder beside the run folders, written so that an interrupted matrix can go on.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.run_dir import canonical_json, read_lines, write_atomically

_PLAN = "matrix.json"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger in one folder.

    Attributes:
        folder: where it lies; pages are written there too.
        lines: name of the file of JSON lines, one a cell.
    """

    folder: Path
    lines: str

    @classmethod
    def begin(cls, store: Path, prefix: str, asked: Mapping[str, Any], *, lines: str) -> "Ledger":
        """Begin a new one under `store`.

        Args:
            store: where run folders lie.
            prefix: what its name begins with; the time follows.
            asked: what is wanted, as JSON.
            lines: name of its file of JSON lines.

        Raises:
            UsageError: the store cannot be written to.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        folder = store.resolve() / f"{prefix}{stamp}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"The store {store} cannot hold the matrix ({error.strerror}): "
                "choose another with --store."
            ) from error
        write_atomically(folder / _PLAN, canonical_json(asked))
        return cls(folder, lines)

    @classmethod
    def resume(cls, store: Path, prefix: str, asked: Mapping[str, Any], *, lines: str) -> "Ledger":
        """Return the newest one under `store` that was asked the same.

        Raises:
            UsageError: there is none.
        """
        for file in sorted(store.resolve().glob(f"{prefix}*/{_PLAN}"), reverse=True):
            if json.loads(file.read_text(encoding="utf-8")) == asked:
                return cls(file.parent, lines)
        raise UsageError(
            f"There is no matrix in {store} that was asked the same, to go on with: "
            "leave out --resume."
        )

    @property
    def path(self) -> Path:
        """The file of JSON lines."""
        return self.folder / self.lines

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield what was written, as `read_lines` does."""
        return read_lines(self.path)
