"""Small ranges: median and quartiles of one quantity on two sides, drawn in a table's cell."""

from collections.abc import Callable

from markupsafe import Markup

from harness.campaigns.spread import Spread
from verifiers.report.svg import join, num

_WIDTH, _ROW, _MARGIN = 260.0, 14.0, 6.0


def small_ranges(
    sides: tuple[tuple[str, Spread | None], ...], *, what: str, say: Callable[[float], str]
) -> Markup:
    """Return a bar for each side from its lower to its upper quartile, on one scale from 0 up.

    A dot stands at the median; it says its side and its values when it is pointed at.

    Args:
        sides: their names and spreads, drawn from above; one without a spread leaves its row empty.
        what: names the quantity for those who cannot see it.
        say: writes a value.
    """
    known = [(row, name, each) for row, (name, each) in enumerate(sides) if each is not None]
    most = max((each.high for _, _, each in known), default=0.0) or 1.0

    def at(value: float) -> str:
        return num(_MARGIN + (_WIDTH - 2 * _MARGIN) * value / most)

    def of_side(row: int, name: str, spread: Spread) -> Markup:
        y = num((row + 0.5) * _ROW)
        said = f"{name}: {say(spread.median)} ({say(spread.low)} to {say(spread.high)})"
        return Markup(
            '<path class="range" d="M{} {}H{}"/>'
            '<circle class="middle" cx="{}" cy="{}" r="4"><title>{}</title></circle>'
        ).format(at(spread.low), y, at(spread.high), at(spread.median), y, said)

    height = num(_ROW * len(sides))
    return Markup(
        '<svg class="ranges" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path class="zero" d="M{} 0V{}"/>{}</svg>'
    ).format(
        num(_WIDTH), height, what, at(0), height, join(of_side(*each) for each in known)
    )  # fmt: skip
