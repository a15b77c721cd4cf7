"""Pictures of a partition's log, on every replica: over time, and as it lies on the disks."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from markupsafe import Markup

from verifiers.report import fields, units
from verifiers.report.fields import Json
from verifiers.report.model import LogSample, Partition
from verifiers.report.svg import (
    LEFT,
    NAME_SIGNS,
    RIGHT,
    Drawing,
    TimeAxis,
    colour,
    join,
    num,
    path,
    staircase,
    text,
    vertical_scale,
)

_HEIGHT = 64.0
_TOP = 8.0
_STEPS = (1, 1.5, 2, 3, 4, 6, 8, 10)
_ROW = 30.0
_BAR = 14.0
_MOST_PICTURES = 6
_NARROW = 34.0


def log_lane(
    key: Partition, copies: Mapping[int, tuple[LogSample, ...]], axis: TimeAxis
) -> Drawing:
    """Return how far each copy of a partition went over time: log ends, and high watermarks.

    A cut of a log is a drop of its line, with the number of records that it took away.
    """
    shown = {
        broker: [sample for sample in samples if axis.shows(sample.at_s)]
        for broker, samples in copies.items()
    }
    ends = [sample.log_end for samples in shown.values() for sample in samples]
    top = units.nice_ceiling(max(ends, default=1), _STEPS)
    name = f"{units.visible(key[0])}/{key[1]}"
    lane = Drawing(
        name=units.shortened(f"log of {name}", NAME_SIGNS),
        note="ends; dots: high watermarks",
        height=_HEIGHT + 4,
        described=f"log end and high watermark of each replica of {name}",
    )

    def y(offset: int) -> float:
        return _HEIGHT + 4 - min(offset, top) / top * (_HEIGHT + 4 - _TOP)

    lane.fixed += vertical_scale(_TOP, _HEIGHT + 4, units.count(top))
    for place, (broker, samples) in enumerate(shown.items()):
        line = staircase((axis.x(s.at_s), y(s.log_end)) for s in samples)
        # What several copies have in common is seen of each: the later ones are narrower.
        lane.stretched.append(path(f"copy n{min(place, 3)} w{colour(broker)}", line))
        dots = [f"M{num(axis.x(s.at_s))} {num(y(s.high_watermark))}h.01" for s in samples]
        lane.stretched.append(path(f"watermark w{colour(broker)}", dots))
        for before, after in pairwise(samples):
            if after.log_end < before.log_end:
                lane.placed.append(_cut(broker, before, after, axis, y(before.log_end)))
    return lane


def _cut(broker: int, before: LogSample, after: LogSample, axis: TimeAxis, y: float) -> Markup:
    lost = before.log_end - after.log_end
    title = f"broker {broker}: its log went back from {before.log_end} to {after.log_end}"
    return Markup(
        '<g class="mark cut" data-a="{0}" transform="translate({0} 0)"><title>{1}</title>'
        '<text class="value" x="-3" y="{2}">−{3}</text></g>'
    ).format(num(axis.x(after.at_s)), title, num(max(9.0, y - 2)), units.count(lost))


def on_disk(replicas: Json, offences: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """Return pictures of the logs of those partitions of which something is wrong on a disk.

    Args:
        replicas: as verdict.json has them.
        offences: what two disks hold differently: `topic`, `partition`, `first`, `last` and
            `brokers`.
    """
    lost = fields.mappings(fields.mapping(replicas, "located"), "stretches")
    places = dict.fromkeys(
        (str(entry.get("topic")), int(entry.get("partition") or 0)) for entry in (*offences, *lost)
    )
    brokers = fields.objects(replicas, "brokers")
    pictures = []
    for topic, partition in places:
        name = f"{topic}-{partition}"
        logs = {
            int(broker): log
            for broker in brokers
            if broker.isdigit()
            for named, log in fields.objects(brokers, broker).items()
            if named == name and fields.integer(log, "leo") is not None
        }
        here = [entry for entry in lost if _is_at(entry, topic, partition)]
        differ = _joined([entry for entry in offences if _is_at(entry, topic, partition)])
        if logs:
            pictures.append(_picture(f"{topic}/{partition}", logs, here, differ))
    return pictures[:_MOST_PICTURES]


def _is_at(entry: Mapping[str, Any], topic: str, partition: int) -> bool:
    return (entry.get("topic"), entry.get("partition")) == (topic, partition)


def _joined(differ: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return stretches of offsets between the same brokers, those without a gap between in one."""
    joined: list[dict[str, Any]] = []
    for entry in sorted(differ, key=itemgetter("brokers", "first")):
        before = joined[-1] if joined and joined[-1]["brokers"] == entry["brokers"] else None
        if before is not None and entry["first"] <= before["last"] + 1:
            before["last"] = max(before["last"], entry["last"])
        else:
            joined.append({**entry})
    return joined


