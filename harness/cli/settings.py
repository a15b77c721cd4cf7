"""Settings: flag, then KAFKA_CHAOS_*, then the scenario file, then pyproject.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.core.errors import UsageError


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
    section = document.get("tool", {}).get("kafka-chaos", {})
    return _flat(section, str(path))


def scenario_file(path: Path) -> dict[str, Any]:
    """Return the settings of a scenario file: YAML, named like the flags, plus `scenario`.

    Raises:
        UsageError: it cannot be read, or is not a mapping of plain values.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The scenario file {path} cannot be read ({error}).") from error
    except yaml.YAMLError as error:
        raise UsageError(f"The scenario file {path} is not YAML: {error}") from error
    return _flat(document or {}, str(path))


def reject_unknown(settings: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse settings that nobody would read: a misspelled one would change the experiment.

    Raises:
        UsageError: naming them, and what there is.
    """
    names = set(known)
    unknown = sorted(set(settings) - names)
    if unknown:
        raise UsageError(
            f"{where} sets {', '.join(unknown)}, which no flag is called; "
            f"known: {', '.join(sorted(names))}."
        )


def _flat(document: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 (what the file holds)
    if not isinstance(document, dict):
        raise UsageError(f"{where} holds no mapping of settings to values.")
    settings = {}
    for key, value in document.items():
        if isinstance(value, dict):
            raise UsageError(f"{where}: {key} holds a mapping; write a plain value or a list.")
        plain = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        if isinstance(plain, list) and str(key) != "broker-config":
            plain = ",".join(str(entry) for entry in plain)
        settings[str(key).replace("-", "_")] = plain
    return settings
