"""Why outcomes are unknown: a line of the report for each error."""

from collections.abc import Mapping
from typing import Any

from verifiers.report import units
from verifiers.report.model import RunRecord

_MOST_LINES = 12
_UNSAID = "no error was recorded"


def lines(record: RunRecord) -> list[str]:
    """Return how many sends and transactions each error left unknown, the most frequent first."""
    metric = record.judgement.metrics.get("info-txn-causes")
    if not isinstance(metric, Mapping):
        return []
    known = [cause for cause in metric.get("causes") or () if isinstance(cause, Mapping)]
    told_lines = [_line(cause) for cause in known[:_MOST_LINES]]
    distinct = metric.get("distinct")
    more = (distinct if isinstance(distinct, int) else len(known)) - len(told_lines)
    return told_lines + (
        [f"{units.counted(more, 'more error')}: see verdict.json"] if more > 0 else []
    )


def _line(cause: Mapping[str, Any]) -> str:
    error = cause.get("error")
    counts = [
        units.counted(number, noun)
        for name, noun in (("sends", "send"), ("txns", "transaction"))
        if isinstance(number := cause.get(name), int) and number
    ]
    reason = units.visible(error, 200) if isinstance(error, str) else _UNSAID
    return f"{reason}: {', '.join(counts)}"
