"""Scenario files: settings of an experiment and, if it has some, its steps, in YAML."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.campaigns.described import parse_event, parse_fault, parse_target
from harness.core.duration import parse_duration_s
from harness.core.errors import UsageError

Place = tuple[str | int, ...]
"""Where something stands in a document: names and numbers from the top down."""

_STEPS = "steps"
_PARTS: Mapping[str, Callable[[str], object]] = {
    "at": parse_duration_s,
    "after": lambda text: parse_event(text, topic=""),
    "delay": parse_duration_s,
    "within": parse_duration_s,
    "fault": parse_fault,
    "target": lambda text: parse_target(text, topic=""),
    "hold": parse_duration_s,
}
"""What a step may hold, and what reads it; a topic that is not named is the run's."""
_NEEDED = ("fault", "target", "hold")


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
class ScenarioFile:
    """A scenario file as it was read.

    Attributes:
        path: of the file.
        settings: named like the flags, with underscores; plain values and lists of them.
        steps: as `harness.campaigns.described.parse_step` takes them; None if there are none.
        mistakes: what is wrong, from the top down.
        places: line and column of each setting, by its name as it is written.
    """

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] | None = None
    mistakes: tuple[Mistake, ...] = ()
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def reject(self, mistakes: tuple[Mistake, ...] = ()) -> None:
        """Raise an error if anything is wrong in the file.

        Args:
            mistakes: more of them.

        Raises:
            UsageError: a line for each.
        """
        found = sorted((*self.mistakes, *mistakes), key=lambda each: (each.line, each.column))
        if found:
            lines = (f"{self.path}:{each.line}:{each.column}: {each.words}" for each in found)
            raise UsageError("\n".join(lines))


def read_scenario_file(path: Path) -> ScenarioFile:
    """Return a scenario file, and what is wrong in it.

    Raises:
        UsageError: it cannot be read, or is not YAML.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The scenario file {path} cannot be read ({error}).") from error
    try:
        document = yaml.safe_load(text)
        marks = dict(_marks(yaml.compose(text, Loader=yaml.SafeLoader), ()))
    except yaml.YAMLError as error:
        raise UsageError(f"The scenario file {path} is not YAML: {error}") from error
    if document is None:
        return ScenarioFile(path=path)
    if not isinstance(document, dict):
        mistake = Mistake(line=1, column=1, words="A scenario file holds settings by their names.")
        return ScenarioFile(path=path, mistakes=(mistake,))
    mistakes: list[Mistake] = []

    def note(place: Place, words: str) -> None:
        line, column = marks.get(place, (1, 1))
        mistakes.append(Mistake(line=line, column=column, words=words))

    settings = {}
    for name, value in document.items():
        if name == _STEPS:
            continue
        entries = value if isinstance(value, list) else [value]
        if all(isinstance(entry, (str, bool, int, float)) for entry in entries):
            settings[str(name).replace("-", "_")] = value
        else:
            note((name,), f"{name} is to be a plain value, or a list of them.")
    steps = _steps(document[_STEPS], note) if _STEPS in document else None
    return ScenarioFile(
        path=path, settings=settings, steps=steps, mistakes=tuple(mistakes),
        places={str(place[0]): mark for place, mark in marks.items() if len(place) == 1},
    )  # fmt: skip


def nearest(word: str, words: Iterable[str]) -> str:
    """Return "Did you mean …?", or nothing where no word is like this one."""
    near = difflib.get_close_matches(word, [*words], n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _steps(
    given: Any,  # noqa: ANN401 (what the file holds)
    note: Callable[[Place, str], None],
) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(given, list) or not given:
        note((_STEPS,), "steps is to be a list of steps, each with a fault, a target and a hold.")
        return ()
    return tuple(_step(step, (_STEPS, number), note) for number, step in enumerate(given))


def _step(given: Any, place: Place, note: Callable[[Place, str], None]) -> Mapping[str, Any]:  # noqa: ANN401
    """Return a step as `parse_step` takes it; what is wrong is noted and left out."""
    if not isinstance(given, dict):
        note(place, "A step is to hold a fault, a target and a hold.")
        return {}
    read: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _PARTS:
            hint = nearest(str(name), _PARTS)
            note((*place, name), f"A step has no {name}.{hint} It has {', '.join(_PARTS)}.")
            continue
        try:
            parsed = _PARTS[name](str(value))
        except UsageError as error:
            note((*place, name), str(error))
        else:
            read[name] = parsed if isinstance(parsed, float) else str(value)
    if missing := [name for name in _NEEDED if name not in given]:
        note(place, f"A step needs its {' and its '.join(missing)}.")
    if surplus := [name for name in ("delay", "within") if name in given and "after" not in given]:
        note((*place, surplus[0]), f"{surplus[0]} tells of an event: name it by after.")
    after = {
        "event": read.get("after"),
        **({"delay_s": read["delay"]} if "delay" in read else {}),
        **({"within_s": read["within"]} if "within" in read else {}),
    }
    return {
        "at_s": read.get("at", 0.0),
        "hold_s": read.get("hold"),
        "fault": read.get("fault"),
        "target": read.get("target"),
        **({"after": after} if "after" in read else {}),
    }


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
