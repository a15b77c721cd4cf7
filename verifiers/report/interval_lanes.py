"""The report's lanes of intervals: phases, faults, leaders and ISRs, gaps, anomalies."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from markupsafe import Markup

from harness.core.grouping import by_key
from verifiers.report import units
from verifiers.report.model import (
    FaultRecord,
    Gap,
    GroupState,
    Leadership,
    Partition,
    Pause,
    RunRecord,
    ScriptStep,
)
from verifiers.report.svg import (
    NAME_SIGNS,
    RIGHT,
    Drawing,
    Label,
    TimeAxis,
    box,
    colour,
    level,
    num,
    path,
    text_width,
    tiers,
)
from verifiers.run_folder.result import AnomalyFinding

T = TypeVar("T")
_Span = TypeVar("_Span", Leadership, GroupState)

_MANY = 150
"""Beyond so many intervals in a lane, texts without room are left out and not only hidden."""

_GAPS_SHOWN = 4
_STABLE = "STABLE"
_MARK_ROOM = 30.0
_NUMBERED = 12.0


def phases_lane(record: RunRecord, axis: TimeAxis) -> Drawing:
    """Return the lane of the phases."""
    lane = Drawing(name="phase", height=16, described="phases of the run")
    shown = [p for p in record.phases if axis.shows(p.from_s, p.to_s)]
    for number, phase in enumerate(shown):
        x0, x1 = axis.x(phase.from_s), axis.x(phase.to_s)
        if x1 - x0 < 0.5:
            continue
        title = f"{phase.name}: {units.instant(phase.from_s)} to {units.instant(phase.to_s)}"
        lane.stretched.append(path(f"phase p{number % 2}", [box(x0, x1, 0, 16)], title))
        lane.placed.append(Label(text=phase.name, x0=x0, x1=x1, y=12).markup(keep_hidden=True))
    return lane


def fault_lanes(record: RunRecord, axis: TimeAxis) -> list[Drawing]:
    """Return one lane for each kind of fault, in the order of their first appearance."""
    timed = [fault for fault in record.faults if fault.from_s is not None]
    by_name = by_key(timed, attrgetter("judged.name"))
    return [_fault_lane(name, faults, axis) for name, faults in by_name.items()]


def _fault_lane(name: str, faults: list[FaultRecord], axis: TimeAxis) -> Drawing:
    spans = [(axis.x(f.from_s or 0.0), _fault_end(f, axis)) for f in faults]
    rows = tiers(spans)
    proven = sum(f.judged.proven for f in faults)
    lane = Drawing(
        name=units.shortened(units.visible(name), NAME_SIGNS),
        note=f"{proven} of {len(faults)} proven",
        height=max(30.0, 6.0 + 22 * (max(rows) + 1)),
        described=f"fault {units.visible(name)}: {proven} of {len(faults)} proven",
    )
    for number, (fault, (x0, x1), row) in enumerate(zip(faults, spans, rows, strict=True)):
        y = 5 + 22.0 * row
        state = "proven" if fault.judged.proven else "not proven"
        title = (
            f"fault {fault.judged.id}: {fault.title}, {state}; in force from "
            f"{units.instant(fault.from_s or 0.0)}"
            + (f" to {units.instant(fault.healed_s)}" if fault.healed_s is not None else "")
        )
        kind = "fault proven" if fault.judged.proven else "fault unproven"
        lane.stretched.append(path(kind, [box(x0, x1, y, 15)], title))
        height = 4 / max(1, len(fault.judged.victims))
        for place, victim in enumerate(fault.judged.victims):
            strip = box(x0, x1, y + 15 + place * height, height)
            lane.stretched.append(path(f"b{colour(victim)}", [strip]))
        following = zip(spans[number + 1 :], rows[number + 1 :], strict=True)
        next_x0 = next((span[0] for span, other_row in following if other_row == row), RIGHT)
        text = ", ".join(map(str, fault.judged.victims)) + (
            "" if fault.judged.proven else " not proven"
        )
        label = Label(
            text=text.strip(),
            x0=x0,
            x1=x1,
            limit=next_x0 - 2,
            y=y + 11.5,
            inside=fault.judged.proven,
            before=row not in rows[:number],
            kind="onink",
        )
        lane.placed.append(label.markup(keep_hidden=len(faults) < _MANY))
    return lane


def _fault_end(fault: FaultRecord, axis: TimeAxis) -> float:
    if fault.healed_s is not None:
        return axis.x(fault.healed_s)
    if fault.judged.error is not None and fault.injected_s is None:
        # The fault never was in force: draw a mark at its decision, not a bar to the end.
        return axis.x(fault.from_s or 0.0) + 3
    return axis.x(axis.to_s)


def partition_lane(
    key: Partition, spans: tuple[Leadership, ...], min_isr: int | None, axis: TimeAxis
) -> Drawing:
    """Return a partition's leader over time, and below it its ISR, stacked by member."""
    shown = [span for span in spans if axis.shows(span.from_s, span.to_s)]
    most = max([len(s.isr) for s in shown] + [min_isr or 1])
    unit = max(4.0, min(12.0, 36.0 / most))
    # Members with a number leave room for the dashed line between them.
    gap = 2.0 if unit >= _NUMBERED else 1.0
    base = 19 + unit * most
    name = f"{units.visible(key[0])}/{key[1]}"
    lane = Drawing(
        name=units.shortened(name, NAME_SIGNS),
        note="leader, ISR below",
        height=base + 3,
        described=f"leader and in-sync replicas of {name}",
    )
    shapes: dict[str, list[str]] = defaultdict(list)
    keep = len(shown) < _MANY
    for from_s, to_s, leader in _merged(shown, lambda s: s.leader):
        x0, x1 = axis.x(from_s), axis.x(to_s)
        kind = "none" if leader is None else f"b{colour(leader)}"
        shapes[kind].append(box(x0, x1, 0, 15))
        text = "none" if leader is None else str(leader)
        label = Label(text=text, x0=x0, x1=x1, y=11.5, kind=f"on{kind[1:]}")
        lane.placed.append(label.markup(keep_hidden=keep))
    for from_s, to_s, isr in _merged(shown, lambda s: s.isr):
        x0, x1 = axis.x(from_s), axis.x(to_s)
        for place, member in enumerate(isr):
            y = base - unit * (place + 1)
            shapes[f"isr b{colour(member)}"].append(box(x0, x1, y + gap / 2, unit - gap))
            if unit >= _NUMBERED:
                label = Label(
                    text=str(member), x0=x0, x1=x1, y=y + 9.5, kind=f"small on{colour(member)}"
                )
                lane.placed.append(label.markup(keep_hidden=keep))
    lane.stretched += [path(kind, boxes) for kind, boxes in shapes.items()]
    if min_isr is not None:
        lane.fixed.append(level("min-isr", base - unit * min_isr))
    return lane


