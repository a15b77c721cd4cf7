"""The fields of documents in a run folder: a field of the wrong type counts as missing."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.core.run_dir import read_object
from verifiers.report.units import visible

Json = Mapping[str, Any]

_LONGEST_TEXT = 4000


def document(path: Path) -> Json | None:
    """Return the JSON object in a file, or None if there is no such file.

    Raises:
        HistoryUnreadable: the file holds none.
    """
    return read_object(path) if path.is_file() else None


def lines(path: Path, missing: list[str]) -> Iterator[Json]:
    """Yield the objects of a file of JSON lines; `missing` is told what is not there."""
    if not path.is_file():
        missing.append(f"{path.name}: there is none, so its lane is missing.")
        return
    unreadable = 0
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            content = json.loads(line) if line.strip() else None
        except ValueError:
            unreadable += 1
            continue
        if isinstance(content, Mapping):
            yield content
    if unreadable:
        were = "line was" if unreadable == 1 else "lines were"
        missing.append(f"{path.name}: {unreadable} unreadable {were} passed over.")


def is_number(value: object) -> bool:
    """Return whether it is a finite number, and no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def number(entry: Json, key: str) -> float | None:
    """Return a number, or None if there is none."""
    value = entry.get(key)
    return value if is_number(value) else None


def integer(entry: Json, key: str) -> int | None:
    """Return a whole number, or None if there is none."""
    value = entry.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(entry: Json, key: str) -> str | None:
    """Return a text, or a number as text: a seed and an id may be either."""
    value = entry.get(key)
    if isinstance(value, str):
        return visible(value, _LONGEST_TEXT)
    return str(value) if is_number(value) else None


def texts(entry: Json, key: str) -> tuple[str, ...]:
    """Return the entries of a list as texts."""
    return tuple(visible(str(value), _LONGEST_TEXT) for value in items(entry, key))


def mapping(entry: Json, key: str) -> dict[str, Any]:
    """Return an object; an empty one if there is none."""
    value = entry.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def objects(entry: Json, key: str) -> dict[str, Json]:
    """Return the objects in an object, by name."""
    named = mapping(entry, key)
    return {name: value for name, value in named.items() if isinstance(value, Mapping)}


def items(entry: Json, key: str) -> list[Any]:
    """Return a list; an empty one if there is none."""
    value = entry.get(key)
    return list(value) if isinstance(value, list | tuple) else []


def mappings(entry: Json, key: str) -> list[Json]:
    """Return the objects in a list."""
    return [value for value in items(entry, key) if isinstance(value, Mapping)]
