"""Small lines: one quantity over many nights, drawn in a table's cell."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from verifiers.report import units
from verifiers.report.svg import num

_WIDTH, _HEIGHT, _MARGIN = 180.0, 34.0, 4.0

Point = tuple[str, float | None]
"""The name of a night, and the quantity; None where it was not measured."""


def small_line(
    points: Sequence[Point], *, what: str, say: Callable[[float], str] = units.span
) -> Markup:
    """Return a line through the nights, from 0 up, and its last value in words.

    A night without a value leaves a gap. Each point says its night and its value when it is pointed
    at.

    Args:
        points: in the order of the nights.
        what: names the quantity for those who cannot see it.
        say: writes a value.
    """
    known = [
        (place, night, value) for place, (night, value) in enumerate(points) if value is not None
    ]
    if not known:
        return Markup('<span class="small">not measured</span>')
    most = max(value for _, _, value in known) or 1.0
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(points) - 1)

    def at(place: int, value: float) -> tuple[str, str]:
        height = (_HEIGHT - 2 * _MARGIN) * value / most
        return num(_MARGIN + place * step), num(_HEIGHT - _MARGIN - height)

    shape, before = "", None
    for place, _, value in known:
        sign = "L" if before == place - 1 else "M"
        shape += f"{sign}{' '.join(at(place, value))}"
        before = place
    dots = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="{}"><title>{}: {}</title></circle>').format(
            *at(place, value), "2.6" if place == known[-1][0] else "1.4", night, say(value)
        )
        for place, night, value in known
    )
    last = say(known[-1][2])
    return Markup(
        '<svg class="small-line" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path class="zero" d="M0 {}H{}"/><path class="through" d="{}"/>{}</svg> '
        '<span class="n">{}</span> <span class="small">most {}</span>'
    ).format(
        num(_WIDTH), num(_HEIGHT), f"{what}: {last}, at most {say(most)}",
        num(_HEIGHT - _MARGIN), num(_WIDTH), shape, dots, last, say(most),
    )  # fmt: skip
