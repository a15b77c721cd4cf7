"""How fast leaders, ISRs and replicas reacted to each fault."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from harness.core.grouping import by_key
from verifiers.run_folder.broker_logs import in_utc
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.journal import FaultSpan, Line, fault_spans
from verifiers.timeline.partition_states import Timeline


def measured(timeline: Timeline, faults: Iterable[Line], meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reaction times of the cluster, for verdict.json.

    Times are those at which the monitor saw a change, up to a quarter of a second late. Faults are
    the lines of faults.jsonl, `meta` is run.json.

    Returns:
        `faults`: by the fault's id, in seconds: `shrink_s` from its decision until every victim had
        left the ISRs that it was in, `elect_s` until every partition that a victim led had another
        leader, `recover_s` from its healing until all ISRs were full again; null where it did not
        come to that before the next fault, or the end. `changes`: how often a leader or an ISR
        changed; `controllers`: who became the active controller, and when by its own clock;
        `widest_lag`: of all samples of replicas the one that was furthest behind the longest
        replica of its partition: `records`, `broker`, `topic`, `partition` and `at_ns`; null if
        none was sampled.
    """
    history = by_key(timeline.lines, itemgetter("topic", "partition"))
    copies = {topic["name"]: topic["replication_factor"] for topic in meta.get("topics", [])}
    spans = [span for span in fault_spans(faults) if span.victims]
    following_ns = [*(span.decided_ns for span in spans[1:]), None]
    return {
        "changes": sum(_changes(lines) for lines in history.values()),
        "controllers": [
            {"at_utc": in_utc(change.at_ms), "node": change.node_id, "epoch": change.epoch}
            for change in (timeline.log.controllers if timeline.log else ())
        ],
        "faults": {
            span.id: _of_fault(span, history, copies, until_ns)
            for span, until_ns in zip(spans, following_ns, strict=False)
        },
        "widest_lag": _widest_lag(timeline.samples),
    }


def _widest_lag(samples: Sequence[Line]) -> dict[str, Any] | None:
    replicas = (line for line in samples if line["sample"] == "replica")
    # A round samples one broker after the other, so replicas may differ by milliseconds of work.
    lags = [
        (max(int(sample["log_end"]) for sample in in_round) - int(line["log_end"]), line)
        for in_round in by_key(replicas, itemgetter("asked_ns", "topic", "partition")).values()
        for line in in_round
    ]
    if not lags:
        return None
    records, line = max(lags, key=lambda lag: (lag[0], -int(lag[1]["asked_ns"])))
    place = {name: line[name] for name in ("broker", "topic", "partition")}
    return {"records": records, **place, "at_ns": line["asked_ns"]}


def _of_fault(
    span: FaultSpan,
    history: Mapping[TopicPartition, Sequence[Line]],
    copies: Mapping[str, int],
    until_ns: int | None,
) -> dict[str, float | None]:
    decided_ns, victims = span.decided_ns, span.victims
    begin_ns = span.end_ns if span.is_healed else None
    shrinks, elections, recoveries = [], [], []
    for tp, lines in history.items():
        before = [line for line in lines if line["time_ns"] <= decided_ns]
        after = [line for line in lines if line["time_ns"] > decided_ns]
        if not before:
            continue
        if victims & set(before[-1]["isr"]):
            shrinks.append(_first(line for line in after if not victims & set(line["isr"])))
        if before[-1]["leader"] in victims:
            elections.append(
                _first(line for line in after if line["leader"] not in (None, *victims))
            )
        if begin_ns is not None:
            known = [line for line in lines if line["time_ns"] <= begin_ns][-1]
            later = [known, *(line for line in lines if line["time_ns"] > begin_ns)]
            whole = _first(line for line in later if len(line["isr"]) >= copies.get(tp[0], 0))
            recoveries.append(None if whole is None else max(whole, begin_ns))
    return {
        "shrink_s": _latest(shrinks, decided_ns, until_ns),
        "elect_s": _latest(elections, decided_ns, until_ns),
        "recover_s": None if begin_ns is None else _latest(recoveries, begin_ns, until_ns),
    }


def _first(lines: Iterable[Line]) -> int | None:
    return next((int(line["time_ns"]) for line in lines), None)


def _latest(moments: Sequence[int | None], since_ns: int, until_ns: int | None) -> float | None:
    known = [moment for moment in moments if moment is not None]
    if not known or len(known) < len(moments):
        return None
    if until_ns is not None and max(known) > until_ns:
        return None
    return round((max(known) - since_ns) / 1e9, 3)


def _changes(lines: Sequence[Line]) -> int:
    states = [(line["leader"], tuple(line["isr"])) for line in lines]
    return sum(before != after for before, after in pairwise(states))
