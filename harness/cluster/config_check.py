"""The configuration in effect, beside the one that was asked for."""

from collections.abc import Mapping

from harness.core.errors import ClusterBroken


def takes_effect(wanted: Mapping[str, str], seen: Mapping[str, str]) -> bool:
    """Tell whether every property that was asked for has that value, in whatever words."""
    return all(key in seen and _same_value(seen[key], value) for key, value in wanted.items())


def reject_ignored_config(who: str, wanted: Mapping[str, str], seen: Mapping[str, str]) -> None:
    """Compare a configuration that was asked for with the one in effect.

    A misspelled property is ignored by Kafka without a word, and the experiment would then be
    another one than it claims to be.

    Raises:
        ClusterBroken: a property is unknown, or has another value.
    """
    for key, value in sorted(wanted.items()):
        if key not in seen:
            raise ClusterBroken(
                f"{who} does not know the property {key!r}: is it spelled right, and does this "
                "Kafka version have it?"
            )
        if not _same_value(seen[key], value):
            raise ClusterBroken(f"{who} runs with {key}={seen[key]}, though {value} was asked for.")


def _same_value(seen: str, wanted: str) -> bool:
    if seen.lower() == wanted.lower():
        return True
    try:
        return float(seen) == float(wanted)
    except ValueError:
        return sorted(part.strip() for part in seen.split(",")) == sorted(
            part.strip() for part in wanted.split(",")
        )
