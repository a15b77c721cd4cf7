"""The picture of how far behind polls were: a panel for each member, all on one scale."""

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from verifiers.ops.plots.axes import Axis
from verifiers.ops.plots.lag_series import KEY, THREAD, THREAD_KEY, Lags, MemberLag, Stretch
from verifiers.ops.plots.plane import (
    FINE_STEPS,
    Plane,
    Scale,
    fitted,
    picture,
    told_time,
    unit_of_time,
)
from verifiers.report import units
from verifiers.report.svg import num, path, text, text_width

_WIDTH, _MARGIN, _GUTTER = 1200.0, 16.0, 62.0
_TOP, _PANEL, _HEIGHT = 64.0, 178.0, 104.0
_MARK = 4.0

TITLES = {
    THREAD: "Realtime lag by thread",
    KEY: "Realtime lag by key",
    THREAD_KEY: "Realtime lag by thread and key",
}
_MEANING = (
    "for how long, when it polled, it had been known that there was more than the process had got"
)


def lag_picture(grouping: str, lags: Lags | None, axis: Axis | None) -> str:
    """Return the picture of one grouping as an SVG file.

    The lags are None if nothing could be measured, the axis is if the history has no times.
    """
    parts = [text("heading", 12, 22, TITLES[grouping])]
    if lags is None or axis is None:
        words = "Nothing was polled of a key that a process had, or the history has no times."
        parts.append(text("empty", _WIDTH / 2, 80, words))
        return picture(_WIDTH, 120, f"{TITLES[grouping]}: nothing could be measured", parts)
    worst = [member.worst.lag_ns for member in lags.members if member.worst is not None]
    highest = max(worst, default=0)
    scale = "" if len(lags.members) == 1 else "; all panels have one scale"
    parts.append(text("note", 12, 40, f"{_MEANING}{scale}"))
    columns = 1 if len(lags.members) == 1 else 2 if len(lags.members) <= 4 else 3
    unit, across = unit_of_time(highest), Scale.across(axis, 0, 0)
    top_lag = units.nice_ceiling(highest / unit.size, FINE_STEPS)
    for number, member in enumerate(lags.members):
        row, column = divmod(number, columns)
        width = (_WIDTH - _MARGIN) / columns
        left, top = column * width + _GUTTER, _TOP + row * _PANEL + 22
        plane = Plane(
            x=replace(across, begin=left, end=(column + 1) * width - 6),
            y=Scale(low=0, high=top_lag, begin=top + _HEIGHT, end=top, unit=unit),
        )
        parts += _panel(grouping, member, plane, lags)
    bottom = _TOP + -(-len(lags.members) // columns) * _PANEL
    parts.append(text("unit", 12, bottom + 8, f"across: {across.title}; upwards: lag, {unit.name}"))
    bottom += 26
    for words in _notes(grouping, lags):
        parts.append(text("note", 12, bottom, words))
        bottom += 18
    described = f"{TITLES[grouping]}: at the worst {told_time(highest)}"
    return picture(_WIDTH, bottom, described, parts)


def _panel(grouping: str, member: MemberLag, plane: Plane, lags: Lags) -> list[Markup]:
    wide = plane.x.end - plane.x.begin
    parts = [plane.frame(most_x=max(3, int(wide / 55)), most_y=3)]
    worst, facts = member.worst, "never behind"
    if worst is not None:
        facts = f"worst {told_time(worst.lag_ns)} at {told_time(worst.to_ns - plane.x.zero)}"
        facts += f", key {fitted(worst.key, 90)}" if grouping == THREAD else ""
        facts += f", process {worst.process}" if grouping == KEY or lags.replaced else ""
    name = fitted(called(grouping, member, lags), wide - text_width(facts) - 8)
    parts.append(text("name", plane.x.begin, plane.y.end - 7, name))
    parts.append(text("note end", plane.x.end, plane.y.end - 7, facts))
    parts.append(path("lag", [_shape(stretch, plane) for stretch in member.stretches]))
    if worst is not None:
        x, y = plane.x.at_value(worst.to_ns), plane.y.at_value(worst.lag_ns)
        title = f"{facts}: op {worst.op}"
        parts.append(
            Markup('<circle class="worst" cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
            .format(num(x), num(y), num(_MARK), title)
        )  # fmt: skip
    return parts


def _shape(stretch: Stretch, plane: Plane) -> str:
    """Return the area under a stretch: the lag grows as fast as time passes, to its last poll."""
    x0, x1 = map(plane.x.at_value, (stretch.from_ns, stretch.to_ns))
    before = max(0, stretch.lag_ns - (stretch.to_ns - stretch.from_ns))
    y0, y1 = map(plane.y.at_value, (before, stretch.lag_ns))
    base = num(plane.y.begin)
    return f"M{num(x0)} {base}V{num(y0)}L{num(x1)} {num(y1)}V{base}z"


def called(grouping: str, member: MemberLag, lags: Lags) -> str:
    """Return the name of a member."""
    whose = "thread" if lags.replaced else "process"
    if grouping == THREAD:
        return f"{whose} {member.thread}"
    return f"key {member.key}" if grouping == KEY else f"{whose} {member.thread}, key {member.key}"


def _notes(grouping: str, lags: Lags) -> Sequence[str]:
    notes = []
    if lags.count > len(lags.members):
        more = lags.count - len(lags.members)
        notes.append(f"{units.count(more)} more are not shown: none of them was further behind.")
    if lags.replaced and grouping != KEY:
        notes.append(
            "A thread is a process and those that replaced it when its op ended unknown: their "
            "numbers rise by the number of threads."
        )
    return notes
