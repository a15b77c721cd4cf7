"""The SVG elements of lanes on one time axis.

Everything is laid out at rest, for a page without scripts: shapes inside a group of class `z`,
which the page's script stretches when the reader zooms, and texts of class `lab`, which carry the
interval that they name, so that the script can place them anew by the same rule as `label` here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from verifiers.report import units

WIDTH = 1200
LEFT = 176
RIGHT = 1188
"""The plot lies between these two, in units of the drawing; what names a lane stands before it."""

NAME_SIGNS = 22
"""The longest name of a lane."""

SIGN_WIDTH = 6.4
"""Width of one sign of a label, rounded up: labels must neither overlap nor be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The time axis that all lanes share, in seconds since the run's origin."""

    from_s: float
    to_s: float

    def x(self, at_s: float) -> float:
        """Return the place of a time, kept within the plot."""
        share = (at_s - self.from_s) / (self.to_s - self.from_s)
        return LEFT + min(1.0, max(0.0, share)) * (RIGHT - LEFT)

    def shows(self, from_s: float, to_s: float | None = None) -> bool:
        """Return whether any part of the interval is on the axis."""
        return from_s <= self.to_s and (from_s if to_s is None else to_s) >= self.from_s

    def ticks(self) -> list[float]:
        """Return round times, at most twelve."""
        return round_steps(self.from_s, self.to_s, most=12)

    def grid(self, height: float) -> Markup:
        """Return faint lines through a lane at the ticks."""
        lines = "".join(f"M{num(self.x(t))} 0V{num(height)}" for t in self.ticks())
        return Markup('<path class="grid" data-h="{}" d="{}"/>').format(num(height), lines)


def round_steps(low: float, high: float, *, most: int) -> list[float]:
    """Return multiples of 1, 2, 5, 10, … between the two, at most so many."""
    step = units.nice_ceiling((high - low) / most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(n * step, 9) for n in range(first, last + 1)]


@dataclass(slots=True, kw_only=True)
class Drawing:
    """One lane while it is drawn; its label is the name, and below it, smaller, the note.

    Attributes:
        height: of the lane, in units of the drawing.
        described: the name for those who cannot see it.
        stretched: shapes that follow the axis when the reader zooms.
        placed: texts and marks, placed anew when the reader zooms.
        fixed: what does not move, such as the scale of a vertical axis.
    """

    name: str
    note: str = ""
    height: float = 24
    described: str = ""
    stretched: list[Markup] = field(default_factory=list)
    placed: list[Markup] = field(default_factory=list)
    fixed: list[Markup] = field(default_factory=list)

    def markup(self, axis: TimeAxis) -> Markup:
        """Return the finished lane."""
        head = text("name", 0, 12, self.name)
        if self.note:
            head += text("note", 0, 24, self.note)
        height = num(self.height)
        return Markup(  # noqa: S704 - what is put in here are numbers of ours
            f'<svg class="lane" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{{}}">'
            f'<rect class="track" x="{LEFT}" y="0" width="{RIGHT - LEFT}" height="{height}"/>{{}}'
            '<g clip-path="url(#plot)"><g class="z">{}</g>{}</g></svg>'
        ).format(
            self.described or self.name,
            join([axis.grid(self.height), head, *self.fixed]),
            join(self.stretched),
            join(self.placed),
        )


def num(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def join(parts: Iterable[Markup]) -> Markup:
    """Return the parts in one."""
    return Markup("").join(parts)


def box(x0: float, x1: float, y: float, height: float) -> str:
    """Return the path of a rectangle, wide enough to be seen."""
    width = max(0.8, x1 - x0)
    return f"M{num(x0)} {num(y)}h{num(width)}v{num(height)}h-{num(width)}z"


def path(kind: str, shapes: Sequence[str], title: str = "") -> Markup:
    """Return one path element of a class; nothing without shapes."""
    if not shapes:
        return Markup("")
    said = Markup("<title>{}</title>").format(title) if title else ""
    return Markup('<path class="{}" d="{}">{}</path>').format(kind, "".join(shapes), said)


def level(kind: str, y: float) -> Markup:
    """Return a horizontal line of a class through the plot of a lane."""
    return path(kind, [f"M{LEFT} {num(y)}H{RIGHT}"])


def staircase(points: Iterable[tuple[float, float]]) -> list[str]:
    """Return the path of a line that keeps each height until the next point; none of none."""
    steps = (
        f"H{num(x)}V{num(y)}" if number else f"M{num(x)} {num(y)}"
        for number, (x, y) in enumerate(points)
    )
    return [shape] if (shape := "".join(steps)) else []


def vertical_scale(top: float, bottom: float, most: str) -> list[Markup]:
    """Return the lines and the numbers of a lane from 0 at its bottom up to `most`."""
    scale = []
    for y, words in ((top, most), (bottom, "0")):
        scale.append(level("rule", y))
        scale.append(text("value", LEFT - 6, min(bottom - 0.5, y + 3.5), words))
    return scale


def colour(node_id: int) -> int:
    """Return the number of a node's colour; isolated controllers share the nine of the brokers."""
    return (node_id - 1) % 9 + 1


def text(kind: str, x: float, y: float, words: str) -> Markup:
    """Return words of a class at a place."""
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, num(x), num(y), words)


def text_width(words: str) -> float:
    """Return the width that a label needs."""
    return len(words) * SIGN_WIDTH + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text that names an interval, from x0 to x1.

    Attributes:
        limit: how far the text may go beyond it if it does not fit inside; None: it may not.
        inside: whether the text may stand on the interval; on hatching nothing can be read.
        before: whether the text may also stand before the interval, where nothing else is.
        kind: further classes, such as `on2`: on the colour of broker 2.
    """

    text: str
    x0: float
    x1: float
    limit: float | None = None
    inside: bool = True
    before: bool = False
    y: float
    kind: str = ""

    def markup(self, *, keep_hidden: bool) -> Markup:
        """Return the text inside its interval, after it, or hidden until the reader zooms in."""
        width = text_width(self.text)
        if self.inside and width <= self.x1 - self.x0:
            place, x = "in", (self.x0 + self.x1) / 2
        elif self.limit is not None and self.x1 + width <= self.limit:
            place, x = "out", self.x1 + 3
        elif self.before and self.x0 - width >= LEFT:
            place, x = "pre", self.x0 - 3
        elif keep_hidden:
            place, x = "no", self.x0
        else:
            return Markup("")
        limit = "" if self.limit is None else f' data-c="{num(self.limit)}"'
        limit += ' data-pre="1"' if self.before else ""
        limit += "" if self.inside else ' data-off="1"'
        return Markup(  # noqa: S704 - what is put in here are numbers and names of ours
            f'<text class="lab {place} {self.kind}" x="{num(x)}" y="{num(self.y)}" '
            f'data-a="{num(self.x0)}" data-b="{num(self.x1)}"{limit}>{{}}</text>'
        ).format(self.text)


def tiers(intervals: Sequence[tuple[float, float]]) -> list[int]:
    """Return a row for each interval, so that no intervals overlap; they are ordered by start."""
    ends: list[float] = []
    rows = []
    for start, end in intervals:
        row = next((n for n, last in enumerate(ends) if last <= start), len(ends))
        if row == len(ends):
            ends.append(end)
        else:
            ends[row] = end
        rows.append(row)
    return rows