def _merged(spans: Sequence[_Span], what: Callable[[_Span], T]) -> list[tuple[float, float, T]]:
    """Return the stretches in which one fact about a partition or a group stayed the same."""
    stretches = [(value, list(same)) for value, same in groupby(spans, what)]
    return [(same[0].from_s, same[-1].to_s, value) for value, same in stretches]


def gaps_lane(gaps: tuple[Gap, ...], axis: TimeAxis) -> Drawing:
    """Return the widest stretches without an acknowledgement, by partition.

    Only the widest stretch of each partition is known.
    """
    shown = sorted(gaps[:_GAPS_SHOWN], key=lambda gap: gap.from_s)
    lane = Drawing(
        name="unavailable",
        note="widest gaps",
        height=max(28.0, 4.0 + 18 * len(shown)),
        described="widest stretches without an acknowledgement",
    )
    for row, gap in enumerate(shown):
        x0, x1, y = axis.x(gap.from_s), axis.x(gap.to_s), 3 + 18.0 * row
        topic = units.shortened(units.visible(gap.topic), NAME_SIGNS)
        text = f"{units.span(gap.width_s)} · {topic}/{gap.partition}"
        title = (
            f"{text}: no acknowledgement from {units.instant(gap.from_s)} "
            f"to {units.instant(gap.to_s)}"
        )
        lane.stretched.append(path("gap", [box(x0, x1, y, 15)], title))
        label = Label(
            text=text, x0=x0, x1=x1, limit=RIGHT - 2, before=True, y=y + 11.5, kind="onink"
        )
        lane.placed.append(label.markup(keep_hidden=True))
    return lane


