"""What a checker is, what frames it may ask for, and where checkers are found.

A checker asks for frames by the names of its parameters:

sends, txns, polls, final, events
    the history as it was recorded (docs/run-folder.md).
values
    what is known of each (topic, value) that is not plainly in order (frames/records.py). One
    shuffle.
log
    which offsets are known to hold a record, 64 to a row (scanning/places.py).
turns
    where a consumer was given something other than the next offset of a partition
    (frames/order.py). One shuffle.
producing
    each producer's sends to each partition in the order it made them, where the log's order
    differs (frames/order.py). One shuffle.
slots
    the offsets that are known to hold more than one value (scanning/places.py).
aborted_reads
    what read_uncommitted readers saw of aborted transactions (frames/transactions.py); `polls`
    holds nothing that such a reader saw of transactions that were not committed.
transactors
    the processes that did transactions.
parts
    the sends of transactions of which the final read may hold a part only
    (frames/transactions.py).
processing
    what members of consumer groups processed (frames/consumption.py). A few rows of the events.

Beside them, what replicas/comparison.py and timeline/frames.py tell. A history in good order leaves
`values`, `turns`, `producing` and `slots` all but empty, so a checker costs what there is to say,
not what was recorded.
"""

import inspect
from collections.abc import Callable, Collection, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.core.registry import Registry
from verifiers.run_folder.schema import ANOMALY_SCHEMA

Checker = Callable[..., DataFrame]
"""A pure function of shared frames, asked for by the names of its parameters.

It is run only if it can find something: one that asks for any of SUSPECTS, and for none of
RECORDED, has nothing to look at where all those suspects are none.
"""

SUSPECTS = frozenset(
    {
        "values", "turns", "slots", "differences", "disordered", "damaged", "disjoint",
        "aborted_reads", "parts",
    }
)  # fmt: skip
"""The frames that hold only what is not plainly in order."""

NEEDED = frozenset({"processing", "txns", "watermarks", "shortages", "ceilings", "demands"})
"""The frames without which a checker that asks for them has nothing to say."""

RECORDED = frozenset({"sends", "polls", "final", "producing"})
"""The frames that hold offences which no suspect points to."""

CHECKERS: Registry[Checker] = Registry("checker", "verifiers.checkers")
checker = CHECKERS.register


def frames_wanted(check: Checker) -> tuple[str, ...]:
    """Return the names of the frames that a checker asks for."""
    return tuple(inspect.signature(check).parameters)


def can_find(check: Checker, empty: Collection[str]) -> bool:
    """Tell whether a checker could find anything, given which of SUSPECTS and NEEDED are empty."""
    wanted = frames_wanted(check)
    if NEEDED.intersection(wanted, empty):
        return False
    suspects = SUSPECTS.intersection(wanted)
    return not suspects or not suspects <= set(empty) or not RECORDED.isdisjoint(wanted)


def offences(
    frame: DataFrame, *, detail: Mapping[str, Column], **columns: Column | str | None
) -> DataFrame:
    """Return one anomaly per row of `frame`, in the columns of ANOMALY_SCHEMA.

    Args:
        frame: the rows that offend.
        detail: further facts by name; those that are null in a row are left out there.
        columns: any of topic, partition, offset, value, process, time_ns and kind, as a column
            or its name. One that is not given is taken from the frame's column of that name, or
            is null if the frame has none or None is given.

    Raises:
        ValueError: a column is none of these; a programming error.
    """
    names = [field.name for field in ANOMALY_SCHEMA.fields if field.name != "detail"]
    strange = set(columns) - set(names)
    if strange:
        raise ValueError(f"An anomaly has no column {sorted(strange)}: choose from {names}.")
    chosen = []
    for field in ANOMALY_SCHEMA.fields[:-1]:
        given = columns.get(field.name, field.name if field.name in frame.columns else None)
        column = F.lit(None) if given is None else F.col(given) if isinstance(given, str) else given
        chosen.append(column.cast(field.dataType).alias(field.name))
    facts = [part for name, fact in detail.items() for part in (F.lit(name), fact.cast("string"))]
    known = F.map_filter(F.create_map(*facts), lambda _, fact: fact.isNotNull())
    return frame.select(*chosen, known.cast(ANOMALY_SCHEMA["detail"].dataType).alias("detail"))
