"""night.yaml: the matrix of a night, in settings that are called like the flags of `run`."""

from pathlib import Path
from typing import Any

from harness.campaigns.night_matrix import Choice, NightMatrix
from harness.cli.scenario_file import is_scenario_file, read_scenario_file
from harness.cli.settings import BY_NAME, Flags, as_given, scenario_of
from harness.cli.yaml_file import Mistake, Place, YamlFile, nearest, read_yaml, reject
from harness.core.errors import UsageError
from harness.core.scenario import SCENARIOS

TEMPLATE = Path(__file__).with_name("night.yaml")
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
        elif _differs(name, value):
            choices[_own(name)] = found
        else:
            common[_own(name)] = found[0].value
    exclude, wrong = _excluded(file, {*common, *choices})
    reject(path, [*mistakes, *wrong])
    scenarios = [common.get(_SCENARIO), *(each.value for each in choices.get(_SCENARIO, ()))]
    return NightMatrix(
        make=scenario_of,
        below=below,
        files={name: _settings_in(name) for name in filter(is_scenario_file, scenarios)},
        common=common,
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
    if isinstance(value, dict):
        weighted = list(value.items())
    else:
        weighted = [(each, 1.0) for each in (value if _differs(name, value) else [value])]
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
            given = _given(str(name), each)
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
        # What a scenario file says is checked where it is read.
        if not is_scenario_file(given):
            SCENARIOS[given]
        return
    BY_NAME[_own(name)].check(given)


def _excluded(file: YamlFile, named: set[str]) -> tuple[tuple[Flags, ...], list[Mistake]]:
    """Return the combinations that are not run, and what is wrong with them."""
    given = file.document.get(_EXCLUDE) or []
    if not isinstance(given, list) or not all(isinstance(each, dict) and each for each in given):
        words = "exclude is to be a list, each entry with some settings and their values."
        return (), [file.mistake((_EXCLUDE,), words)]
    mistakes = list[Mistake]()
    entries = list[Flags]()
    for number, entry in enumerate(given):
        read = dict[str, Any]()
        for name, value in entry.items():
            place: Place = (_EXCLUDE, number, name)
            if _own(str(name)) not in named:
                words = f"The file sets no {name}, so it excludes nothing."
                mistakes.append(file.mistake(place, words))
                continue
            try:
                read[_own(str(name))] = _given(str(name), value)
            except UsageError as error:
                mistakes.append(file.mistake(place, str(error)))
        entries.append(read)
    return tuple(entries), mistakes


def _settings_in(path: str) -> Flags:
    """Return the settings of a scenario file, its steps among them; a night draws its own seeds.

    Raises:
        UsageError: the file cannot be read, or holds something else; a line for each mistake.
    """
    file = read_scenario_file(Path(path))

    def check(name: str, value: Any) -> None:  # noqa: ANN401 (what the file holds)
        if name == "seed":
            return
        if not _is_known(name) or (name == _SCENARIO and is_scenario_file(value)):
            raise UsageError(f"A night cannot honour {name}: take it out.")
        _check(name, _given(name, value))

    file.reject(check)
    read = {name: _given(name, value) for name, value in file.settings.items() if name != "seed"}
    return read if file.steps is None else {**read, "steps": file.steps}


def _differs(name: object, value: Any) -> bool:  # noqa: ANN401 (what the file holds)
    """Return whether runs differ in a setting; else all have its one value."""
    if isinstance(value, list) and _is_repeatable(str(name)):
        # A list of pairs is one value: all of them hold for each run.
        return any(isinstance(each, list) for each in value)
    return isinstance(value, (dict, list))


def _given(name: str, value: Any) -> Any:  # noqa: ANN401 (what the file holds)
    """Return a value as it would be written on the command line.

    Raises:
        UsageError: it is neither a plain value nor a list of them.
    """
    plain = value if isinstance(value, list) else [value]
    if not all(isinstance(each, (str, bool, int, float)) for each in plain):
        raise UsageError(f"{value!r} is to be a plain value.")
    return as_given(value, repeatable=_is_repeatable(name))


def _is_known(name: object) -> bool:
    return isinstance(name, str) and (name == _SCENARIO or _own(name) in BY_NAME)


def _is_repeatable(name: str) -> bool:
    setting = BY_NAME.get(_own(name))
    return setting is not None and setting.is_repeatable


def _own(name: str) -> str:
    return name.replace("-", "_")