def pauses_lane(pauses: tuple[Pause, ...], axis: TimeAxis) -> Drawing:
    """Return when the nodes' JVMs stood still for their garbage collectors, a row a node."""
    shown = [pause for pause in pauses if axis.shows(pause.from_s, pause.to_s)]
    rows = {node: row for row, node in enumerate(sorted({pause.node for pause in shown}))}
    lane = Drawing(
        name="GC pauses",
        note="a row a node",
        height=max(28.0, 4.0 + 11 * len(rows)),
        described="garbage collector pauses of each node",
    )
    shapes: dict[int, list[str]] = defaultdict(list)
    for pause in shown:
        at = box(axis.x(pause.from_s), axis.x(pause.to_s), 3 + 11.0 * rows[pause.node], 8)
        shapes[pause.node].append(at)
    lane.stretched += [path(f"b{colour(node)}", boxes) for node, boxes in shapes.items()]
    if shown:
        longest = max(shown, key=lambda pause: pause.to_s - pause.from_s)
        label = Label(
            text=f"longest {units.span(longest.to_s - longest.from_s)}",
            x0=axis.x(longest.from_s),
            x1=axis.x(longest.to_s),
            limit=RIGHT - 2,
            inside=False,
            before=True,
            y=11.0 + 11 * rows[longest.node],
            kind="small burst",
        )
        lane.placed.append(label.markup(keep_hidden=True))
    return lane


def script_lane(script: tuple[ScriptStep, ...], axis: TimeAxis) -> Drawing:
    """Return what the script of a claim did: batches, waits, and the facts that it observed."""
    placed = [(step, _with_words(step, axis)) for step in script]
    placed = [entry for entry in placed if axis.shows(entry[0].from_s, entry[0].to_s)]
    placed.sort(key=lambda entry: entry[1])
    shown = [step for step, _ in placed]
    rows = tiers([span for _, span in placed])
    lane = Drawing(
        name="script",
        note="batches, waits, facts",
        height=max(28.0, 6.0 + 17 * (max(rows, default=0) + 1)),
        described="what the script of the claim did",
    )
    for step, row in zip(shown, rows, strict=True):
        x0, x1, y = axis.x(step.from_s), axis.x(step.to_s), 4 + 17.0 * row
        lane.stretched.append(path(f"step {step.kind}", [box(x0, x1, y, 13)], step.title))
        label = Label(
            text=step.words, x0=x0, x1=x1, limit=RIGHT - 2, y=y + 10, kind="small", before=True
        )
        lane.placed.append(label.markup(keep_hidden=len(shown) < _MANY))
    return lane


def _with_words(step: ScriptStep, axis: TimeAxis) -> tuple[float, float]:
    """Return from where to where a step stands with its words: in it, behind it, or before it."""
    x0, x1, width = axis.x(step.from_s), axis.x(step.to_s), text_width(step.words)
    if width <= x1 - x0:
        return x0, x1
    return (x0, x1 + width) if x1 + width <= RIGHT - 2 else (x0 - width, x1)


