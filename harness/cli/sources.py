"""Where settings come from: a flag, KAFKA_CHAOS_*, a scenario file, pyproject.toml, in this order.

A setting that a command cannot honour is an error, where ignoring it could make a green run about
another cluster than the one that was meant.
"""

import os
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from harness.campaigns.configure import DEALS
from harness.cli.scenario_file import is_scenario_file, read_scenario_file
from harness.cli.settings import BY_NAME, as_given
from harness.cli.yaml_file import nearest
from harness.core.errors import UsageError

_PREFIX = "KAFKA_CHAOS_"
STEPS = "kafka-chaos.steps"
"""Where a command's context keeps the steps of a scenario file."""
_LOG_LEVEL = "KAFKA_CHAOS_LOG"
"""The one variable of this name that no flag reads."""

_EPILOG = (
    "Most flags can also be set by a variable (--max-at-once by KAFKA_CHAOS_MAX_AT_ONCE), in a "
    "scenario file, and in the table tool.kafka-chaos of pyproject.toml (max-at-once); the first "
    "of these counts."
)
_PYPROJECT = "[tool.kafka-chaos] in pyproject.toml"


class ConfiguredCommand(TyperCommand):
    """A command whose flags can be set by the environment and by the folder's pyproject.toml.

    It refuses what no command knows, and passes over what only others know.
    """

    must_honour: Collection[str] | None = ()
    """Which of `run`'s settings it refuses if a project sets them in vain; None: all of them."""

    def __init__(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 (typer's own)
        super().__init__(*args, **{**more, "epilog": more.get("epilog") or _EPILOG})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 (click's own)
        """Read the settings before the flags, which stand above them."""
        if not set(args) & set(ctx.help_option_names):
            _reject_variables(ctx)
            settings = project_settings(Path.cwd())
            ctx.default_map = honoured(ctx, settings, where=_PYPROJECT)
        return list(super().parse_args(ctx, args))


class RunningCommand(ConfiguredCommand):
    """A command that starts clusters: it also refuses what `run` would honour and it does not."""

    must_honour: Collection[str] | None = None


def scenario_argument(context: typer.Context, value: str | None) -> str | None:
    """Let a scenario file take its place below flags and environment, above pyproject.toml."""
    if value is None or not is_scenario_file(value):
        return value
    file = read_scenario_file(Path(value))
    file.reject(_check(context))
    settings = honoured(context, file.settings, where=f"The scenario file {value}")
    if file.steps is not None:
        if "plan" not in {parameter.name for parameter in context.command.params}:
            raise UsageError(
                f"The scenario file {value} has steps, which `{context.command_path}` cannot carry "
                "out: leave them out, or use `run`."
            )
        context.meta[STEPS] = file.steps
    below = dict(context.default_map or {})
    if file.steps is not None:
        # Steps take the place of whatever pyproject.toml deals.
        below = {name: value for name, value in below.items() if name not in DEALS}
    context.default_map = {**below, **settings}
    name = context.default_map.get("scenario")
    return None if name == value else name


def _check(context: typer.Context) -> Callable[[str, Any], None]:
    """Return what rejects a setting of a file that nobody knows, or whose value is none."""
    known = [_flag(name) for name in _settings_of(_commands(context))]

    def check(name: str, value: Any) -> None:  # noqa: ANN401 (what the file holds)
        own = name.replace("-", "_")
        if _flag(own) not in known:
            raise UsageError(f"There is no setting {name}.{nearest(name, known)}")
        if setting := BY_NAME.get(own):
            setting.check(as_given(value, repeatable=setting.is_repeatable))

    return check


def honoured(context: typer.Context, settings: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return those settings of a file that the command knows, as its flags take them.

    Raises:
        UsageError: no command knows one of them, or the command would have to honour it.
    """
    everything = _settings_of(_commands(context))
    known = _settings_of([context.command])
    unknown = sorted(set(settings) - set(everything))
    if unknown:
        raise UsageError(
            f"{where} sets {', '.join(map(_flag, unknown))}, and there is no such setting; "
            f"there are {', '.join(map(_flag, sorted(everything)))}."
        )
    command: Any = context.command
    concerns = _run_only(context) if command.must_honour is None else command.must_honour
    refused = sorted(set(settings) & set(concerns))
    if refused:
        raise UsageError(
            f"{where} sets {', '.join(map(_flag, refused))}, which `{context.command_path}` cannot "
            "honour: take it out, or run in a folder without it."
        )
    return {
        name: as_given(value, repeatable=known[name].multiple)
        for name, value in settings.items()
        if name in known
    }


def _reject_variables(context: typer.Context) -> None:
    """Refuse variables that nobody reads: a misspelled one would change the experiment.

    Raises:
        UsageError: naming them.
    """
    given = {name for name, value in os.environ.items() if name.startswith(_PREFIX) and value}
    settings = _settings_of(_commands(context)).values()
    everything = {_LOG_LEVEL, *(parameter.envvar for parameter in settings)}
    for variable in sorted(given - everything):
        hint = nearest(variable, everything)
        raise UsageError(f"{variable} is set, and there is no such setting.{hint}")
    refused = {parameter.envvar for parameter in _run_only(context).values()} & given
    if refused:
        raise UsageError(
            f"{', '.join(sorted(refused))} is set, which `{context.command_path}` cannot honour: "
            "unset it."
        )


def _run_only(context: typer.Context) -> dict[str, Any]:
    """Return the settings that `run` has and this command, which also runs clusters, has not."""
    command: Any = context.command
    if command.must_honour == ():
        return {}
    root: Any = context.find_root().command
    known = _settings_of([command])
    of_run = _settings_of([root.commands["run"]])
    return {name: parameter for name, parameter in of_run.items() if name not in known}


def _commands(context: typer.Context) -> list[Any]:
    commands: list[Any] = [context.find_root().command]
    for command in commands:
        commands += getattr(command, "commands", {}).values()
    return commands


def _settings_of(commands: Iterable[Any]) -> dict[str, Any]:
    """Return the parameters that are settings: those that have an environment variable."""
    return {p.name: p for command in commands for p in command.params if p.envvar}


def _flag(name: str) -> str:
    return name.replace("_", "-")


# -- files ---------------------------------------------------------------------------------------


def project_settings(folder: Path) -> dict[str, Any]:
    """Return `[tool.kafka-chaos]` of the pyproject.toml in a folder; empty if there is none.

    Raises:
        UsageError: the file is not TOML.
    """
    path = folder / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML ({error}): mend it, or run elsewhere.") from error
    return _flat(document.get("tool", {}).get("kafka-chaos", {}), str(path))


def _flat(document: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 (what the file holds)
    """Return the settings of a file by their names; its values are text, numbers and lists."""
    from pydantic import TypeAdapter, ValidationError

    plain = str | bool | int | float
    try:
        settings = TypeAdapter(dict[str, plain | list[plain]]).validate_python(document)
    except ValidationError as error:
        keys = [str(entry["loc"][0]) for entry in error.errors() if entry["loc"]]
        raise UsageError(
            f"{where} is to hold settings and their values, each a plain value or a list"
            f"{': ' + ', '.join(dict.fromkeys(keys)) + ' is not' if keys else ''}."
        ) from error
    return {name.replace("-", "_"): value for name, value in settings.items()}
