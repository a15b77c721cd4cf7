"""The picture of one key around its offences: a row for each op, a column for each offset."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from operator import attrgetter

from markupsafe import Markup

from harness.core.grouping import by_key
from verifiers.ops.plots.orders import Cell, OpRow, Order
from verifiers.ops.plots.plane import fitted, picture, upright
from verifiers.report import units
from verifiers.report.svg import num, path, text, text_width

_LEFT, _ROW, _CELL = 272.0, 20.0, 30.0
_TOP = 102.0
_GAP = 14.0
_SIGN = 7.0
"""Width of a sign of the monospaced face, rounded up."""
_MOST_SIGNS = 9
_MOST_LINES = 16
_NARROWEST = 900.0
_Places = dict[int | None, tuple[float, float]]
"""From where to where each column goes."""
_UNPLACED = "unknown"
"""Stands for the offset of what has none that is known."""


def order_picture(order: Order) -> str:
    """Return the picture as an SVG file."""
    said = _Values(order)
    places, right = _places(order, said.width)
    signs = max([len(_UNPLACED), *(len(str(offset)) for offset in order.offsets.values())])
    head = _TOP + signs * _SIGN - 20
    parts = [text("heading", 12, 22, f"Key {fitted(order.key, 500)}")]
    found = (f"{units.counted(n, 'value')} with {name}" for name, n in order.counts.items())
    parts.append(text("note", 12, 40, ", ".join(found)))
    parts += _key_of_signs()
    parts += _columns(order, places, head)
    y = head + 6
    for row in order.rows:
        parts += _row(row, y, places, said)
        y += _ROW
    parts.append(_gaps(places, head, y))
    y += 18
    for line in _lines(order, said):
        parts.append(text("note", 12, y, line))
        y += 17
    described = f"Who sent and polled what of key {fitted(order.key, 500)} around its offences"
    return picture(max(right + 16, _NARROWEST), y, described, parts)


class _Values:
    """How values are written: without the digits that all of them begin with, if they are long."""

    def __init__(self, order: Order) -> None:
        texts = [*{str(cell.value) for row in order.rows for cell in row.cells}]
        longest = max(map(len, texts), default=0)
        common = _beginning(texts) if longest > _MOST_SIGNS and len(texts) > 1 else ""
        self.without = common if len(common) > 3 and common not in texts else ""
        shown = max((len(self.of(int(text_of_value))) for text_of_value in texts), default=0)
        self.width = max(_CELL, shown * _SIGN + 8)

    def of(self, value: int) -> str:
        """Return a value as it stands in its cell."""
        return units.shortened(str(value).removeprefix(self.without), _MOST_SIGNS)


def _beginning(texts: Sequence[str]) -> str:
    """Return what all of some texts begin with: whatever the lowest and the highest share."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(sign for sign, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _places(order: Order, width: float) -> tuple[_Places, float]:
    """Return where each column begins and ends, and where the last one ends.

    Where offsets between two columns are left out there is a gap. What has no offset comes last.
    """
    places: _Places = {}
    x, last = _LEFT, None
    columns: list[int | None] = [*sorted(order.offsets)]
    if any(cell.column is None for row in order.rows for cell in row.cells):
        columns.append(None)
    for column in columns:
        apart = column is None or (last is not None and column != last + 1)
        x += _GAP if apart and places else 0
        places[column] = (x, x + width)
        x, last = x + width, column
    return places, x


def _key_of_signs() -> list[Markup]:
    """Return what the shapes mean."""
    parts: list[Markup] = []
    x = 12.0
    for kind, state, words in (
        ("send", "ok", "sent"), ("poll", "ok", "polled"),
        ("send", "info", "by an op of unknown outcome"),
        ("send", "fail", "by an op that failed"),
    ):  # fmt: skip
        parts.append(_box(kind, f"cell {state}", (x, x + 26), 56, 15))
        parts.append(text("legend", x + 32, 68, words))
        x += 32 + text_width(words) + 22
    parts.append(_box("send", "ring", (x, x + 26), 56, 15))
    parts.append(text("legend", x + 32, 68, "a value that offends"))
    return parts