def group_lane(group: tuple[GroupState, ...], axis: TimeAxis) -> Drawing:
    """Return the states of a consumer group, and below them who was a member, with what."""
    shown = [state for state in group if axis.shows(state.from_s, state.to_s)]
    spells = [
        (member, state.from_s, state.to_s, numbers)
        for state in shown
        for member, numbers in state.members.items()
    ]
    names = list(dict.fromkeys(member for member, *_ in spells))
    lives = {
        name: (
            min(from_s for member, from_s, _, _ in spells if member == name),
            max(to_s for member, _, to_s, _ in spells if member == name),
        )
        for name in names
    }
    # Who comes after somebody has left takes the row of the latter.
    rows = dict(zip(names, tiers([lives[name] for name in names]), strict=True))
    lane = Drawing(
        name="group",
        note="state, members below",
        height=24.0 + 13 * (max(rows.values(), default=0) + 1),
        described="states and members of the consumer group",
    )
    for from_s, to_s, state in _merged(shown, attrgetter("state")):
        x0, x1 = axis.x(from_s), axis.x(to_s)
        kind = "phase p0" if state == _STABLE else "group restless"
        said = state.lower().replace("_", " ")
        lane.stretched.append(path(kind, [box(x0, x1, 0, 15)], said))
        label = Label(text=said, x0=x0, x1=x1, y=11.5, kind="small")
        lane.placed.append(label.markup(keep_hidden=len(shown) < _MANY))
    for member, from_s, to_s, numbers in spells:
        x0, x1, y = axis.x(from_s), axis.x(to_s), 19 + 13.0 * rows[member]
        has = ", ".join(map(str, numbers)) or "no partition"
        title = f"{member}: {has}"
        lane.stretched.append(
            path("member" if numbers else "member idle", [box(x0, x1, y, 11)], title)
        )
        label = Label(text=", ".join(map(str, numbers)), x0=x0, x1=x1, y=y + 8.5, kind="small")
        lane.placed.append(label.markup(keep_hidden=len(spells) < _MANY))
    return lane


def anomaly_lane(
    record: RunRecord, name: str, anomaly: AnomalyFinding, axis: TimeAxis
) -> Drawing | None:
    """Return the times of an anomaly's examples, as marks that link to its card.

    A line spans all occurrences, from the first to the last: there are only a few examples.

    Return None if no example has a time.
    """
    times = [record.at_s(example.time_ns) for example in anomaly.examples]
    places = sorted(axis.x(at_s) for at_s in times if at_s is not None)
    if not places:
        return None
    state = anomaly.ruling
    marked = f"first {len(places)} of " if len(places) < anomaly.count else ""
    lane = Drawing(
        name=units.shortened(units.visible(name), NAME_SIGNS),
        note=f"{state}, {marked}{units.count(anomaly.count)}",
        height=28,
        described=f"when {units.visible(name)} occurred",
    )
    from_s, to_s = record.at_s(anomaly.first_ns), record.at_s(anomaly.last_ns)
    if from_s is not None and to_s is not None:
        title = f"{units.visible(name)}: from {units.instant(from_s)} to {units.instant(to_s)}"
        bar = box(axis.x(from_s), axis.x(to_s), 21, 3)
        lane.stretched.append(path(f"extent {state}", [bar], title))
    groups: list[list[float]] = []
    for x in places:
        if groups and x - groups[-1][0] < _MARK_ROOM:
            groups[-1].append(x)
        else:
            groups.append([x])
    for group in groups:
        text = str(len(group)) if len(group) > 1 else ""
        # Near the right edge the number stands before its mark, so that it is not cut.
        left = group[0] > RIGHT - _MARK_ROOM
        lane.placed.append(
            Markup(
                '<a href="#anomaly-{}"><g class="mark {}" data-a="{}" transform="translate({} 0)">'
                '<path d="M-6 7h12l-6 12z"/><text class="{}" x="{}" y="17">{}</text></g></a>'
            ).format(
                anchor(name),
                state,
                num(group[0]),
                num(group[0]),
                "end" if left else "",
                -9 if left else 9,
                text,
            )
        )
    return lane


def anchor(name: str) -> str:
    """Return a name as it is written in links within the page."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name)
