"""The folder of a run, which holds all that is known of it. Formats: docs/run-folder.md."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.core.errors import HistoryUnreadable, UsageError

SCHEMA = 1

REPLICAS_MANIFEST = "replicas.json"
"""Below `cluster/`: what was copied from whom, and why anything was not."""

REPLICA_EPOCHS = "leader-epoch-checkpoint"
"""In a replica's folder: which leader epochs there were, and where each began."""

REPLICA_LIMIT_BYTES = 4 * 1024**3
"""So much of the brokers' logs is copied in all, unless a run is told otherwise."""

_UPDATING = threading.Lock()
"""Several threads of a run update run.json: none may undo the update of another."""


def canonical_json(document: object) -> str:
    """Return a document as JSON text, always the same: keys sorted, a newline at the end."""
    return json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one run, by its absolute path."""

    path: Path

    @classmethod
    def create(cls, store: Path, *, scenario: str, seed: int) -> "RunDir":
        """Make a new folder under `store`, and let `latest` there point to it.

        Raises:
            UsageError: the store cannot be written to.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        name = f"{stamp}-{scenario}-{seed}"
        try:
            store.mkdir(parents=True, exist_ok=True)
            path = _make_unique(store.resolve() / name)
            for part in ("clients", "history/raw", "cluster"):
                (path / part).mkdir(parents=True)
            _point_latest(store.resolve() / "latest", path.name)
        except OSError as error:
            raise UsageError(
                f"The store {store} cannot hold a run folder ({error.strerror}): "
                "choose another with --store."
            ) from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> "RunDir":
        """Return the folder at `path`.

        Raises:
            UsageError: there is no run in it.
        """
        if not path.exists():
            raise UsageError(f"There is no run folder {path}: `ls runs/` shows those there are.")
        if not (path / "run.json").is_file():
            raise UsageError(
                f"{path} is not a run folder: it has no run.json. Give the folder that "
                "`kafka-chaos run` named, or runs/latest."
            )
        return cls(path.resolve())

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.path.name

    @property
    def raw_history(self) -> Path:
        """The folder that clients write their histories to."""
        return self.path / "history" / "raw"

    def update(self, **fields: Any) -> None:  # noqa: ANN401 (JSON values of any shape)
        """Merge fields into run.json, atomically."""
        path = self.path / "run.json"
        with _UPDATING:
            document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            write_atomically(path, canonical_json({**document, **fields}))

    def meta(self) -> dict[str, Any]:
        """Return run.json.

        Raises:
            HistoryUnreadable: it is not JSON.
        """
        return self.read_json("run.json")

    def reject_pruned(self) -> None:
        """Raise an error if `kafka-chaos prune`, or a night, took the history away.

        Raises:
            HistoryUnreadable: it did; or run.json is not JSON.
        """
        if reason := self.why_pruned():
            raise HistoryUnreadable(reason)

    def why_pruned(self) -> str:
        """Return why there is no history any more; empty if it was not taken away.

        Raises:
            HistoryUnreadable: run.json is not JSON.
        """
        if not self.meta().get("pruned"):
            return ""
        return (
            f"{self.path} was pruned: its verdict and its report are there, its history is not. "
            f"Repeat the run: `kafka-chaos run --again {self.path}`."
        )

    def read_json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file of the folder.

        Raises:
            HistoryUnreadable: it is missing, or is not JSON.
        """
        return read_object(self.path / name)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the objects of one of its JSON-lines files, as `read_lines` does."""
        return read_lines(self.path / name)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        HistoryUnreadable: it is missing, or holds no JSON object.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise HistoryUnreadable(
            f"{path} cannot be read as JSON ({error}): restore it, or run again."
        ) from error
    if not isinstance(document, dict):
        raise HistoryUnreadable(f"{path} holds no JSON object: restore it, or run again.")
    return document


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file; none if the file does not exist.

    A killed writer may leave a last line without its newline: that line is left out.

    Raises:
        HistoryUnreadable: another line is not JSON; the message names it.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                document = json.loads(line)
            except json.JSONDecodeError as error:
                if not line.endswith("\n"):
                    return
                raise HistoryUnreadable(
                    f"{path}, line {number} is not JSON ({error.msg}): "
                    "restore the file, or run again."
                ) from error
            yield document


class Journal:
    """An append-only JSON-lines file; a line outlives this process once `append` has returned.

    Safe to use from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def append(self, entry: Mapping[str, Any], *, sync: bool = False) -> None:
        """Write a line; with `sync`, it is on the disk before this returns."""
        with self._lock:
            self._file.write(json.dumps(entry, sort_keys=True, ensure_ascii=False) + "\n")
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


def _make_unique(path: Path) -> Path:
    for attempt in range(1, 1000):
        candidate = path if attempt == 1 else path.with_name(f"{path.name}.{attempt}")
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        return candidate
    raise UsageError(f"There are a thousand runs called {path.name} already: clear the store.")


def _point_latest(link: Path, name: str) -> None:
    draft = link.with_name(f".latest-{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    draft.replace(link)
