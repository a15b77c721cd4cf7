"""Faults, targets, events, patterns and steps, as texts and plans describe them."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from harness.campaigns.field_values import field_values
from harness.core.errors import UsageError
from harness.core.event import EVENTS, Event
from harness.core.fault import FAULTS, TARGETS, Fault, Target
from harness.core.pattern import PATTERNS, Pattern
from harness.core.registry import Registry
from harness.core.scenario import After, Step

_Entry = TypeVar("_Entry")


def split_calls(text: str) -> tuple[str, ...]:
    """Return the faults or targets in a list; a comma in brackets belongs to its entry."""
    parts = re.split(r",(?![^()]*\))", text)
    return tuple(part.strip() for part in parts if part.strip())


def parse_fault(given: str | Mapping[str, Any]) -> Fault:
    """Return the fault that `name` or `name(value, parameter=value, …)` describes.

    Args:
        given: such a text, in which values without a name are those of the first parameters; or
            what `describe` returns.

    Raises:
        UsageError: no such fault or parameter, or a value that does not fit it.
    """
    return _read(given, FAULTS)


def parse_pattern(given: str | Mapping[str, Any]) -> Pattern:
    """Return the pattern that `name` or `name(value, parameter=value, …)` describes.

    Args:
        given: as for `parse_fault`.

    Raises:
        UsageError: no such pattern or parameter, or a value that does not fit it.
    """
    return _read(given, PATTERNS)


def parse_event(given: str | Mapping[str, Any], *, topic: str | None = None) -> Event:
    """Return the event that `name` or `name(value, parameter=value, …)` describes.

    Args:
        given: as for `parse_fault`.
        topic: of an event that has one and whose text names none.

    Raises:
        UsageError: no such event or parameter, or a value that does not fit it.
    """
    return _read(given, EVENTS, topic=topic)


def parse_target(given: str | Mapping[str, Any], *, topic: str | None = None) -> Target:
    """Return the target that `name` or `name(value, parameter=value, …)` describes.

    Args:
        given: as for `parse_fault`.
        topic: of a target that has one and whose text names none.

    Raises:
        UsageError: no such target or parameter, or a value that does not fit it.
    """
    return _read(given, TARGETS, topic=topic)


def _read(
    given: str | Mapping[str, Any],
    registry: Registry[Callable[..., _Entry]],
    *,
    topic: str | None = None,
) -> _Entry:
    """Return the entry of a registry that a text describes, or what `describe` returned.

    Args:
        given: the description.
        registry: of the entry's name.
        topic: what an entry gets whose text names no topic, if it has one.
    """
    if not isinstance(given, str):
        return _made(registry, **given)
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", given)
    if match is None:
        raise UsageError(
            f"{given!r} is no {registry.kind}: write name, name(value) or name(parameter=value)."
        )
    kind: Any = registry[match[1]]
    known = [field.name for field in fields(kind)]
    unnamed = iter(known)
    parameters: dict[str, str] = {}
    for part in (part.strip() for part in (match[2] or "").split(",") if part.strip()):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign:
            name, value = next(unnamed, ""), part
        if not name or name in parameters:
            raise UsageError(
                f"{part!r} in {given!r} is one value too many: the {registry.kind} {match[1]} has "
                f"{', '.join(known) or 'no parameters'}."
            )
        parameters[name] = value
    if topic is not None and "topic" in known:
        parameters.setdefault("topic", topic)
    return _made(registry, match[1], parameters)


def _made(
    registry: Registry[Callable[..., _Entry]], name: str, parameters: Mapping[str, Any]
) -> _Entry:
    kind: Any = registry[name]
    owner = f"The {registry.kind} {name}"
    values = field_values(kind, parameters, owner=owner)
    missing = [
        field.name
        for field in fields(kind)
        if field.default is MISSING
        and field.default_factory is MISSING
        and field.name not in values
    ]
    if missing:
        raise UsageError(f"{owner} needs {', '.join(missing)}: write {name}({missing[0]}=…).")
    made: _Entry = kind(**values)
    return made


def call(described: Mapping[str, Any]) -> str:
    """Return the text from which the `parse_` functions make what was described again."""
    values = {
        name: ("on" if value else "off") if isinstance(value, bool) else value
        for name, value in described["parameters"].items()
        if value not in (None, (), [])
    }
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"{described['name']}({text})" if text else str(described["name"])


def parse_step(given: Mapping[str, Any], *, topic: str | None = None) -> Step:
    """Return the step that plan.json describes; its faults, targets and events may be texts too.

    Args:
        given: the step.
        topic: of targets and events that have one and whose text names none.

    Raises:
        UsageError: something is missing, unknown, or no value of its kind.
    """
    known = {"at_s", "hold_s", "fault", "target", "after", "id", "pattern"}
    if surplus := sorted(set(given) - known):
        raise UsageError(f"A step has no {', '.join(surplus)}: it has {', '.join(sorted(known))}.")
    if missing := [name for name in ("fault", "target", "hold_s") if name not in given]:
        raise UsageError(f"A step lacks its {', '.join(missing)}: {dict(given)}.")
    after = given.get("after")
    return Step(
        fault=parse_fault(given["fault"]),
        target=parse_target(given["target"], topic=topic),
        after=None if after is None else _after(after, topic),
        pattern=str(given.get("pattern", "")),
        **_seconds(given, ("at_s", "hold_s"), default_s=0.0),
    )


def _after(given: Any, topic: str | None) -> After:  # noqa: ANN401 (whatever a file holds)
    if not isinstance(given, Mapping) or "event" not in given:
        raise UsageError(f"What a step waits for names no event: {given!r}.")
    event = parse_event(given["event"], topic=topic)
    return After(event=event, **_seconds(given, ("delay_s", "within_s")))


def _seconds(
    given: Mapping[str, Any], names: tuple[str, ...], *, default_s: float | None = None
) -> dict[str, float]:
    """Return those of some values that are given, each a number of seconds of 0 or more."""
    found = {}
    for name in names:
        value = given.get(name, default_s)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise UsageError(f"The {name} of a step is a number of seconds, not {value!r}.")
        found[name] = float(value)
    return found


def read_plan(path: Path) -> dict[str, Any]:
    """Return what a plan.json holds: schema, scenario, seed, duration_s, max_at_once and steps.

    Raises:
        UsageError: the file cannot be read, or is no plan.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is no plan that can be read ({error}): write one with `kafka-chaos plan "
            "--seed 7 --json`."
        ) from error
    wanted = {"scenario": str, "seed": int, "duration_s": (int, float), "max_at_once": int,
              "steps": list}  # fmt: skip
    for name, kind in wanted.items():
        if not isinstance(document, dict) or not isinstance(document.get(name), kind):  # type: ignore[arg-type]  # a class or several
            raise UsageError(f"{path} is no plan: it has no {name} as `kafka-chaos plan` writes.")
    if not all(isinstance(step, dict) for step in document["steps"]):
        raise UsageError(f"{path} is no plan: one of its steps is no object.")
    plan: dict[str, Any] = document
    return plan
