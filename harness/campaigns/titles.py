"""What the runs of a night are called: all their settings, in words."""

from collections.abc import Mapping
from typing import Any

from harness.campaigns.repetitions import AGAIN, REPEATS

_TOLD_APART = ("number", "scenario", "workload", "acks", "min_isr", "seed", AGAIN)


def title(settings: Mapping[str, Any]) -> str:
    """Return in words what a run is of, and which repetition it is."""
    others = {name: settings[name] for name in sorted({*settings}.difference(_TOLD_APART))}
    words = (
        settings["scenario"],
        settings["workload"],
        f"acks={settings['acks']}",
        f"min.isr={settings['min_isr']}",
        *in_words(others),
        f"seed={settings['seed']}",
    )
    again = f" again, {settings[AGAIN]} of {REPEATS}" if AGAIN in settings else ""
    return " ".join(filter(None, words)) + again


def in_words(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as `name=value`, those without a value as `name=none`."""
    return [f"{name}={words_of(value) or 'none'}" for name, value in settings.items()]


def words_of(value: Any) -> str:  # noqa: ANN401 (any flag's)
    """Return the value of a setting as a flag has it; empty for none."""
    words = value if isinstance(value, list) else [] if value is None else [value]
    return ",".join(str(word).strip() for word in words)
