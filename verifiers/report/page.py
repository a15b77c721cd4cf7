"""The HTML page of a report: one file, readable without network and scripts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.core.op import producer_of, sequence_of
from harness.core.registry import first_sentence
from verifiers.adequacy.rule import RULES
from verifiers.report import (
    disks,
    fields,
    interval_lanes,
    log_pictures,
    quantity_lanes,
    sentences,
    units,
)
from verifiers.report.model import Partition, RunRecord
from verifiers.report.svg import LEFT, RIGHT, TimeAxis
from verifiers.report.templates import LONGEST_TEXT, page_template
from verifiers.run_folder.result import AnomalyFinding
from verifiers.situations.situation import SITUATIONS

_HERE = Path(__file__).parent
_PARTITIONS_FIRST = 4
_LANES_BUDGET_BYTES = 1_000_000
_EXAMPLES_OPEN = 5
_DIVERGENCE = "replica-divergence"


def render(record: RunRecord) -> str:
    """Return the report as one HTML document."""
    template = page_template(
        _HERE / "page.html.j2",
        instant=units.instant,
        span=units.span,
        anchor=interval_lanes.anchor,
        evidence=sentences.evidence,
        called=sentences.called,
        producer=producer_of,
        sequence=sequence_of,
    )
    axis = axis_of(record)
    partitions = by_harm(record, axis)
    pictures = _pictures(record, axis, partitions)
    cards = {
        ruling: [_card(record, name, anomaly) for name, anomaly in record.ruled(ruling)]
        for ruling in ("forbidden", "unknown", "permitted")
    }
    cures = sentences.cures(record)
    configuration = record.effective or record.given
    return template.render(
        record=record,
        report=record.report,
        mark=sentences.SIGNS[record.report.verdict],
        headline=sentences.headline(record),
        broken=sentences.broken(record),
        reasons=sentences.reasons(record),
        contract=sentences.contract(record),
        counts=sentences.counts(record),
        cures=cures,
        unchecked=sentences.unchecked(record),
        pictures=pictures,
        **cards,
        shortcoming=sentences.shortcoming,
        # The cures of an UNKNOWN verdict name them already.
        unproven=[] if cures else [f for f in record.faults if not f.judged.proven],
        configuration=_configuration(configuration),
        nodes=list(configuration),
        steps=_steps(record.plan),
        plan_text=_pretty(record.plan),
        settings=_pretty({"contract": record.contract, "cluster": record.cluster}),
        logs=disks.table(record.report.replicas),
        on_disk=disks.sentences(record.report.replicas),
        disk_pictures=log_pictures.on_disk(record.report.replicas, _differing(record)),
        pace=sentences.pace(record),
        causes=sentences.unknown_causes(record),
        situations=_situations(record),
        rules=_rules(record),
        brokers=record.node_ids,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - ours
        timing=sentences.timing(record),
        script=Markup((_HERE / "page.js").read_text(encoding="utf-8")),  # noqa: S704 - ours
        data=_data(record, axis, partitions[: len(pictures["partitions"])]),
    )


def _rules(record: RunRecord) -> list[tuple[str, str, str, str]]:
    """Return the rows of the table of rules: name, what it asks for, its state, and why."""
    return [
        (
            name,
            first_sentence(RULES[name]) if name in RULES else "",
            str(entry.get("state", "?")),
            " ".join(map(str, entry.get("reasons", ()))),
        )
        for name, entry in record.report.adequacy.items()
    ]


def _situations(record: RunRecord) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the rows of the table of situations, those that were reached before the others."""
    rows = [
        (name, first_sentence(SITUATIONS[name]) if name in SITUATIONS else "", entry)
        for name, entry in record.report.situations.items()
    ]
    return sorted(rows, key=lambda row: (not row[2].get("count"), row[0]))


def axis_of(record: RunRecord) -> TimeAxis:
    """Return the time axis to draw: from the steady phase to the final reads.

    Starting and stopping the cluster are left out, because nothing happens then. Faults and
    offences outside widen the axis, so that all of them are shown.
    """
    drawn = [p for p in record.phases if p.name not in ("start", "stop", "verify")]
    times = [t for p in drawn for t in (p.from_s, p.to_s)]
    for fault in record.faults:
        times += [t for t in (fault.decided_s, fault.injected_s, fault.healed_s) if t is not None]
    for anomaly in record.report.anomalies.values():
        times_ns = (anomaly.first_ns, anomaly.last_ns, *(e.time_ns for e in anomaly.examples))
        times += [at_s for t in times_ns if (at_s := record.at_s(t)) is not None]
    if record.lanes is not None:
        busy = [b.t_s for b in record.lanes.bins if b.ok or b.info or b.fail or b.polled]
        times += [t for at in busy for t in (at, at + record.lanes.bin_s)]
    if not times:
        times = [span.from_s for spans in record.timeline.values() for span in spans]
    low, high = min(times, default=0.0), max(times, default=1.0)
    return TimeAxis(from_s=low, to_s=max(high, low + 0.001))


