"""The picture of the values that were sent and not yet seen: a layer for each key."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from verifiers.ops.plots.axes import Axis
from verifiers.ops.plots.plane import FINE_STEPS, Plane, Scale, fitted, picture, upright
from verifiers.ops.plots.unseen import Layer, Unseen
from verifiers.report import units
from verifiers.report.svg import box, join, num, path, text, text_width

_WIDTH, _LEFT, _RIGHT = 1200.0, 76.0, 1180.0
_TOP, _BOTTOM = 74.0, 360.0
_COLUMNS, _ROW = 3, 18.0


def unseen_picture(series: Unseen, axis: Axis | None) -> str:
    """Return the picture as an SVG file."""
    parts = [
        text("heading", 12, 22, "Sent and not yet seen"),
        text(
            "note", 12, 40,
            "values that an ok op had sent, and no ok op had polled yet; stacked by key",
        ),
    ]  # fmt: skip
    if axis is None:
        parts.append(text("empty", _WIDTH / 2, 90, "Nothing happened in this history."))
        return picture(_WIDTH, 120, "Sent and not yet seen: nothing happened", parts)
    totals = [
        sum(counts) for counts in zip(*(layer.counts for layer in series.layers), strict=True)
    ]
    most = max(totals, default=0)
    top = math.ceil(units.nice_ceiling(most, FINE_STEPS))
    plane = Plane(
        x=Scale.across(axis, _LEFT, _RIGHT),
        y=Scale(low=0, high=top, begin=_BOTTOM, end=_TOP),
    )
    parts.append(plane.frame(most_x=12, most_y=6, whole_y=True))
    parts.append(_drain(axis, plane))
    parts += _layers(series, plane)
    parts.append(text("unit middle", (_LEFT + _RIGHT) / 2, _BOTTOM + 32, plane.x.title))
    parts.append(upright("unit middle", 18, (_TOP + _BOTTOM) / 2, "values"))
    if not series.layers:
        words = "Every value that was sent had been seen when its send was acknowledged."
        parts.append(text("empty", (_LEFT + _RIGHT) / 2, (_TOP + _BOTTOM) / 2, words))
    legend, height = _legend(series, _BOTTOM + 52)
    left = totals[-1] if totals else 0
    described = f"Sent and not yet seen: at most {most} values at once, {left} at the end"
    return picture(_WIDTH, height, described, [*parts, *legend])


def _drain(axis: Axis, plane: Plane) -> Markup:
    """Return the time behind the last send, named above the plot, where no layer lies."""
    if axis.drain is None:
        return Markup("")
    x0, x1 = plane.x.at_value(axis.drain), plane.x.end
    words = "final polls: nothing is sent any more"
    inside = x0 + text_width(words) <= x1
    label = text("note" if inside else "note end", x0 if inside else x1, _TOP - 12, words)
    bracket = f"M{num(x0)} {num(_BOTTOM)}V{num(_TOP - 6)}H{num(x1)}V{num(_TOP)}"
    band = path("drain", [box(x0, x1, _TOP, _BOTTOM - _TOP)])
    return join([band, path("bracket", [bracket]), label])


def _layers(series: Unseen, plane: Plane) -> list[Markup]:
    places = [plane.x.at_value(moment) for moment in series.moments]
    parts = []
    lower: Sequence[int] = [0] * len(places)
    for number, layer in enumerate(series.layers):
        upper = [low + count for low, count in zip(lower, layer.counts, strict=True)]
        shape = _between(lower, upper, places, plane)
        title = f"{_called(layer, series)}: {layer.counts[-1]} at the end"
        parts.append(path(_kind(number, layer), [shape], title))
        lower = upper
    return parts


def _between(
    lower: Sequence[int], upper: Sequence[int], places: Sequence[float], plane: Plane
) -> str:
    """Return the closed path between two step lines that change at these places."""
    across = [num(place) for place in (*places, plane.x.end)]
    low, high = ([num(plane.y.at(count)) for count in counts] for counts in (lower, upper))
    forth = "".join(f"H{x}V{y}" for x, y in zip(across, high, strict=False))
    steps_back = reversed(list(zip(across, across[1:], low, strict=False)))
    back = "".join(f"H{end}V{y}H{begin}" for begin, end, y in steps_back)
    return f"M{across[0]} {low[0]}{forth}H{across[-1]}{back}z"


def _legend(series: Unseen, top: float) -> tuple[list[Markup], float]:
    """Return what each layer is, the lowest first, and where the picture ends."""
    if not series.layers:
        return [], top
    parts = [text("note", _LEFT, top, "layers, from below:")]
    width = (_RIGHT - _LEFT) / _COLUMNS
    rows = -(-len(series.layers) // _COLUMNS)
    for number, layer in enumerate(series.layers):
        column, row = divmod(number, rows)
        x, y = _LEFT + column * width, top + 20 + row * _ROW
        most = "" if layer.most is None else f", at most {units.count(layer.most)}"
        facts = f"{most}, {units.count(layer.counts[-1])} at the end"
        name = fitted(_called(layer, series), width - 24 - text_width(facts))
        parts.append(path(_kind(number, layer), [box(x, x + 14, y - 10, 11)]))
        parts.append(text("legend", x + 20, y, name + facts))
    return parts, top + 20 + rows * _ROW


def _called(layer: Layer, series: Unseen) -> str:
    if layer.key is not None:
        return f"key {units.visible(layer.key)}"
    named = sum(layer.key is not None for layer in series.layers)
    return units.counted(series.keys - named, "other key")


def _kind(number: int, layer: Layer) -> str:
    return "others" if layer.key is None else f"b{number + 1}"
