"""Values of flags, as the rest of the harness takes them; None where a flag was not given."""

from harness.core.duration import parse_duration_s
from harness.core.errors import UsageError


def seconds(duration: str | None) -> float | None:
    """Return a duration in seconds.

    Raises:
        UsageError: it is none.
    """
    return None if duration is None else parse_duration_s(str(duration))


def milliseconds(duration: str | None) -> int | None:
    """Return a duration in milliseconds.

    Raises:
        UsageError: it is none.
    """
    return None if duration is None else round(parse_duration_s(str(duration)) * 1000)


def levels(pairs: list[str] | None) -> tuple[tuple[str, int], ...] | None:
    """Return levels of features, NAME=LEVEL each.

    Raises:
        UsageError: one of them is not that.
    """
    levels = properties(pairs, flag="--feature NAME=LEVEL")
    if levels is None:
        return None
    for name, level in levels:
        if not level.isdecimal():
            raise UsageError(f"--feature {name}={level}: a level is a whole number.")
    return tuple((name, int(level)) for name, level in levels)


def properties(
    pairs: list[str] | None, *, flag: str = "--broker-config KEY=VALUE"
) -> tuple[tuple[str, str], ...] | None:
    """Return properties, KEY=VALUE each.

    Args:
        pairs: as given; None and nothing at all are None.
        flag: its name and its form, for the error.

    Raises:
        UsageError: one of them is not that.
    """
    if not pairs:
        return None
    name, form = flag.split()
    split = [pair.partition("=") for pair in pairs]
    for key, sign, _ in split:
        if not key or not sign:
            raise UsageError(f"{name} {key!r} is not {form}.")
    return tuple((key.strip(), value.strip()) for key, _, value in split)
