"""How fast the cluster reacted to its faults, and whether that was within the bound."""

from collections.abc import Iterator, Mapping
from typing import Any

from verifiers.report import units
from verifiers.report.model import FaultRecord, RunRecord

_MOST_FAULTS = 60


def verdict_line(record: RunRecord) -> str:
    """Return the verdict on liveness as one line; empty if the run has no bound."""
    judged = record.judgement.liveness
    bound_s, widest = judged.get("bound_s"), judged.get("widest")
    if not isinstance(bound_s, int | float) or not isinstance(widest, Mapping):
        return ""
    return (
        f"liveness {judged.get('verdict')}: an acknowledgement within {units.span(bound_s)} was "
        f"asked for; the widest time without one was {units.span(float(widest.get('gap_s', 0)))}, "
        f"{widest.get('topic')}/{widest.get('partition')}, "
        f"from {units.instant(float(widest.get('from_s', 0)))}"
    )


def sentences(record: RunRecord) -> list[str]:
    """Return how fast ISRs shrank, leaders were elected and ISRs recovered, a sentence a fault."""
    timeline = record.judgement.timeline
    found = [line] if (line := verdict_line(record)) else []
    times = timeline.get("faults")
    if isinstance(times, Mapping):
        faults = {fault.id: fault for fault in record.faults}
        known = [(faults[i], span) for i, span in times.items() if i in faults]
        found += [_of_fault(fault, span) for fault, span in known[:_MOST_FAULTS]]
    found += [*_behind(timeline), *_controllers(timeline)]
    return [units.visible(sentence, 400) for sentence in found]


def _of_fault(fault: FaultRecord, span: Mapping[str, Any]) -> str:
    times = [
        f"{words} after {units.span(float(span[key]))}"
        for key, words in _WORDS.items()
        if isinstance(span.get(key), int | float)
    ]
    return f"{fault.title}: {', '.join(times) or 'no leader and no ISR changed'}."


_WORDS = {
    "shrink_s": "it had left the ISRs",
    "elect_s": "others led what it had led",
    "recover_s": "healed, all ISRs were full",
}


def _behind(timeline: Mapping[str, Any]) -> Iterator[str]:
    lag = timeline.get("widest_lag")
    if isinstance(lag, Mapping) and isinstance(lag.get("records"), int):
        yield (
            f"Furthest behind of all replicas that were sampled: {lag.get('topic')}/"
            f"{lag.get('partition')} on broker {lag.get('broker')}, by {lag['records']:,} records."
        )


def _controllers(timeline: Mapping[str, Any]) -> Iterator[str]:
    known = [change for change in timeline.get("controllers", ()) if isinstance(change, Mapping)]
    if known:
        names = ", ".join(
            f"node {change.get('node')} at {change.get('at_utc')}" for change in known[:8]
        )
        yield f"Active controllers, by their own clocks: {names}."
