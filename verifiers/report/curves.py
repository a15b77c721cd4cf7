"""The lanes of quantities: the time scale, sends by outcome, reads, and latency."""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from verifiers.report import units
from verifiers.report.model import Bin, Lanes, Phase
from verifiers.report.svg import LEFT, RIGHT, Axis, Drawing, Label, box, num, path

_HEIGHT = 64
_TOP = 8
_COLUMNS = 500
_USUAL_SHARE = 0.95
_TOWERING = 2.5
_HEADROOM = 1.1
_PERCENTILES: tuple[tuple[str, Callable[[Bin], float | None]], ...] = (
    ("p99", lambda b: b.p99_ms),
    ("p95", lambda b: b.p95_ms),
    ("p50", lambda b: b.p50_ms),
)


def scale(axis: Axis) -> Markup:
    """Return the numbers of the time axis, as a lane of its own."""
    texts = [
        Markup('<text class="tick" x="{}" y="13">{}</text>').format(
            num(axis.x(tick)), f"{tick:g}".replace("-", "−")
        )
        for tick in axis.ticks()
        # The first and the last number must not stick out of the plot.
        if LEFT + 4 <= axis.x(tick) <= RIGHT - 12
    ]
    return Markup(
        '<svg class="lane scale" viewBox="0 0 1200 18" aria-hidden="true">'
        '<text class="note" x="0" y="13">seconds since the start</text>'
        '<g class="ticks">{}</g></svg>'
    ).format(Markup("").join(texts))


def sends_lane(lanes: Lanes, axis: Axis) -> Drawing:
    """Return the completed sends per second, stacked by outcome.

    After an outage what waited is acknowledged in one burst. The scale is that of the time
    beside such bursts, which would flatten everything else; they are cut off at the top, marked
    there, and the highest says its rate.
    """
    columns = _columns(lanes, axis)
    width_s = columns[0][1] if columns else 1.0
    stacks = [(t, b.ok, b.ok + b.info, b.ok + b.info + b.fail) for t, _, b in columns]
    top = _usual_top([s[3] for s in stacks]) / width_s
    top = units.nice_ceiling(top)
    over = [(t, high) for t, _, _, high in stacks if high > top * width_s]
    most_shown = math.ceil(top * width_s)
    stacks = [
        (t, min(ok, most_shown), min(unknown, most_shown), min(refused, most_shown))
        for t, ok, unknown, refused in stacks
    ]
    lane = _quantity("sends", f"{units.count(top)}/s", _HEIGHT, "completed sends per second")
    for kind, low, high in (("ok", 0, 1), ("info", 1, 2), ("fail", 2, 3)):
        lower = [(s[0], 0 if low == 0 else s[low]) for s in stacks]
        upper = [(s[0], s[high]) for s in stacks]
        if any(up[1] > down[1] for up, down in zip(upper, lower, strict=True)):
            shape = _area(lower, upper, width_s, axis, top * width_s)
            lane.stretched.append(path(f"sends {kind}", [shape]))
    if over:
        lane.stretched.append(
            path("over", [box(axis.x(t), axis.x(t + width_s), _TOP - 6, 4) for t, _ in over])
        )
        at_s, most = max(over, key=lambda burst: burst[1])
        label = Label(
            text=f"{units.count(most / width_s)}/s",
            x0=axis.x(at_s),
            x1=axis.x(at_s + width_s),
            limit=RIGHT - 2,
            inside=False,
            before=True,
            y=_TOP + 1.5,
            kind="small burst",
        )
        lane.placed.append(label.markup(keep_hidden=True))
    for row, (kind, word) in enumerate((("fail", "refused"), ("info", "unknown"), ("ok", "acked"))):
        lane.fixed.append(
            Markup(
                '<rect class="sends {}" x="0" y="{}" width="12" height="10"/>'
                '<text class="key" x="18" y="{}">{}</text>'
            ).format(kind, 22 + 15 * row, 31 + 15 * row, word)
        )
    return lane


def reads_lane(lanes: Lanes, phases: Sequence[Phase], axis: Axis) -> Drawing:
    """Return the records per second that consumers were given.

    The scale is that of the time before the final reads, which go as fast as they can and would
    flatten everything else; what goes beyond it is cut off at the top, and the lane says so.
    """
    columns = _columns(lanes, axis)
    width_s = columns[0][1] if columns else 1.0
    final_s = min((p.from_s for p in phases if p.name == "final"), default=math.inf)
    # The column in which the final reads begin belongs to neither.
    before = [b.polled for t, _, b in columns if t + width_s <= final_s and b.polled]
    most = max(before or [b.polled for _, _, b in columns], default=0)
    top = units.nice_ceiling(most / width_s)
    lane = _quantity("reads", f"{units.count(top)}/s", 44, "records polled per second")
    upper = [(t, min(b.polled, top * width_s)) for t, _, b in columns]
    if any(b.polled > top * width_s for _, _, b in columns):
        lane.note = "off scale at the end"
    if any(y for _, y in upper):
        lower = [(t, 0) for t, _ in upper]
        shape = _area(lower, upper, width_s, axis, top * width_s, height=44)
        lane.stretched.append(path("reads", [shape]))
    return lane