def _columns(order: Order, places: _Places, head: float) -> list[Markup]:
    suspects = {c.column for row in order.rows for c in row.cells if c.suspect}
    parts = [text("unit end", _LEFT - 10, head - 4, "offset")]
    for column, (x0, x1) in places.items():
        words = _UNPLACED if column is None else str(order.offsets[column])
        kind = "mono suspect" if column in suspects else "mono"
        parts.append(upright(kind, (x0 + x1) / 2 + 4, head - 2, words))
    for x, words in ((12, "op"), (78, "process"), (150, "type"), (190, "f")):
        parts.append(text("unit", x, head - 4, words))
    return parts


def _row(row: OpRow, y: float, places: _Places, said: _Values) -> list[Markup]:
    labels = ((12, row.op, 62), (78, row.process, 66), (150, row.type, 40), (190, row.f, 40))
    parts = [text("mono", x, y + 13, fitted(str(label), width)) for x, label, width in labels]
    for column, cells in by_key(row.cells, attrgetter("column")).items():
        if column in places:
            parts += _cells(cells, row, places[column], y, said)
    return parts


def _cells(
    cells: Sequence[Cell], row: OpRow, place: tuple[float, float], y: float, said: _Values
) -> Iterator[Markup]:
    """Yield what an op did at one offset; more than one value there share the room."""
    x0, x1 = place
    shown = cells if len(cells) <= 3 else cells[:2]
    share = (x1 - x0) / (len(shown) + (len(cells) > len(shown)))
    for number, cell in enumerate(shown):
        part = (x0 + number * share + 1, x0 + (number + 1) * share - 1)
        title = (
            f"op {row.op} of process {row.process}, {row.type}: {cell.kind} of value {cell.value}"
        )
        yield _box(cell.kind, f"cell {row.type}", part, y, _ROW - 4, title)
        words = units.shortened(said.of(cell.value), max(1, int(share / _SIGN)))
        kind = "mono middle onfail" if row.type == "fail" else "mono middle"
        yield text(kind, (part[0] + part[1]) / 2, y + 12, words)
        if cell.suspect:
            yield _box(cell.kind, "ring", part, y, _ROW - 4)
    if len(cells) > len(shown):
        words = f"+{len(cells) - len(shown)}"
        yield text("mono middle", x1 - share / 2, y + 12, words)


def _box(
    kind: str, style: str, place: tuple[float, float], y: float, height: float, title: str = ""
) -> Markup:
    """Return the shape of a cell, or the ring around one: square for a send, round for a poll."""
    said = Markup("<title>{}</title>").format(title) if title else ""
    left, right = place
    bend = 1 if kind == "send" else 8
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="{}">{}</rect>').format(
        style, num(left), num(y), num(right - left), num(height), bend, said
    )


def _gaps(places: _Places, top: float, bottom: float) -> Markup:
    """Return a dotted line wherever columns are left out."""
    lines = [
        f"M{num((end + begin) / 2)} {num(top)}V{num(bottom)}"
        for (_, end), (begin, _) in pairwise(places.values())
        if begin > end
    ]
    return path("gap", lines)


def _lines(order: Order, said: _Values) -> Iterator[str]:
    """Yield what stands below the picture: which values offend, and what is left out."""
    by_value = defaultdict(set)
    for row in order.rows:
        for cell in row.cells:
            if cell.suspect and cell.column is not None:
                by_value[cell.value].add(order.offsets[cell.column])
    for suspect in order.suspects[:_MOST_LINES]:
        offsets = sorted(by_value[suspect.value])
        where = f"offset {', '.join(map(str, offsets[:6]))}" if offsets else "offset unknown"
        yield f"value {suspect.value} ({where}): {', '.join(suspect.anomalies)}"
    if said.without:
        yield f"Values in the picture are without their first digits, {said.without}."
    if order.all_offsets > len(order.offsets) or order.all_rows > len(order.rows):
        yield (
            f"Shown are {units.count(len(order.offsets))} of {units.count(order.all_offsets)} "
            f"offsets, those around the first values that offend, and {len(order.rows)} of "
            f"{units.count(order.all_rows)} ops that touched them."
        )
