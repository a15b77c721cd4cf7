"""Why outcomes are unknown: how many sends and transactions met which error."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from pyspark.sql import functions as F

from harness.core.grouping import by_key
from verifiers.frames.history import History
from verifiers.run_folder.member import MEMBER, Member, number_by_process

MOST_CAUSES = 32
"""So many errors of a run are named."""

METRIC = "info-txn-causes"
"""Its name in verdict.json."""

Unknown = Mapping[str | None, int]
"""How many outcomes are unknown, by the error that was met; None if none was recorded."""


def causes(sends: Unknown, txns: Unknown) -> dict[str, Any]:
    """Return the metric as it stands in verdict.json (docs/run-folder.md), of one run.

    Returns:
        `distinct`: how many causes there are; `causes`: the most frequent ones with `error`, null
        if none was recorded, and how many `sends` and `txns` it left unknown.
    """
    numbers = {error: (sends.get(error, 0), txns.get(error, 0)) for error in {**sends, **txns}}
    errors = sorted(numbers, key=lambda error: (-sum(numbers[error]), error is None, error or ""))
    return {
        "distinct": len(errors),
        "causes": [
            {"error": error, "sends": numbers[error][0], "txns": numbers[error][1]}
            for error in errors[:MOST_CAUSES]
        ],
    }


def unknown_txns(history: History, members: Sequence[Member]) -> Mapping[int, Unknown]:
    """Return how many transactions of each member have an unknown outcome; runs one small job."""
    unknown = history.txns.where(F.col("type") == "info")
    counted = unknown.groupBy(number_by_process(members).alias(MEMBER), "error").count()
    return {
        number: {row["error"]: row["count"] for row in rows}
        for number, rows in by_key(counted.collect(), itemgetter(MEMBER)).items()
    }
