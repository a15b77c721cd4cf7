"""YAML files of users: what stands in them, and where, so that a mistake is told with its place."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError

Place = tuple[str | int, ...]
"""Where something stands in a document: names and numbers from the top down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """What is wrong in a file, and where.

    Attributes:
        line: counted from 1.
        column: counted from 1.
        words: a sentence.
    """

    line: int
    column: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """A YAML file as it was read.

    Attributes:
        path: of the file.
        document: what it holds; None if it is empty.
        marks: line and column of whatever stands in it.
    """

    path: Path
    document: Any
    marks: Mapping[Place, tuple[int, int]] = field(default_factory=dict)

    def mistake(self, place: Place, words: str) -> Mistake:
        """Return what is wrong at a place; of one that is not known, at the beginning."""
        line, column = self.marks.get(place, (1, 1))
        return Mistake(line=line, column=column, words=words)


def read_yaml(path: Path, *, what: str) -> YamlFile:
    """Return what stands in a file, and where.

    Args:
        path: of the file.
        what: what it is, for errors: "scenario file".

    Raises:
        UsageError: it cannot be read, or is not YAML.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The {what} {path} cannot be read ({error}).") from error
    try:
        document = yaml.safe_load(text)
        marks = dict(_marks(yaml.compose(text, Loader=yaml.SafeLoader), ()))
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"The {what} {path} is not YAML: {error}") from error
    return YamlFile(path=path, document=document, marks=marks)


def reject(path: Path, mistakes: Iterable[Mistake]) -> None:
    """Raise an error if anything is wrong in a file.

    Raises:
        UsageError: a line for each mistake, from the top down.
    """
    found = sorted(mistakes, key=lambda each: (each.line, each.column))
    if found:
        lines = (f"{path}:{each.line}:{each.column}: {each.words}" for each in found)
        raise UsageError("\n".join(lines))


def nearest(word: str, words: Iterable[str]) -> str:
    """Return "Did you mean …?", or nothing where no word is like this one."""
    near = difflib.get_close_matches(word, [*words], n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _marks(node: Any, place: Place) -> Iterator[tuple[Place, tuple[int, int]]]:  # noqa: ANN401
    """Yield line and column of whatever stands in a document."""
    if node is None:
        return
    if place:
        yield place, (node.start_mark.line + 1, node.start_mark.column + 1)
    if node.id == "mapping":
        for key, value in node.value:
            inner = (*place, key.value)
            for found, mark in _marks(value, inner):
                # A name that is unknown is looked for where it stands, not where its value does.
                at = key.start_mark if found == inner else None
                yield found, (at.line + 1, at.column + 1) if at else mark
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            yield from _marks(value, (*place, number))
