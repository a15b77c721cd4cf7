"""Pruning: what passing runs leave on the disk is reduced to what is read of them later."""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.cluster import cleanup
from harness.core.errors import HistoryUnreadable
from harness.core.run_dir import RunDir, read_lines
from harness.core.size import size_text
from harness.core.verdict import Verdict

KEPT = frozenset(
    {
        "verdict.json", "report.html", "plan.json", "faults.jsonl", "faults.csv", "run.json",
        "summary.md", "junit.xml",
        # The cluster of a night lives longer than the run that started it, and is removed by this.
        "compose.yaml",
    }
)  # fmt: skip
"""What a passing run keeps of its folder."""

_LAST_WRITTEN = ("report.html", "summary.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """The folder of a run in a store.

    Attributes:
        folder: where it lies.
        began: when the run did.
        size_bytes: of all that lies in it.
        spare_bytes: of what a passing run does not keep.
        left_why: why nothing may be taken from it; empty if it is a passing run.
    """

    folder: Path
    began: datetime
    size_bytes: int
    spare_bytes: int
    left_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was done to a store.

    Attributes:
        runs: names of the runs that were reduced, the oldest first.
        freed_bytes: how much that has freed.
        size_bytes: of all folders of runs, afterwards.
        left: how many runs were left as they are, by the reason.
        left_bytes: what they take, by the reason.
        failures: what could not be removed, in sentences.
        max_bytes: what all of them might take; None: whatever they do.
    """

    runs: tuple[str, ...]
    freed_bytes: int
    size_bytes: int
    left: Mapping[str, int] = field(default_factory=dict)
    left_bytes: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    max_bytes: int | None = None

    def lines(self, *, dry_run: bool) -> list[str]:
        """Return it for a console; of a dry run, as what would be done."""
        does = "Would reduce" if dry_run else "Reduced"
        frees = "free" if dry_run else "freed"
        plural = "" if len(self.runs) == 1 else "s"
        lines = [
            f"{does} {len(self.runs)} passing run{plural} and {frees} "
            f"{size_text(self.freed_bytes)}; all runs {'would ' if dry_run else ''}take "
            f"{size_text(self.size_bytes)}."
        ]
        lines += [
            f"  left alone: {count} {why}, {size_text(self.left_bytes[why])}"
            for why, count in self.left.items()
        ]
        lines += [f"  {failure}" for failure in self.failures]
        if self.max_bytes is not None and self.size_bytes > self.max_bytes:
            lines.append(
                f"  That is still more than {size_text(self.max_bytes)}: what is left is needed to "
                "look into what was found. Remove folders by hand when that is done."
            )
        return lines

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "runs": list(self.runs),
            "freed_bytes": self.freed_bytes,
            "size_bytes": self.size_bytes,
            "left": dict(self.left),
            "failures": list(self.failures),
        }


def prune(
    store: Path,
    *,
    older_s: float | None = None,
    max_bytes: int | None = None,
    now: datetime | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Reduce passing runs of a store to what is read of them later.

    Runs that are not VALID, are not judged or still go on are left as they are, and so is whatever
    is no folder of a run.

    Args:
        store: where the folders of the runs lie.
        older_s: those that began so long ago are reduced, seconds; None: of none the age matters.
        max_bytes: further ones are reduced, the oldest first, until all take no more than this.
        now: what the age is measured from; None: now.
        dry_run: only say what would be done.
    """
    now = now or datetime.now(UTC)
    runs = sorted(_runs_of(store), key=lambda run: (run.began, run.folder.name))
    size_bytes = sum(run.size_bytes for run in runs)
    reduced, failures, freed_bytes = list[str](), list[str](), 0
    left, left_bytes = defaultdict[str, int](int), defaultdict[str, int](int)
    for run in runs:
        is_old = older_s is not None and (now - run.began).total_seconds() >= older_s
        is_too_much = max_bytes is not None and size_bytes - freed_bytes > max_bytes
        if run.left_why:
            left[run.left_why] += 1
            left_bytes[run.left_why] += run.size_bytes
        elif run.spare_bytes and (is_old or is_too_much):
            failure = "" if dry_run else reduce_run(run.folder)
            if failure:
                failures.append(failure)
                continue
            reduced.append(run.folder.name)
            freed_bytes += run.spare_bytes
    return Pruned(
        runs=tuple(reduced),
        freed_bytes=freed_bytes,
        size_bytes=size_bytes - freed_bytes,
        left=dict(left),
        left_bytes=dict(left_bytes),
        failures=tuple(failures),
        max_bytes=max_bytes,
    )


def reduce_run(folder: Path) -> str:
    """Take away from the folder of a passing run what it does not keep.

    Returns:
        Why something could not be removed, in a sentence; else nothing.
    """
    # Marked first: whoever is killed in between must not leave a folder that looks complete.
    try:
        RunDir(folder).update(pruned=True)
        for path in _spare(folder):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        return f"{error.filename or folder} could not be removed ({error.strerror})."
    return ""


def is_passing(folder: Path) -> bool:
    """Return whether a folder holds a run that is complete and VALID, its report written."""
    return not _why_left(folder, frozenset())


def _runs_of(store: Path) -> Iterator[StoredRun]:
    if not store.is_dir():
        return
    busy = frozenset(_runs_of_live_campaigns(store))
    for folder in store.iterdir():
        began = None if folder.is_symlink() or not folder.is_dir() else _began(folder)
        if began is not None:
            yield StoredRun(
                folder=folder,
                began=began,
                size_bytes=_size_bytes(folder),
                spare_bytes=sum(map(_size_bytes, _spare(folder))),
                left_why=_why_left(folder, busy),
            )


def _began(folder: Path) -> datetime | None:
    """Return when the run of a folder began; None if it is no run of ours."""
    document = _read(folder / "run.json")
    if not {"run_id", "state", "started_utc"} <= set(document):
        return None
    try:
        return datetime.strptime(str(document["started_utc"]), "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=UTC
        )
    except ValueError:
        return None


def _why_left(folder: Path, busy: frozenset[str]) -> str:
    """Return why a run is to be left as it is, in the plural; empty if it is a passing one."""
    state = _read(folder / "run.json").get("state")
    verdict = _read(folder / "verdict.json").get("verdict")
    if folder.name in busy or state == "running":
        return "that still go on, or were killed"
    if verdict is None:
        return "that are not judged"
    if verdict != Verdict.VALID.name or state != "complete":
        return "that are not VALID"
    # A report is written after its verdict, from files that are to go.
    if not all((folder / name).is_file() for name in _LAST_WRITTEN):
        return "that are not judged"
    return ""


def _runs_of_live_campaigns(store: Path) -> Iterator[str]:
    """Yield the runs of campaigns that still go on: they may be judged just now."""
    for owner_file in store.glob("*/owner"):
        try:
            owner = owner_file.read_text(encoding="utf-8")
        except OSError:
            continue
        if cleanup.is_running(owner):
            try:
                yield from (
                    str(line.get("run")) for line in read_lines(owner_file.parent / "made.jsonl")
                )
            except HistoryUnreadable:
                continue


def _spare(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name not in KEPT]


def _size_bytes(path: Path) -> int:
    """Return what a file takes, or everything below a folder; links are not followed."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    size_bytes = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                size_bytes += (Path(root) / name).lstat().st_size
            except FileNotFoundError:
                # A run that goes on replaces its files.
                continue
    return size_bytes


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; nothing if there is none, or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
