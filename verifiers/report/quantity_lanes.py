"""The report's lanes of quantities: sends by outcome, reads, latency; and the time scale."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from harness.core.grouping import by_key
from verifiers.report import units
from verifiers.report.model import Bin, Lag, Lanes, Phase
from verifiers.report.svg import (
    LEFT,
    RIGHT,
    Drawing,
    Label,
    TimeAxis,
    box,
    join,
    level,
    num,
    path,
    staircase,
    text,
    vertical_scale,
)

_HEIGHT = 64
_TOP = 8
_COLUMNS = 250
_HEADROOM = 2.0
"""The scale ends at so many times the column in the middle of all, by height."""

_LINES = ("p50", "p95", "p99")
"""Looks of lines, the strongest first."""

_Heights = Sequence[tuple[float, int]]
_PERCENTILES: tuple[tuple[str, Callable[[Bin], float | None]], ...] = (
    ("p99", lambda b: b.p99_ms),
    ("p95", lambda b: b.p95_ms),
    ("p50", lambda b: b.p50_ms),
)


def scale(axis: TimeAxis) -> Markup:
    """Return the numbers of the time axis, as a lane of its own."""
    texts = [
        text("tick", axis.x(tick), 13, f"{tick:g}".replace("-", "−"))
        for tick in axis.ticks()
        # The first and the last number must stay within the plot.
        if LEFT + 4 <= axis.x(tick) <= RIGHT - 12
    ]
    return Markup(
        '<svg class="lane scale" viewBox="0 0 1200 18" aria-hidden="true">'
        '<text class="note" x="0" y="13">seconds since the start</text>'
        '<g class="ticks">{}</g></svg>'
    ).format(join(texts))


def sends_lane(lanes: Lanes, axis: TimeAxis) -> Drawing:
    """Return the completed sends per second, stacked by outcome."""
    width_s, columns = _columns(lanes, axis)
    totals = [(b.t_s, b.ok + b.info + b.fail) for b in columns]
    lane, most = _quantity("sends", _HEIGHT, totals, width_s, "completed sends per second")
    stacks = [(b.t_s, 0, b.ok, b.ok + b.info, b.ok + b.info + b.fail) for b in columns]
    for place, kind in enumerate(("ok", "info", "fail"), 1):
        heights = [(stack[0], stack[place], stack[place + 1]) for stack in stacks]
        lane.stretched.append(path(f"sends {kind}", _area(heights, width_s, axis, most, _HEIGHT)))
    _cut_off(lane, totals, width_s, most, axis)
    for row, (kind, word) in enumerate((("fail", "refused"), ("info", "unknown"), ("ok", "acked"))):
        swatch = Markup('<rect class="sends {}" x="0" y="{}" width="12" height="10"/>')
        lane.fixed.append(swatch.format(kind, 22 + 15 * row))
        lane.fixed.append(text("key", 18, 31 + 15 * row, word))
    return lane


def reads_lane(lanes: Lanes, phases: Sequence[Phase], axis: TimeAxis) -> Drawing:
    """Return the records per second that consumers were given.

    The final reads, which are as fast as possible, do not count for the scale.
    """
    width_s, columns = _columns(lanes, axis)
    final_s = min((p.from_s for p in phases if p.name == "final"), default=math.inf)
    # The column in which the final reads begin is left out.
    polled = [(b.t_s, b.polled) for b in columns]
    before = [(t, number) for t, number in polled if t + width_s <= final_s]
    scaled = before if any(number for _, number in before) else polled
    lane, most = _quantity("reads", 44, scaled, width_s, "records polled per second")
    if any(number > most for t, number in polled if t + width_s > final_s):
        lane.note = "off scale at the end"
    heights = [(t, 0, number) for t, number in polled]
    lane.stretched.append(path("reads", _area(heights, width_s, axis, most, 44)))
    _cut_off(lane, scaled, width_s, most, axis)
    return lane


def lag_lane(lags: Sequence[Lag], axis: TimeAxis) -> Drawing:
    """Return how many records each reader was behind the high watermarks."""
    shown = sorted(lags, key=lambda lag: -max((n for _, n in lag.records), default=0))
    drawn, left_out = shown[: len(_LINES)], shown[len(_LINES) :]
    most = max((n for lag in drawn for at_s, n in lag.records if axis.shows(at_s)), default=0)
    top = units.nice_ceiling(most)
    lane = Drawing(
        name="lag",
        note="" if not left_out else f"and {len(left_out)} less behind",
        height=_HEIGHT + 4,
        described="records that consumers were behind the high watermarks",
    )
    bottom = _HEIGHT + 4.0

    def y(records: int) -> float:
        return bottom - min(records, top) / top * (bottom - _TOP)

    lane.fixed += vertical_scale(_TOP, bottom, units.count(top))
    for row, (kind, lag) in enumerate(zip(_LINES, drawn, strict=False)):
        points = ((axis.x(at_s), y(n)) for at_s, n in lag.records if axis.shows(at_s))
        lane.stretched.append(path(f"line {kind}", staircase(points)))
        where = (40 if left_out else 31) + 15 * row
        lane.fixed.append(path(f"line {kind}", [f"M0 {where - 4}H24"]))
        lane.fixed.append(text("key", 32, where, lag.reader))
    return lane


def latency_lane(lanes: Lanes, axis: TimeAxis) -> Drawing:
    """Return three percentiles of the latency of acknowledged sends, on a logarithmic scale."""
    latencies = [
        v
        for b in lanes.bins
        for v in (b.p50_ms, b.p95_ms, b.p99_ms)
        if v is not None and v > 0 and axis.shows(b.t_s)
    ]
    low = math.floor(math.log10(min(latencies, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(latencies, default=10.0))))
    lane = Drawing(name="latency", height=_HEIGHT + 12, described="latency percentiles")
    bottom = _HEIGHT + 8.0

    def y(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return bottom - share * (bottom - _TOP)

    for decade in range(low, high + 1):
        place = y(10.0**decade)
        lane.fixed.append(level("rule", place))
        # The numbers of many decades would overlap.
        if (decade - low) % math.ceil((high - low + 1) / 5) == 0:
            value = units.milliseconds(10.0**decade)
            lane.fixed.append(text("value", LEFT - 4, min(bottom, place + 3.5), value))
    for row, (name, pick) in enumerate(_PERCENTILES):
        lane.stretched.append(path(f"line {name}", _steps(lanes, pick, axis, y)))
        where = 31 + 15 * row
        lane.fixed.append(path(f"line {name}", [f"M0 {where - 4}H24"]))
        lane.fixed.append(text("key", 32, where, name))
    return lane


def _quantity(
    name: str, height: float, heights: _Heights, width_s: float, described: str
) -> tuple[Drawing, float]:
    """Return a lane with its scale, and the number of operations of a column of full height.

    After an outage, pending operations complete in one burst. The scale follows the usual column,
    so that the others stay visible; higher columns are cut off at the top.
    """
    busy = sorted(number for _, number in heights if number)
    most = busy[-1] if busy else 0
    usual = busy[len(busy) // 2] if busy else 0
    top = units.nice_ceiling(min(most, _HEADROOM * usual) / width_s)
    lane = Drawing(name=name, height=height + 4, described=described)
    lane.fixed += vertical_scale(_TOP, height + 4, f"{units.count(top)}/s")
    return lane, top * width_s


def _cut_off(lane: Drawing, heights: _Heights, width_s: float, most: float, axis: TimeAxis) -> None:
    """Mark the columns that are cut off at the top, with the height of the highest."""
    over = [(t, number) for t, number in heights if number > most]
    if not over:
        return
    bars = [box(axis.x(t), axis.x(t + width_s), _TOP - 6, 4) for t, _ in over]
    lane.stretched.append(path("over", bars))
    at_s, highest = max(over, key=lambda burst: burst[1])
    label = Label(
        text=f"{units.count(highest / width_s)}/s, cut off",
        x0=axis.x(at_s),
        x1=axis.x(at_s + width_s),
        limit=RIGHT - 2,
        inside=False,
        before=True,
        y=_TOP - 1.0,
        kind="small burst",
    )
    lane.placed.append(label.markup(keep_hidden=True))


def _columns(lanes: Lanes, axis: TimeAxis) -> tuple[float, list[Bin]]:
    """Return the width of columns that can be seen, and the sums of the bins in each of them."""
    wanted_s = max(lanes.bin_s, (axis.to_s - axis.from_s) / _COLUMNS)
    together = max(1, round(wanted_s / lanes.bin_s))
    width_s = together * lanes.bin_s
    shown = [b for b in lanes.bins if axis.shows(b.t_s, b.t_s + lanes.bin_s)]
    columns = by_key(shown, lambda b: math.floor((b.t_s - axis.from_s) / width_s + 1e-6))
    return width_s, [
        Bin(
            t_s=axis.from_s + n * width_s,
            ok=sum(b.ok for b in bins),
            info=sum(b.info for b in bins),
            fail=sum(b.fail for b in bins),
            polled=sum(b.polled for b in bins),
        )
        for n, bins in sorted(columns.items())
    ]


def _area(
    heights: Sequence[tuple[float, float, float]],
    width_s: float,
    axis: TimeAxis,
    top: float,
    height: float,
) -> list[str]:
    """Return the rectangles of columns from one number up to another, cut off at the top."""
    bottom = height + 4

    def y(value: float) -> str:
        return num(bottom - min(value, top) / top * (bottom - _TOP))

    return [
        f"M{num(axis.x(t))} {y(low)}V{y(high)}H{num(axis.x(t + width_s))}V{y(low)}z"
        for t, low, high in heights
        if min(high, top) > min(low, top)
    ]


def _steps(
    lanes: Lanes,
    pick: Callable[[Bin], float | None],
    axis: TimeAxis,
    y: Callable[[float], float],
) -> list[str]:
    """Return a step line; it is broken where nothing was acknowledged."""
    parts: list[str] = []
    pen_at = ""
    for b in lanes.bins:
        value = pick(b)
        if value is None or not axis.shows(b.t_s, b.t_s + lanes.bin_s):
            pen_at = ""
            continue
        x0, x1, height = num(axis.x(b.t_s)), num(axis.x(b.t_s + lanes.bin_s)), num(y(value))
        parts.append(f"V{height}H{x1}" if pen_at == x0 else f"M{x0} {height}H{x1}")
        pen_at = x1
    return parts