def _picture(
    name: str,
    logs: Mapping[int, Json],
    lost: Sequence[Json],
    differ: Sequence[Mapping[str, Any]],
) -> Markup:
    """Return one partition: a bar a replica, from its first offset to its end, by leader epoch."""
    begin = min(fields.integer(log, "log_start") or 0 for log in logs.values())
    marked = [int(entry["last"]) + 1 for entry in (*lost, *differ)]
    end = max([int(log["leo"]) for log in logs.values()] + marked + [begin + 1])

    def x(offset: int) -> float:
        return LEFT + (offset - begin) / (end - begin) * (RIGHT - LEFT)

    parts: list[Markup] = [text("name", 0, 12, units.shortened(units.visible(name), NAME_SIGNS))]
    for row, (broker, log) in enumerate(sorted(logs.items())):
        y = 20 + _ROW * row
        role = "leader" if log.get("leader") else "in the ISR" if log.get("in_sync") else "out"
        parts.append(text("note", 0, y + 11, f"broker {broker}, {role}"))
        parts += _bar(broker, log, x, y)
        for entry in lost:
            held = str(broker) in str(entry.get("held_by") or "").split(",")
            kind = "held" if held else "gone"
            title = (
                f"{units.counted(int(entry.get('count') or 0), 'lost record')}, offsets "
                f"{entry['first']} to {entry['last']}: {'still here' if held else 'not here'}"
            )
            parts.append(_strip(f"lost {kind}", x(entry["first"]), x(entry["last"] + 1), y, title))
        for entry in differ:
            if broker in entry["brokers"]:
                title = f"offsets {entry['first']} to {entry['last']} differ between the replicas"
                shape = _strip("differs", x(entry["first"]), x(entry["last"] + 1), y, title)
                parts.append(shape)
    height = 20 + _ROW * len(logs) + 14
    for offset in {begin, end}:
        anchored = "tick" if offset == begin else "value"
        parts.append(text(anchored, x(offset), height - 2, units.count(offset)))
    return Markup(  # noqa: S704 - numbers and names of ours
        f'<svg class="lane disk" viewBox="0 0 1200 {num(height)}" role="img" aria-label="{{}}">{{}}'
        "</svg>"
    ).format(f"the log of {name} on each replica, by offset", join(parts))


def _bar(broker: int, log: Json, x: Any, y: float) -> list[Markup]:  # noqa: ANN401 (a function)
    """Return a replica's log: a piece an epoch, and a tick at its high watermark."""
    begin, end = fields.integer(log, "log_start") or 0, int(log["leo"])
    entries = [e for e in fields.items(log, "epochs") if isinstance(e, list) and len(e) == 2]
    starts = [(int(epoch), max(begin, int(start))) for epoch, start in entries] or [(-1, begin)]
    parts = []
    for number, (epoch, start) in enumerate(starts):
        stop = starts[number + 1][1] if number + 1 < len(starts) else end
        if stop <= start:
            continue
        x0, x1 = x(start), x(stop)
        said = f"epoch {epoch}" if epoch >= 0 else "epochs unknown"
        title = f"broker {broker}: offsets {start} to {stop - 1}, {said}"
        shape = f"M{num(x0)} {num(y)}h{num(max(0.8, x1 - x0 - 0.8))}v{_BAR}H{num(x0)}z"
        parts.append(path(f"b{colour(broker)}", [shape], title))
        if x1 - x0 > _NARROW:
            label = said if x1 - x0 > 2 * _NARROW else str(epoch)
            parts.append(text(f"lab in on{colour(broker)}", (x0 + x1) / 2, y + 11, label))
    mark = fields.integer(log, "high_watermark")
    if mark is not None:
        parts.append(
            path("hw", [f"M{num(x(mark))} {num(y - 3)}v{num(_BAR + 6)}"], f"high watermark {mark}")
        )
    return parts


def _strip(kind: str, x0: float, x1: float, y: float, title: str) -> Markup:
    if kind == "differs":
        shape = f"M{num(x0)} {num(y - 1.5)}H{num(max(x1, x0 + 1.5))}v{num(_BAR + 3)}H{num(x0)}z"
    else:
        shape = f"M{num(x0)} {num(y + _BAR + 2)}H{num(max(x1, x0 + 1.5))}v5H{num(x0)}z"
    return path(kind, [shape], title)
