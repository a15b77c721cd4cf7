"""Durations as people write them: 500ms, 30s, 5m, 8h, 30d; and ranges of them: 2s-20s."""

import re

from harness.core.errors import UsageError

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration_s(text: str) -> float:
    """Return the seconds that `text` means.

    Raises:
        UsageError: it is not a number with one of the units ms, s, m, h, d, or it is zero.
    """
    match = _FORM.fullmatch(text.strip())
    seconds = float(match[1]) * _UNIT_S[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(
            f"{text!r} is not a duration: write a positive number and a unit, "
            "such as 500ms, 30s, 5m, 8h or 30d."
        )
    return seconds


def parse_range_s(text: str) -> tuple[float, float]:
    """Return the shortest and the longest of the seconds that `text` means; one means just that.

    Raises:
        UsageError: it is neither a duration nor two with a hyphen, the shorter one first.
    """
    first, sign, second = text.partition("-")
    shortest = parse_duration_s(first)
    longest = parse_duration_s(second) if sign else shortest
    if shortest > longest:
        raise UsageError(
            f"{text!r} is not a range: write the shorter duration first, as in 2s-20s."
        )
    return shortest, longest
