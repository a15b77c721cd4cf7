"""Why outcomes are unknown: how many sends and transactions met which error."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import History
from verifiers.run_folder.member import MEMBER, Member

MOST_CAUSES = 32
"""So many errors of a run are named."""

METRIC = "info-txn-causes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One error, None if none was recorded, and how many outcomes of each kind it left unknown."""

    error: str | None
    sends: int
    txns: int


def causes(history: History, members: Sequence[Member]) -> Mapping[int, tuple[Cause, ...]]:
    """Return the causes of each member by its number, the most frequent first; runs one small job.

    Sequence numbers that a killed producer had reserved are not sends and have no cause. A member
    that is missing in the result has no unknown outcome.
    """
    counted = _counted(
        history.sends.where(F.col("invoke_ns").isNotNull()), "sends", members
    ).unionByName(_counted(history.txns, "txns", members))
    found: dict[int, dict[str | None, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in counted.collect():
        found[row[MEMBER]][row["error"]][row["what"]] += row["count"]
    return {number: _ordered(by_error) for number, by_error in found.items()}


def _counted(rows: DataFrame, what: str, members: Sequence[Member]) -> DataFrame:
    unknown = rows.where(F.col("type") == "info")
    return (
        unknown.groupBy(_number(members).alias(MEMBER), "error")
        .agg(F.count("*").alias("count"))
        .withColumn("what", F.lit(what))
    )


def _number(members: Sequence[Member]) -> Column:
    """Return the number of a row's member by its process: transactions have no topic."""
    span = members[0].span
    if not span:
        return F.lit(members[0].number)
    return (F.floor(F.col("process") / span) - 1).cast("int")


def _ordered(by_error: Mapping[str | None, Mapping[str, int]]) -> tuple[Cause, ...]:
    found = [
        Cause(error=error, sends=counts["sends"], txns=counts["txns"])
        for error, counts in by_error.items()
    ]
    found.sort(
        key=lambda cause: (-cause.sends - cause.txns, cause.error is None, cause.error or "")
    )
    return tuple(found)


def told(found: Sequence[Cause]) -> dict[str, Any]:
    """Return the metric as it stands in verdict.json (docs/run-folder.md)."""
    return {
        "distinct": len(found),
        "causes": [asdict(cause) for cause in found[:MOST_CAUSES]],
    }
