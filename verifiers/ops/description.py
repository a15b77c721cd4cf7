"""The description of a parsed op history: its size, its problems, its suspected keys."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from pathlib import PurePath
from typing import Any

from verifiers.ops.schema import COUNT, PROBLEM, SPLIT


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
    """Return the description of a file from the rows of its splits (pairing.TOLD_COLUMNS)."""
    ordered = sorted((row for row in rows if row["row"] == SPLIT), key=itemgetter("split"))
    splits = [json.loads(row["error"]) for row in ordered]
    lines = list(accumulate((split["lines"] for split in splits), initial=0))
    unpaired = [row for row in rows if row["row"] == PROBLEM]
    problems = [
        Problem(line=lines[row["split"]] + row["line"] + 1, words=row["error"]) for row in unpaired
    ]
    problem_counts = {row["split"]: 1 for row in unpaired}
    key_kinds: list[tuple[int, str]] = []
    counted = [row for row in rows if row["row"] == COUNT]
    counts = Counter({(row["kind"], row["type"]): row["value"] for row in counted})
    last = -1
    for number, split in enumerate(splits):
        first_line = lines[number] + 1
        problems += [
            Problem(line=first_line + line, words=words) for line, words in split["problems"]
        ]
        problem_counts[number] = max(problem_counts.get(number, 0), split["problem_count"])
        key_kinds += [(first_line + line, kind) for kind, line in split["keys"].items()]
        counts.update({(what, kind): many for what, kind, many in split["counts"]})
        if split["first"] is None:
            continue
        if split["first"] <= last:
            words = f"has index {split['first']} after {last}: indices must rise line by line"
            problems.append(Problem(line=first_line, words=words))
        last = split["last"]
    problems += _mixed_keys(key_kinds)
    return Described(
        path=path,
        problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)),
        problem_count=max(sum(problem_counts.values()), len(problems)),
        lines=lines[-1],
        open=counts.pop(("open", "info"), 0),
        pending=counts.pop(("pending", "info"), 0),
        counts=counts,
        suspects=tuple((key, by_order_only) for key, by_order_only in splits[0].get("suspects", ()))
        if len(splits) == 1
        else None,
    )


def _mixed_keys(key_kinds: Iterable[tuple[int, str]]) -> list[Problem]:
    first: dict[str, int] = {}
    for line, kind in sorted(key_kinds):
        first.setdefault(kind, line)
    if len(first) < 2:
        return []
    (other, before), (kind, line) = first.items()
    name = {"int": "whole numbers", "str": "strings"}
    words = (
        f"has keys that are {name[kind]}, and line {before} has keys that are {name[other]}: "
        "keys of one history are of one type"
    )
    return [Problem(line=line, words=words)]
