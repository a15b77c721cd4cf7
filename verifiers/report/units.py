"""Numbers with their units, and text from outside, as people read them."""

import math
import unicodedata
from collections.abc import Sequence

THIN = "\u202f"
"""Narrow no-break space: between thousands, and between a number and its unit."""

_LONGEST = 600


def count(number: float) -> str:
    """Return a whole number with a thin space between its thousands: 62 500."""
    return f"{round(number):,}".replace(",", THIN)


def counted(number: float, noun: str) -> str:
    """Return a number and what it counts, in the right number: 1 record, 3 records."""
    return f"{count(number)} {noun}{'' if round(number) == 1 else 's'}"


def instant(seconds: float) -> str:
    """Return a point on the time axis, in seconds with three decimals."""
    whole, _, decimals = f"{abs(seconds):.3f}".partition(".")
    sign = "−" if seconds < 0 and float(f"{seconds:.3f}") != 0 else ""
    return f"{sign}{int(whole):,}.{decimals}{THIN}s".replace(",", THIN)


def span(seconds: float) -> str:
    """Return a length of time with the digits that matter: 850 ms, 4.1 s, 12 min 5 s."""
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f}{THIN}ms"
    if seconds < 99.95:
        return f"{seconds:.1f}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{THIN}h {minutes}{THIN}min"


def milliseconds(number: float) -> str:
    """Return a latency: 0.42 ms, 12 ms, 3.1 s."""
    if number >= 1000:
        return f"{number / 1000:.3g}{THIN}s"
    return f"{number:.2g}{THIN}ms" if number < 10 else f"{number:.0f}{THIN}ms"


def nice_ceiling(number: float, steps: Sequence[float] = (1, 2, 5, 10)) -> float:
    """Return the next of 1, 2, 5, 10, 20, … at or above a positive number; 1 for none."""
    if number <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(number))
    return next(step * scale for step in steps if step * scale >= number * (1 - 1e-9))


def visible(text: str, longest: int = _LONGEST) -> str:
    """Return text from outside as one line of printable characters.

    A broker's log line or a topic's name must not move the cursor of a terminal, end a table row
    or make an XML file unreadable: control signs and lone surrogates become U+FFFD.
    """
    signs = [
        " " if sign in "\n\r\t" else "\ufffd" if unicodedata.category(sign) in _UNSEEN else sign
        for sign in text[: longest + 1]
    ]
    clean = "".join(signs)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


# Cf holds the signs that turn the direction of writing: they can make a text read as another.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn"})


def shortened(text: str, longest: int) -> str:
    """Return the text, or its two ends around an ellipsis if it is longer than `longest` signs."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[head + 1 - longest :]}"
