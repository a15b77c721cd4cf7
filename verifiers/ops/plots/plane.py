"""A plane with two axes, in SVG: what curves are drawn on; and the frame of a whole picture."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from markupsafe import Markup

from verifiers import report
from verifiers.ops.plots.axes import Axis
from verifiers.report import units
from verifiers.report.svg import join, num, round_steps, text, text_width

_HERE = Path(__file__).parent
_COLOUR = re.compile(r"\.b[1-9] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """In what the numbers of an axis are told: its name, and how many of the axis' own it is."""

    name: str
    size: int


FINE_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""The ends of an axis: at most a third above what it has to show (`units.nice_ceiling`)."""

_NO_UNIT = Unit(name="", size=1)
_TIMES = (Unit(name="s", size=10**9), Unit(name="ms", size=10**6), Unit(name="µs", size=1000))


def unit_of_time(length_ns: int, *, least: int = 2) -> Unit:
    """Return the largest unit of which a length of time has at least so many; ns if none has."""
    return next((u for u in _TIMES if length_ns >= least * u.size), Unit(name="ns", size=1))


def told_time(length_ns: int) -> str:
    """Return a length of time with three digits that matter, in the unit that fits it."""
    unit = unit_of_time(length_ns, least=1)
    number = length_ns / unit.size
    digits = f"{number:.3g}" if number < 1000 else units.count(number)
    return f"{digits}{units.THIN}{unit.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One axis: numbers from low to high lie evenly from `begin` to `end` of the picture.

    The numbers are in `unit`, and `zero` is the value that is labelled 0. A vertical axis ends
    above its begin, that is, at a lower number of units of the picture.
    """

    low: float
    high: float
    begin: float
    end: float
    unit: Unit = _NO_UNIT
    zero: int = 0
    title: str = ""

    @classmethod
    def across(cls, axis: Axis, begin: float, end: float) -> Self:
        """Return the scale of a history's axis.

        Times are those of the history, as in its document; if its clock began long before it, they
        are counted from its first event.
        """
        length = axis.high - axis.low
        zero, unit, title = 0, _NO_UNIT, "index of the completion"
        if axis.timed and 0 <= axis.low <= length:
            unit = unit_of_time(axis.high)
            title = f"time of the history, {unit.name}"
        elif axis.timed:
            zero, unit = axis.low, unit_of_time(length)
            title = f"{unit.name} since the first event, whose time is {units.count(zero)} ns"
        low = (axis.low - zero) / unit.size
        high = (axis.high - zero) / unit.size
        return cls(
            low=low,
            high=high if high > low else low + 1,
            begin=begin,
            end=end,
            unit=unit,
            zero=zero,
            title=title,
        )

    def at(self, number: float) -> float:
        """Return the place of a number, kept within the axis."""
        share = (number - self.low) / (self.high - self.low)
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)

    def at_value(self, value: int) -> float:
        """Return the place of a value of the history, kept within the axis."""
        return self.at((value - self.zero) / self.unit.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The rectangle between two axes; y counts downwards in a picture, and numbers rise upwards."""

    x: Scale
    y: Scale

    def frame(self, *, most_x: int, most_y: int, whole_y: bool = False) -> Markup:
        """Return the ground, the grid, and so many numbers on the axes; vertically, whole ones."""
        top, bottom, left, right = self.y.end, self.y.begin, self.x.begin, self.x.end
        parts = [
            Markup('<rect class="track" x="{}" y="{}" width="{}" height="{}"/>').format(
                num(left), num(top), num(right - left), num(bottom - top)
            )
        ]
        lines = []
        for tick in round_steps(self.x.low, self.x.high, most=most_x):
            place = self.x.at(tick)
            lines.append(f"M{num(place)} {num(top)}V{num(bottom)}")
            parts.append(text("tick", place, bottom + 14, number(tick)))
        for tick in round_steps(self.y.low, self.y.high, most=most_y):
            if whole_y and tick != round(tick):
                continue
            place = self.y.at(tick)
            lines.append(f"M{num(left)} {num(place)}H{num(right)}")
            parts.append(text("value", left - 5, place + 3.5, number(tick)))
        parts.insert(1, Markup('<path class="grid" d="{}"/>').format("".join(lines)))
        return join(parts)


def upright(kind: str, x: float, y: float, words: str) -> Markup:
    """Return words of a class that are read from below, at a place."""
    return Markup('<text class="{}" transform="translate({} {}) rotate(-90)">{}</text>').format(
        kind, num(x), num(y), words
    )


def fitted(words: str, width: float) -> str:
    """Return foreign words as they can be shown in so much room."""
    clean = units.visible(words)
    if text_width(clean) <= width:
        return clean
    return units.shortened(clean, max(3, int(width / (text_width("x" * 100) / 100))))


def number(value: float) -> str:
    """Return the number of a tick: 0.25, 1 500, −3."""
    whole = f"{value:,.10g}".replace(",", units.THIN)
    return whole.replace("-", "−")


def picture(width: float, height: float, described: str, parts: Sequence[Markup]) -> str:
    """Return a whole SVG file, which brings its colours for light and dark along."""
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            'height="{h}" role="img" aria-label="{described}">\n<title>{described}</title>\n'
            "<style>\n{style}</style>\n"
            '<defs><pattern id="dashes" width="6" height="6" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><rect class="dash-ground" width="6" height="6"/>'
            '<rect class="dash-line" width="1.2" height="6"/></pattern></defs>\n'
            '<rect class="paper" width="{w}" height="{h}"/>\n{parts}\n</svg>\n'
        ).format(
            w=num(width),
            h=num(height),
            described=described,
            style=_style(),
            parts=join(parts),
        )
    )


@functools.cache
def palette() -> Markup:
    """Return the colours of the report, for light and dark; its nine of brokers are keys' here."""
    lines = (Path(report.__file__).parent / "page.css").read_text(encoding="utf-8").splitlines()
    variables = lines[: next(n for n, line in enumerate(lines) if line.startswith("* {"))]
    colours = [*variables, *(line for line in lines if _COLOUR.match(line)), ""]
    return Markup("\n".join(colours))  # noqa: S704 - ours


@functools.cache
def _style() -> Markup:
    """Return the style that every picture carries."""
    return palette() + Markup((_HERE / "picture.css").read_text(encoding="utf-8"))  # noqa: S704 - ours
