"""The description of a parsed op history: its size, its problems, its suspected keys."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from verifiers.ops.schema import COUNT, KEYS, PROBLEM, SPLIT, SUSPECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a history cannot be judged: its line, from 1, or None for the file as a whole."""

    line: int | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The description of one parsed file.

    Attributes:
        path: the file; of a URI, for its last part only.
        problems: why it cannot be judged, by line; at most 8 a split. None of its ops is in the
            frames then.
        problem_count: how many lines have one.
        lines: how many lines it has.
        counts: completed ops ("op") and their values ("send", "poll"), by type; ops that
            never completed are not among them.
        open: ops that never completed.
        pending: values that these may have sent.
        suspects: the keys that the first look did not clear (first_look.py), each with whether only
            the order of the log speaks against it; a key of None stands for all keys. None if the
            file was divided, so that there was no first look while it was parsed.
    """

    path: PurePath
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    lines: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    open: int = 0
    pending: int = 0
    suspects: tuple[tuple[str | None, bool], ...] | None = None

    @property
    def indeterminate(self) -> int:
        """How many values ops of unknown outcome may have sent."""
        return self.counts.get(("send", "info"), 0) + self.pending


def describe(path: PurePath, rows: Sequence[Any]) -> Described:
    """Return the description of a file from the rows of its splits (PARSED_SCHEMA)."""
    splits = sorted((row for row in rows if row["row"] == SPLIT), key=lambda row: int(row["split"]))
    before: dict[int, int] = {}
    lines = 0
    for split in splits:
        before[split["split"]] = lines
        lines += split["line"]

    def line_of(row: Any) -> int:  # noqa: ANN401  (a Row)
        return int(before[row["split"]] + row["line"] + 1)

    problems = [
        Problem(line=line_of(row), words=row["error"])
        for row in rows
        if row["row"] == PROBLEM and row["error"]
    ]
    most: Counter[int] = Counter()
    for row in rows:
        if row["row"] == PROBLEM:
            most[row["split"]] = max(most[row["split"]], row["value"])
    problems += _disordered(splits, before)
    problems += _mixed_keys([(line_of(row), row["kind"]) for row in rows if row["row"] == KEYS])
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["row"] == COUNT:
            counts[row["kind"], row["type"]] += row["value"]
    return Described(
        path=path,
        problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)),
        problem_count=max(sum(most.values()), len(problems)),
        lines=lines,
        open=counts.pop(("open", "info"), 0),
        pending=counts.pop(("pending", "info"), 0),
        counts=counts,
        suspects=_suspects(rows) if len(splits) == 1 else None,
    )


def _suspects(rows: Sequence[Any]) -> tuple[tuple[str | None, bool], ...]:
    return tuple((row["key"], bool(row["value"])) for row in rows if row["row"] == SUSPECT)


def _disordered(splits: Sequence[Any], before: Mapping[int, int]) -> list[Problem]:
    problems = []
    last = -1
    for split in splits:
        if split["op"] is None:
            continue
        if split["op"] <= last:
            problem = f"has index {split['op']} after {last}: indices must rise line by line"
            problems.append(Problem(line=before[split["split"]] + 1, words=problem))
        last = split["invoked"]
    return problems


def _mixed_keys(key_kinds: Sequence[tuple[int, str]]) -> list[Problem]:
    first = {
        kind: min(line for line, k in key_kinds if k == kind) for kind in {k for _, k in key_kinds}
    }
    if len(first) < 2:
        return []
    words = {"int": "whole numbers", "str": "strings"}
    kind = max(first, key=lambda kind: first[kind])
    (other,) = set(first) - {kind}
    return [
        Problem(
            line=first[kind],
            words=f"has keys that are {words[kind]}, and line {first[other]} has keys that are "
            f"{words[other]}: keys of one history are of one type",
        )
    ]
