"""The report's lanes of quantities: sends by outcome, reads, latency; and the time scale."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from verifiers.report import units
from verifiers.report.model import Bin, Lanes, Phase
from verifiers.report.svg import (
    LEFT,
    RIGHT,
    Drawing,
    Label,
    TimeAxis,
    box,
    join,
    num,
    path,
    text,
)

_HEIGHT = 64
_TOP = 8
_COLUMNS = 250
_HEADROOM = 2.0
"""The scale ends at so many times the column in the middle of all, by height."""

_Heights = Sequence[tuple[float, int]]
_Columns = Sequence[tuple[float, float, Bin]]
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
    columns = _columns(lanes, axis)
    totals = [(t, b.ok + b.info + b.fail) for t, _, b in columns]
    lane, most = _quantity("sends", _HEIGHT, totals, columns, "completed sends per second")
    stacks = [(t, b.ok, b.ok + b.info, b.ok + b.info + b.fail) for t, _, b in columns]
    for kind, low, high in (("ok", 0, 1), ("info", 1, 2), ("fail", 2, 3)):
        lower = [(s[0], 0 if low == 0 else min(s[low], most)) for s in stacks]
        upper = [(s[0], min(s[high], most)) for s in stacks]
        if any(up[1] > down[1] for up, down in zip(upper, lower, strict=True)):
            shape = _area(lower, upper, columns[0][1], axis, most)
            lane.stretched.append(path(f"sends {kind}", [shape]))
    _cut_off(lane, totals, columns, most, axis)
    for row, (kind, word) in enumerate((("fail", "refused"), ("info", "unknown"), ("ok", "acked"))):
        swatch = Markup('<rect class="sends {}" x="0" y="{}" width="12" height="10"/>')
        lane.fixed.append(swatch.format(kind, 22 + 15 * row))
        lane.fixed.append(text("key", 18, 31 + 15 * row, word))
    return lane


def reads_lane(lanes: Lanes, phases: Sequence[Phase], axis: TimeAxis) -> Drawing:
    """Return the records per second that consumers were given.

    The final reads, which are as fast as possible, do not count for the scale.
    """
    columns = _columns(lanes, axis)
    width_s = columns[0][1] if columns else 1.0
    final_s = min((p.from_s for p in phases if p.name == "final"), default=math.inf)
    # The column in which the final reads begin is left out.
    before = [(t, b.polled) for t, _, b in columns if t + width_s <= final_s]
    scaled = before if any(n for _, n in before) else [(t, b.polled) for t, _, b in columns]
    lane, most = _quantity("reads", 44, scaled, columns, "records polled per second")
    upper = [(t, min(b.polled, most)) for t, _, b in columns]
    if any(b.polled > most for t, _, b in columns if t + width_s > final_s):
        lane.note = "off scale at the end"
    if any(y for _, y in upper):
        lower = [(t, 0) for t, _ in upper]
        shape = _area(lower, upper, width_s, axis, most, height=44)
        lane.stretched.append(path("reads", [shape]))
    _cut_off(lane, scaled, columns, most, axis)
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
        lane.fixed.append(path("rule", [_line(place)]))
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
    name: str, height: float, heights: _Heights, columns: _Columns, described: str
) -> tuple[Drawing, float]:
    """Return a lane with its scale, and the number of operations of a column of full height.

    After an outage, pending operations complete in one burst. The scale follows the usual column,
    so that the others stay visible; higher columns are cut off at the top.
    """
    width_s = columns[0][1] if columns else 1.0
    busy = sorted(number for _, number in heights if number)
    most = busy[-1] if busy else 0
    usual = busy[len(busy) // 2] if busy else 0
    top = units.nice_ceiling(min(most, _HEADROOM * usual) / width_s)
    lane = Drawing(name=name, height=height + 4, described=described)
    for place, value in ((_TOP, f"{units.count(top)}/s"), (height + 4, "0")):
        lane.fixed.append(path("rule", [_line(place)]))
        lane.fixed.append(text("value", LEFT - 6, min(height + 3.5, place + 3.5), value))
    return lane, top * width_s


def _cut_off(
    lane: Drawing, heights: _Heights, columns: _Columns, most: float, axis: TimeAxis
) -> None:
    """Mark the columns that are cut off at the top, with the height of the highest."""
    over = [(t, number) for t, number in heights if number > most]
    if not over:
        return
    width_s = columns[0][1]
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


def _line(y: float) -> str:
    """Return a horizontal line through the plot."""
    return f"M{LEFT} {num(y)}H{RIGHT}"


def _columns(lanes: Lanes, axis: TimeAxis) -> list[tuple[float, float, Bin]]:
    """Return the bins, summed to columns wide enough to be seen: start, width, sums."""
    wanted_s = max(lanes.bin_s, (axis.to_s - axis.from_s) / _COLUMNS)
    together = max(1, round(wanted_s / lanes.bin_s))
    width_s = together * lanes.bin_s
    sums: dict[int, list[int]] = {}
    for b in lanes.bins:
        if axis.shows(b.t_s, b.t_s + lanes.bin_s):
            row = sums.setdefault(math.floor((b.t_s - axis.from_s) / width_s + 1e-6), [0, 0, 0, 0])
            for place, value in enumerate((b.ok, b.info, b.fail, b.polled)):
                row[place] += value
    columns = []
    for n, (ok, info, fail, polled) in sorted(sums.items()):
        begin_s = axis.from_s + n * width_s
        columns.append(
            (begin_s, width_s, Bin(t_s=begin_s, ok=ok, info=info, fail=fail, polled=polled))
        )
    return columns


def _area(
    lower: Sequence[tuple[float, float]],
    upper: Sequence[tuple[float, float]],
    width_s: float,
    axis: TimeAxis,
    top: float,
    height: float = _HEIGHT,
) -> str:
    """Return the closed path between two step lines; where there is no bin it is left open."""
    bottom = height + 4

    def y(value: float) -> str:
        return num(bottom - value / top * (bottom - _TOP))

    parts = []
    for (t, low), (_, high) in zip(lower, upper, strict=True):
        if high > low:
            x0, x1 = num(axis.x(t)), num(axis.x(t + width_s))
            parts.append(f"M{x0} {y(low)}V{y(high)}H{x1}V{y(low)}z")
    return "".join(parts)


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
