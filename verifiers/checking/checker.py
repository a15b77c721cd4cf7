"""What a checker is, which frames it may ask for, and how checkers are registered.

A checker asks for frames by the names of its parameters:

sends, txns, polls, final, events
    the history as it was recorded (docs/run-folder.md).
values
    what is known of each (topic, value) that may not be in order (frames/records.py). One shuffle.
log
    which offsets are known to hold a record, 64 to a row (scanning/offsets.py).
turns
    where a consumer went back in a partition, or skipped records, and nothing excuses it
    (frames/order.py, checking/polling.py). One shuffle.
producing
    each producer's sends to each partition in the order it made them, where the log's order
    differs (frames/order.py). One shuffle.
slots
    the offsets that are known to hold more than one value (scanning/offsets.py).
aborted_reads
    what read_uncommitted readers saw of aborted transactions (frames/transactions.py); `polls`
    holds nothing that such a reader saw of transactions that were not committed.
transactors
    the processes that did transactions.
txn_reads
    the records of transactions that transactions were given (frames/transactions.py).
txn_cycles
    the transactions that read each other's records in a circle (cycles/transactions.py).
parts
    the sends of transactions of which the final read may hold a part only
    (frames/transactions.py).
answers
    the errors that clients were given and that not every fault explains (frames/answers.py).
fatals
    the errors after which a client was of no more use (frames/giving_up.py).
processing
    what members of consumer groups processed (frames/consumption.py). A few rows of the events.

ops, mops, interleaved
    of op histories alone (ops/schema.py, ops/frames.py): their other frames go by the same names as
    those of run folders.

replicas/comparison.py and timeline/frames.py list further frames. A checker that needs one of its
own declares it (`@shared_frame`, frames/shared.py): it is made when somebody asks for it.

For a history in order, `values`, `turns`, `producing` and `slots` are almost empty, so that the
cost of a checker grows with the number of suspicious records and not with the size of the history.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.core.registry import Registry
from verifiers.frames.shared import made_of
from verifiers.oracle.row import Chapter
from verifiers.oracle.table import chapter_of
from verifiers.run_folder.schema import ANOMALY_SCHEMA
from verifiers.spark.columns import converted

Find = Callable[..., DataFrame]
"""A pure function of shared frames, asked for by the names of its parameters.