def _pictures(record: RunRecord, axis: TimeAxis, order: list[Partition]) -> dict[str, Any]:
    """Return the lanes by their place on the page, and the number of partitions that are left out.

    Partitions, in this order, have a lane until the lanes would make the page too large; all but
    the first of these are folded.
    """
    above = [interval_lanes.phases_lane(record, axis)] if record.phases else []
    if record.script:
        above.append(interval_lanes.script_lane(record.script, axis))
    above += interval_lanes.fault_lanes(record, axis)
    if record.pauses:
        above.append(interval_lanes.pauses_lane(record.pauses, axis))
    partitions: list[Markup] = []
    left = _LANES_BUDGET_BYTES
    for key in order:
        spans = record.timeline[key]
        lane = interval_lanes.partition_lane(key, spans, record.min_isr, axis).markup(axis)
        if key in record.logs:
            lane += log_pictures.log_lane(key, record.logs[key], axis).markup(axis)
        if len(lane) > left:
            break
        left -= len(lane)
        partitions.append(lane)
    below = [interval_lanes.group_lane(record.group, axis)] if record.group else []
    if record.lanes is not None:
        below += [
            quantity_lanes.sends_lane(record.lanes, axis),
            quantity_lanes.latency_lane(record.lanes, axis),
            quantity_lanes.reads_lane(record.lanes, record.phases, axis),
        ]
        if record.lags:
            below.append(quantity_lanes.lag_lane(record.lags, axis))
        if sentences.widest_gap(record) is not None:
            below.append(interval_lanes.gaps_lane(record.lanes.gaps, axis))
    marks = [
        interval_lanes.anomaly_lane(record, name, anomaly, axis)
        for name, anomaly in record.report.anomalies.items()
    ]
    return {
        "scale": quantity_lanes.scale(axis),
        "above": [lane.markup(axis) for lane in above],
        "partitions": partitions[:_PARTITIONS_FIRST],
        "folded": partitions[_PARTITIONS_FIRST:],
        "left_out": len(order) - len(partitions),
        "below": [lane.markup(axis) for lane in below],
        "anomalies": [lane.markup(axis) for lane in marks if lane is not None],
    }


def by_harm(record: RunRecord, axis: TimeAxis) -> list[Partition]:
    """Return the partitions: first those with anomalies, then those longest without a leader.

    Then follow those whose ISR was incomplete for the longest time.
    """
    offended = {
        (example.topic, example.partition)
        for anomaly in record.report.anomalies.values()
        for example in anomaly.examples
    }

    def harm(key: Partition) -> tuple[bool, float, float, Partition]:
        spans = record.timeline[key]
        most = max((len(span.isr) for span in spans), default=0)
        lengths = [
            (s, max(0.0, min(s.to_s, axis.to_s) - max(s.from_s, axis.from_s))) for s in spans
        ]
        leaderless = sum(length for s, length in lengths if s.leader is None)
        shrunk = sum(length * (most - len(s.isr)) for s, length in lengths)
        return (key not in offended, -leaderless, -shrunk, key)

    return sorted(record.timeline, key=harm)


def _differing(record: RunRecord) -> list[dict[str, Any]]:
    """Return where two replicas hold different records, as far as examples were kept."""
    found = record.report.anomalies.get(_DIVERGENCE)
    examples = found.examples if found else ()
    return [
        {
            "topic": e.topic,
            "partition": e.partition,
            "first": e.offset,
            "last": int(e.detail.get("last_offset") or e.offset),
            "brokers": [int(e.detail[name]) for name in ("broker", "other_broker")],
        }
        for e in examples
        if e.offset is not None and {"broker", "other_broker"} <= e.detail.keys()
    ]


def _card(record: RunRecord, name: str, anomaly: AnomalyFinding) -> dict[str, Any]:
    examples = [
        (e, record.at_s(e.time_ns), sentences.circumstances(record, e), sentences.facts(record, e))
        for e in anomaly.examples
    ]
    first, rest = examples[:_EXAMPLES_OPEN], examples[_EXAMPLES_OPEN:]
    summary = sentences.found(name, anomaly)
    return {"name": name, "anomaly": anomaly, "summary": summary, "first": first, "rest": rest}


def _configuration(effective: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[str]]]:
    """Return each setting with one value if all nodes agree, else with one value a node."""
    keys = sorted({key for settings in effective.values() for key in settings})
    rows = []
    for key in keys:
        values = [settings.get(key, "—") for settings in effective.values()]
        rows.append((key, values[:1] if len(set(values)) == 1 else values))
    return rows


def _steps(plan: object) -> list[Mapping[str, Any]]:
    return fields.mappings(plan, "steps") if isinstance(plan, Mapping) else []


def _pretty(document: object) -> str:
    if document is None:
        return ""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n… cut here"


def _data(record: RunRecord, axis: TimeAxis, shown: list[Partition]) -> Markup:
    """Return the data for the page's script, as JSON that cannot end its script element."""
    lanes = record.lanes
    document = {
        "left": LEFT,
        "right": RIGHT,
        "from": axis.from_s,
        "to": axis.to_s,
        "phases": [[p.name, p.from_s, p.to_s] for p in record.phases],
        "faults": [
            [
                units.visible(fault.title),
                fault.from_s,
                axis.to_s if fault.healed_s is None else fault.healed_s,
                fault.judged.proven,
            ]
            for fault in record.faults
            if fault.from_s is not None
        ],
        "bin": lanes.bin_s if lanes else 0,
        "bins": [
            [round(b.t_s, 3), b.ok, b.info, b.fail, b.p50_ms, b.p99_ms, b.polled]
            for b in (lanes.bins if lanes else ())
        ],
        "partitions": [
            [
                f"{units.visible(topic)}/{partition}",
                [[round(s.from_s, 3), s.leader, s.isr] for s in record.timeline[topic, partition]],
            ]
            for topic, partition in shown
        ],
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - JSON in which the signs of markup are escaped
