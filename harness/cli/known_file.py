"""known.yaml: the findings that are known, each with its reason."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from harness.campaigns.fingerprint import CONTROL_PREFIX
from harness.campaigns.known import Known, KnownFindings
from harness.cli.yaml_file import Mistake, Place, YamlFile, nearest, read_yaml, reject
from harness.core.errors import UsageError
from harness.core.scenario import SCENARIOS

DEFAULT = Path("known.yaml")
"""Read from the current folder if it is there and no other file is named."""

_FIELDS = ("fingerprint", "why", "link", "versions", "until")
_NEEDED = ("fingerprint", "why")
_FORM = re.compile(r"[\w-]+-[0-9a-f]{8}")


def known_findings(path: Path | None) -> KnownFindings:
    """Return the findings that are known today.

    Args:
        path: of the file; None: known.yaml of the current folder, or none at all.

    Raises:
        UsageError: the file cannot be read, or holds something else; a line for each mistake.
    """
    today = datetime.now(UTC).date()
    if path is None and not DEFAULT.is_file():
        return KnownFindings(today=today)
    return KnownFindings(entries=read_known(path or DEFAULT), today=today)


def read_known(path: Path) -> tuple[Known, ...]:
    """Return the entries of a file.

    Raises:
        UsageError: the file cannot be read, or holds something else; a line for each mistake.
    """
    file = read_yaml(path, what="file of known findings")
    if file.document is None:
        return ()
    if not isinstance(file.document, list):
        reject(path, [file.mistake((), "The file is to be a list of entries, each with a - .")])
    entries: list[Known] = []
    mistakes: list[Mistake] = []
    for number, given in enumerate(file.document):
        found = _wrong(file, given, number)
        if not found:
            try:
                entries.append(_entry(given))
            except UsageError as error:
                found = [file.mistake((number, "versions"), str(error))]
        mistakes += found
    seen = [str(each.get("fingerprint")) for each in file.document if isinstance(each, dict)]
    mistakes += [
        file.mistake((number, "fingerprint"), f"{name} is there twice.")
        for number, name in enumerate(seen)
        if name in seen[:number] and not mistakes
    ]
    reject(path, mistakes)
    return tuple(entries)


def _wrong(file: YamlFile, given: Any, number: int) -> list[Mistake]:  # noqa: ANN401 (what the file holds)
    """Return what is wrong in an entry, but for its versions."""
    if not isinstance(given, dict):
        return [file.mistake((number,), "An entry is to hold a fingerprint and why it is known.")]
    place: Place = (number,)
    found = [
        file.mistake(
            (*place, name),
            f"An entry has no {name}.{nearest(str(name), _FIELDS)} It has {', '.join(_FIELDS)}.",
        )
        for name in given
        if name not in _FIELDS
    ]
    found += [
        file.mistake(place, f"An entry needs its {name}.")
        for name in _NEEDED
        if not given.get(name)
    ]
    found += [
        file.mistake((*place, name), f"The {name} of an entry is to be a text.")
        for name in ("fingerprint", "why", "link")
        if given.get(name) and not isinstance(given[name], str)
    ]
    if not found:
        found += _unknowable(file, given, (*place, "fingerprint"))
    versions = given.get("versions", [])
    if not all(isinstance(each, str) for each in _listed(versions)):
        words = "Write versions in quotes: without them 4.10 is the number 4.1."
        found.append(file.mistake((*place, "versions"), words))
    if _date(given.get("until")) is None and given.get("until") is not None:
        found.append(file.mistake((*place, "until"), "until is to be a day, such as 2027-03-31."))
    return found


def _unknowable(file: YamlFile, given: Mapping[str, Any], place: Place) -> list[Mistake]:
    """Return why a fingerprint is none that can be known."""
    name = given["fingerprint"]
    if name.startswith(CONTROL_PREFIX) or name in SCENARIOS:
        words = (
            f"{name} cannot be known: it is of a control, a run that must lose. A night in which "
            "its loss is not found, or more than that, shows nothing."
        )
    elif not _FORM.fullmatch(name):
        words = (
            f"{name!r} is no fingerprint: write one as a night's summary does, such as "
            "lost-write-9893603c."
        )
    else:
        return []
    return [file.mistake(place, words)]


def _entry(given: Mapping[str, Any]) -> Known:
    return Known(
        fingerprint=given["fingerprint"],
        why=given["why"],
        link=given.get("link") or "",
        versions=tuple(_listed(given.get("versions", []))),
        until=_date(given.get("until")),
    )


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 (what the file holds)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _date(value: Any) -> date | None:  # noqa: ANN401 (what the file holds)
    """Return a day; None if it is none. YAML reads a bare day as one, and a time as one too."""
    if isinstance(value, datetime):
        return None
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return None
