"""night.yaml: the matrix of a night, in settings that are called like the flags of `run`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.campaigns.described import parse_fault, parse_pattern, parse_target
from harness.campaigns.field_values import field_values
from harness.campaigns.night_matrix import Choice, NightMatrix
from harness.cli.settings import BY_NAME, Flags, Setting, scenario_of
from harness.cli.yaml_file import Mistake, Place, YamlFile, nearest, read_yaml, reject
from harness.core.errors import UsageError
from harness.core.scenario import SCENARIOS

TEMPLATE = Path(__file__).with_name("night.yaml")
_CALLS: Mapping[str, Callable[[str], object]] = {
    "faults": parse_fault,
    "targets": lambda text: parse_target(text, topic=""),
    "patterns": parse_pattern,
}
"""What reads each entry of a setting that is a list of such."""
_EXCLUDE, _SCENARIO = "exclude", "scenario"


def read_night(path: Path, *, below: Flags, seed: int | None) -> NightMatrix:
    """Return the night that a file describes.

    Args:
        path: of the file.
        below: settings that count where the file has none.
        seed: of the night; None: any.

    Raises:
        UsageError: the file cannot be read, or holds something else; a line for each mistake.
    """
    file = read_yaml(path, what="file of a night")
    if not isinstance(file.document, dict):
        reject(path, [file.mistake((), "The file is to hold settings by their names.")])
    mistakes: list[Mistake] = []
    common, choices = dict[str, Any](), dict[str, tuple[Choice, ...]]()
    for name, value in file.document.items():
        if name == _EXCLUDE:
            continue
        found = _choices(file, name, value)
        if isinstance(found, Mistake):
            mistakes.append(found)
        elif isinstance(value, (dict, list)) and not _is_repeatable(name):
            choices[_own(name)] = found
        else:
            common[_own(name)] = found[0].value
    exclude, wrong = _excluded(file, {*common, *choices})
    reject(path, [*mistakes, *wrong])
    settings = {name: value for name, value in below.items() if name not in choices}
    return NightMatrix(
        make=scenario_of,
        common={**settings, **common},
        choices=choices,
        exclude=exclude,
        seed=seed,
    )


def write_template(path: Path) -> None:
    """Write a file with comments, to begin with.

    Raises:
        UsageError: there is such a file, or it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.read_text(encoding="utf-8"))
    except FileExistsError as error:
        raise UsageError(f"{path} is there already: name another file.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): name another.") from error


def _choices(file: YamlFile, name: object, value: Any) -> tuple[Choice, ...] | Mistake:  # noqa: ANN401 (what the file holds)
    """Return the values of a setting with their weights, or what is wrong with it."""
    known = [setting.flag.removeprefix("--") for setting in BY_NAME.values()]
    if not _is_known(name):
        words = f"There is no setting {name}.{nearest(str(name), [*known, _SCENARIO, _EXCLUDE])}"
        return file.mistake((name,) if isinstance(name, str) else (), words)
    place: Place = (str(name),)
    weighted: list[tuple[Any, Any]]
    if _is_repeatable(str(name)):
        # All of these hold for each run; they are no values to choose from.
        pairs = value if isinstance(value, list) else [value]
        weighted = [([_given(pair) for pair in pairs], 1.0)]
    elif isinstance(value, dict):
        weighted = list(value.items())
    else:
        weighted = [(each, 1.0) for each in (value if isinstance(value, list) else [value])]
    if not weighted:
        return file.mistake(place, f"{name} has no value.")
    choices = []
    for each, weight in weighted:
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            return file.mistake((*place, str(each)), f"The weight of {each} is to be a number.")
        if isinstance(each, float) and name == "kafka":
            words = "Write versions in quotes: without them 4.10 is the number 4.1."
            return file.mistake(place, words)
        try:
            given = each if isinstance(each, list) else _given(each)
            _check(str(name), given)
            choices.append(Choice(value=given, weight=float(weight)))
        except UsageError as error:
            at = (*place, str(each)) if isinstance(value, dict) else place
            return file.mistake(at, str(error))
    return tuple(choices)


def _check(name: str, given: Any) -> None:  # noqa: ANN401 (any flag's)
    """Reject what is no value of a setting.

    Raises:
        UsageError: it is none.
    """
    if name == _SCENARIO:
        SCENARIOS[given]
        return
    setting = BY_NAME[_own(name)]
    read = setting.read(given)
    if setting.field in _CALLS:
        for text in read:
            _CALLS[setting.field](text)
    values = {setting.field: read}
    field_values(setting.owner, values, owner=f"The setting {setting.flag}")


def _excluded(file: YamlFile, named: set[str]) -> tuple[tuple[Flags, ...], list[Mistake]]:
    """Return the combinations that are not run, and what is wrong with them."""
    given = file.document.get(_EXCLUDE) or []
    if not isinstance(given, list) or not all(isinstance(each, dict) and each for each in given):
        words = "exclude is to be a list, each entry with some settings and their values."
        return (), [file.mistake((_EXCLUDE,), words)]
    mistakes = [
        file.mistake((_EXCLUDE, number, name), f"The file sets no {name}, so it excludes nothing.")
        for number, entry in enumerate(given)
        for name in entry
        if _own(str(name)) not in named
    ]
    entries: list[Mapping[str, Any]] = [
        {_own(str(name)): _given(value) for name, value in entry.items()} for entry in given
    ]
    return tuple(entries), mistakes


def _given(value: Any) -> str:  # noqa: ANN401 (what the file holds)
    """Return a value as it would be written on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{value!r} is to be a plain value.")
    return str(value)


def _is_known(name: object) -> bool:
    return isinstance(name, str) and (name == _SCENARIO or _own(name) in BY_NAME)


def _is_repeatable(name: str) -> bool:
    setting: Setting | None = BY_NAME.get(_own(name))
    return setting is not None and setting.takes == "pairs"


def _own(name: str) -> str:
    return name.replace("-", "_")
