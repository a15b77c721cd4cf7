"""Scenario files: settings of an experiment and, if it has some, its steps, in YAML."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.campaigns.described import call, parse_event, parse_fault, parse_target
from harness.cli.settings import flags_of
from harness.cli.yaml_file import Mistake, Place, nearest, read_yaml, reject
from harness.core.duration import parse_duration_s
from harness.core.errors import UsageError
from harness.core.fault import describe
from harness.core.scenario import Scenario, Step

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


def scenario_text(scenario: Scenario, seed: int) -> str:
    """Return a scenario file from which `run` makes an experiment again, with the same steps.

    Args:
        scenario: the experiment, on the topic of the registered scenario of its name.
        seed: of the run.
    """
    import yaml

    document = {**flags_of(scenario), "seed": seed, _STEPS: []}
    document[_STEPS] = [_written(step) for step in scenario.schedule.steps(seed, math.inf)]
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text


def _written(step: Step) -> dict[str, Any]:
    after = step.after
    waits = after and {
        "after": call(describe(after.event)),
        **({"delay": f"{after.delay_s:g}s"} if after.delay_s else {}),
        "within": f"{after.within_s:g}s",
    }
    return {
        **({"at": f"{step.at_s:g}s"} if step.at_s else {}),
        **(waits or {}),
        "fault": call(describe(step.fault)),
        "target": call(describe(step.target)),
        "hold": f"{step.hold_s:g}s",
    }


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

    def reject(self, check: Callable[[str, Any], object] = lambda *_: None) -> None:
        """Raise an error if anything is wrong in the file.

        Args:
            check: is called with each setting, by its name as it is written, and its value; it
                raises a UsageError about what cannot be.

        Raises:
            UsageError: a line for each mistake.
        """
        mistakes = list(self.mistakes)
        for name, (line, column) in self.places.items():
            own = name.replace("-", "_")
            if own in self.settings:
                try:
                    check(name, self.settings[own])
                except UsageError as error:
                    mistakes.append(Mistake(line=line, column=column, words=str(error)))
        reject(self.path, mistakes)


def is_scenario_file(scenario: object) -> bool:
    """Return whether a scenario is named by its file."""
    return isinstance(scenario, str) and scenario.endswith((".yaml", ".yml"))


def read_scenario_file(path: Path) -> ScenarioFile:
    """Return a scenario file, and what is wrong in it.

    Raises:
        UsageError: it cannot be read, or is not YAML.
    """
    file = read_yaml(path, what="scenario file")
    document, marks = file.document, file.marks
    if document is None:
        return ScenarioFile(path=path)
    if not isinstance(document, dict):
        mistake = Mistake(line=1, column=1, words="A scenario file holds settings by their names.")
        return ScenarioFile(path=path, mistakes=(mistake,))
    mistakes: list[Mistake] = []

    def note(place: Place, words: str) -> None:
        mistakes.append(file.mistake(place, words))

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