def latency_lane(lanes: Lanes, axis: Axis) -> Drawing:
    """Return three percentiles of the latency of acknowledged sends, on a logarithmic scale."""
    seen = [
        v
        for b in lanes.bins
        for v in (b.p50_ms, b.p95_ms, b.p99_ms)
        if v is not None and v > 0 and axis.shows(b.t_s)
    ]
    low = math.floor(math.log10(min(seen, default=1.0)))
    high = max(low + 1, math.ceil(math.log10(max(seen, default=10.0))))
    lane = Drawing(name="latency", height=_HEIGHT + 12, described="latency percentiles")
    bottom = _HEIGHT + 8.0

    def y(value: float) -> float:
        share = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return bottom - share * (bottom - _TOP)

    for decade in range(low, high + 1):
        place = y(10.0**decade)
        lane.fixed.append(
            Markup('<path class="rule" d="M{} {}H{}"/>').format(LEFT, num(place), RIGHT)
        )
        # A scale of many decades would write its numbers into each other.
        if (decade - low) % math.ceil((high - low + 1) / 5) == 0:
            lane.fixed.append(
                Markup('<text class="value" x="{}" y="{}">{}</text>').format(
                    LEFT - 4, num(min(bottom, place + 3.5)), units.milliseconds(10.0**decade)
                )
            )
    for row, (name, pick) in enumerate(_PERCENTILES):
        lane.stretched.append(path(f"line {name}", _steps(lanes, pick, axis, y)))
        where = 31 + 15 * row
        lane.fixed.append(
            Markup(
                '<path class="line {}" d="M0 {}H24"/><text class="key" x="32" y="{}">{}</text>'
            ).format(name, where - 4, where, name)
        )
    return lane


def _usual_top(heights: Sequence[int]) -> float:
    """Return the highest column, or, where a few tower above all others, the highest of those."""
    busy = sorted(height for height in heights if height)
    if not busy:
        return 0
    usual = busy[math.ceil(_USUAL_SHARE * len(busy)) - 1]
    return busy[-1] if busy[-1] <= _TOWERING * usual else usual * _HEADROOM


def _quantity(name: str, top: str, height: float, described: str) -> Drawing:
    lane = Drawing(name=name, height=height + 4, described=described)
    for place, value in ((_TOP, top), (height + 4, "0")):
        lane.fixed.append(_rule(place, value, height + 4))
    return lane


def _rule(place: float, value: str, bottom: float) -> Markup:
    """Return a faint horizontal line, and its value before the plot; the lowest is kept inside."""
    return Markup(
        '<path class="rule" d="M{} {}H{}"/><text class="value" x="{}" y="{}">{}</text>'
    ).format(LEFT, num(place), RIGHT, LEFT - 6, num(min(bottom - 0.5, place + 3.5)), value)


def _columns(lanes: Lanes, axis: Axis) -> list[tuple[float, float, Bin]]:
    """Return the bins, summed to columns that the eye can tell apart: start, width, sums."""
    wanted_s = max(lanes.bin_s, (axis.to_s - axis.from_s) / _COLUMNS)
    together = max(1, round(wanted_s / lanes.bin_s))
    width_s = together * lanes.bin_s
    sums: dict[int, list[int]] = {}
    for b in lanes.bins:
        if axis.shows(b.t_s, b.t_s + lanes.bin_s):
            row = sums.setdefault(math.floor((b.t_s - axis.from_s) / width_s + 1e-6), [0, 0, 0, 0])
            for place, value in enumerate((b.ok, b.info, b.fail, b.polled)):
                row[place] += value
    return [
        (
            axis.from_s + n * width_s,
            width_s,
            Bin(
                t_s=axis.from_s + n * width_s,
                ok=sums[n][0],
                info=sums[n][1],
                fail=sums[n][2],
                p50_ms=None,
                p95_ms=None,
                p99_ms=None,
                polled=sums[n][3],
            ),
        )
        for n in sorted(sums)
    ]


def _area(
    lower: Sequence[tuple[float, float]],
    upper: Sequence[tuple[float, float]],
    width_s: float,
    axis: Axis,
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
    axis: Axis,
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