It is run only if it can find something: one that asks for any of SUSPECTS, and for none of
RECORDED, has nothing to look at where all those suspects are empty.
"""

SUSPECTS = frozenset(
    {
        "values", "turns", "slots", "differences", "disordered", "damaged", "disjoint",
        "aborted_reads", "unmarked",
    }
)  # fmt: skip
"""The frames that hold only what may not be in order."""

NEEDED = frozenset(
    {
        "processing", "txns", "txn_reads", "txn_cycles", "parts", "watermarks", "shortages",
        "ceilings", "demands", "recoveries", "processes", "refusals", "elections", "coordinators",
        "group_ends", "explanations", "clients",
    }
)  # fmt: skip
"""The frames without which a checker that asks for them can find nothing, and is not run."""

RECORDED = frozenset({"sends", "polls", "final", "producing"})
"""The frames that hold offences which no suspect points to."""


OF_OPS = frozenset({"ops", "mops", "interleaved"})
"""The frames that op histories have and run folders have not (verifiers/ops/frames.py)."""


class Severity(IntEnum):
    """How bad an anomaly is: a report names the worst first, and sorts equals by name."""

    LOST = 1
    """An acknowledged record is gone."""
    FALSE = 2
    """A client was given what the log does not hold, or holds in part only."""
    TOO_EARLY = 3
    """Something was acknowledged, or shown to a consumer, before Kafka may do so."""
    DIFFERENT = 4
    """A record is there twice, or replicas or clients know of different ones."""
    PASSED_OVER = 5
    """A consumer group will never process a record."""
    UNKNOWN = 6
    """Whether a record is there is unknown."""
    DISORDERED = 7
    """Records were written or read in another order."""
    DELAYED = 8
    """Something took too long, never came to its end, or had to be done again."""
    UNRATED = 9
    """Its checker does not say."""


@dataclass(frozen=True, kw_only=True)
class Checker:
    """A registered checker, and how reports and contracts speak of its anomaly.

    Attributes:
        find: returns the offences.
        severity: how bad the anomaly is.
        one: what a sentence says of one offence, as in "acknowledged record was lost".
        many: what a sentence says of several, as in "acknowledged records were lost".
        chapter: which contracts permit the anomaly, and why.
    """

    find: Find
    severity: Severity
    one: str
    many: str
    chapter: Chapter

    @property
    def __wrapped__(self) -> Find:
        """The function itself, whose parameters, docstring and module `inspect` shows."""
        return self.find

    def __call__(self, **frames: DataFrame) -> DataFrame:
        """Return the offences in these frames."""
        return self.find(**frames)

    def phrase(self, count: int) -> str:
        """Return what a sentence says of `count` offences; empty if the checker does not say."""
        return self.one if count == 1 else self.many


CHECKERS: Registry[Checker] = Registry("checker", "verifiers.checkers")


def checker(
    anomaly: str,
    *,
    severity: Severity = Severity.UNRATED,
    one: str = "",
    many: str = "",
    chapter: Chapter | None = None,
) -> Callable[[Find], Find]:
    """Return a decorator that registers a checker under the name of the anomaly that it finds.

    Args:
        anomaly: the name; nothing else may be registered under it.
        severity: as of `Checker`.
        one: as of `Checker`; without it a report says how often the anomaly occurred.
        many: as of `Checker`.
        chapter: as of `Checker`. Without one the chapter of that name in `verifiers/oracle/` holds;
            without that every contract forbids the anomaly.

    Raises:
        ValueError: the chapter is another anomaly's; a programming error.
    """
    if chapter is not None and chapter.anomaly != anomaly:
        raise ValueError(f"The checker {anomaly!r} brings the chapter of {chapter.anomaly!r}.")

    def register(find: Find) -> Find:
        CHECKERS.register(anomaly)(
            Checker(
                find=find,
                severity=severity,
                one=one,
                many=many,
                chapter=chapter or chapter_of(anomaly),
            )
        )
        return find

    return register


def frames_wanted(check: Find) -> tuple[str, ...]:
    """Return the names of the frames that a checker asks for."""
    return tuple(inspect.signature(check).parameters)


def checkers_of_runs() -> list[str]:
    """Return the checkers of run folders: those that ask for nothing of op histories alone."""
    return [name for name in CHECKERS if OF_OPS.isdisjoint(looked_at(CHECKERS[name]))]


def checkers_of_ops(frames: Collection[str]) -> list[str]:
    """Return the checkers that ask for nothing but these frames of op histories."""
    return [name for name in CHECKERS if looked_at(CHECKERS[name], frames) <= set(frames)]


def looked_at(check: Find, there: Collection[str] = ()) -> frozenset[str]:
    """Return the frames that a checker looks at, those that others are made of among them."""
    wanted = frames_wanted(check)
    made = (made_of(name) if name not in there else {name} for name in wanted)
    return frozenset().union(*made)


def can_find(check: Find, empty: Collection[str]) -> bool:
    """Tell whether a checker could find anything, given which of SUSPECTS and NEEDED are empty."""
    # What others are made of may be empty without their being so.
    if NEEDED.intersection(frames_wanted(check), empty):
        return False
    wanted = looked_at(check)
    suspects = SUSPECTS.intersection(wanted)
    return not suspects or not suspects <= set(empty) or not RECORDED.isdisjoint(wanted)


def offences(
    frame: DataFrame, *, detail: Mapping[str, Column], **columns: Column | str | None
) -> DataFrame:
    """Return one anomaly per row of `frame`, in the columns of ANOMALY_SCHEMA.

    Args:
        frame: the rows that offend.
        detail: further facts by name; those that are null in a row are left out there. A frame that
            has a column `facts` tells its own in place of them (verifiers/ops/frames.py).
        columns: any of topic, partition, offset, value, process, time_ns and kind, as a column
            or its name. One that is not given is taken from the frame's column of that name, or
            is null if the frame has none or None is given.

    Raises:
        ValueError: a column is none of these; a programming error.
    """
    names = [field.name for field in ANOMALY_SCHEMA.fields if field.name != "detail"]
    unknown = set(columns) - set(names)
    if unknown:
        raise ValueError(f"An anomaly has no column {sorted(unknown)}: choose from {names}.")
    own = set(frame.columns)
    chosen = [
        converted(columns.get(field.name, field.name if field.name in own else None), field)
        for field in ANOMALY_SCHEMA.fields[:-1]
    ]
    facts = [part for name, fact in detail.items() for part in (F.lit(name), fact.cast("string"))]
    told = F.col("facts") if "facts" in own else F.create_map(*facts)
    known = F.map_filter(told, lambda _, fact: fact.isNotNull())
    return frame.select(*chosen, converted(known, ANOMALY_SCHEMA["detail"]))
