"""The contents of a stored run, in arrays, and the records that plants may change.

Plants change records that are in order. A record is *plain* if it was acknowledged once, if the
final read found it once, undamaged and alone at that offset, and if all polls of it agree.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.op import producer_of
from harness.core.run_dir import RunDir
from verifiers.replicas.copied import Replica, read_copied
from verifiers.replicas.cuts import Cut, cuts_by_faults
from verifiers.run_folder.folder import RunInput, TopicPartition, partition_name, read_run
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.run_folder.sealed import read_sealed
from verifiers.timeline.frames import read_rows
from verifiers.timeline.partition_states import Timeline, read_timeline

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

T = TypeVar("T")

NONE = -(1 << 62)
"""Null, in a column of numbers."""

_MS_NS = 1_000_000
_PLACE = ["topic", "partition", "offset"]
_RECORD = [*_PLACE, "value"]
_SEMI, _ANTI = "left semi", "left anti"


class NothingToPlant(Exception):
    """The run holds nothing that the plant could change; the text says what it lacks."""


def first_of(things: Iterable[T], lacking: str) -> T:
    """Return the first of things that a plant could change.

    Raises:
        NothingToPlant: there is none; `lacking` says so.
    """
    for thing in things:
        return thing
    raise NothingToPlant(lacking)


class Rows:
    """One dataset of a history, all its files one after the other.

    Attributes:
        table: with all declared columns; those that older folders lack are null there.
    """

    def __init__(self, dataset: str, files: Sequence[str]) -> None:
        schema = to_arrow_schema(HISTORY_SCHEMAS[dataset])
        self.table: pa.Table = schema.empty_table()
        if files:
            self.table = pq.read_table(list(files), schema=schema, partitioning=None)

    def numbers(self, name: str) -> Numbers:
        """Return a column of whole numbers; NONE where it is null."""
        column = self.table.column(name).cast(pa.int64())
        numbers: Numbers = pc.fill_null(column, NONE).to_numpy()
        return numbers

    def among(self, name: str, *values: str | int) -> Flags:
        """Return which rows have one of some values in a column."""
        column = self.table.column(name)
        chosen: Flags = pc.is_in(column, value_set=pa.array(values, column.type)).to_numpy()
        return chosen

    def cells(self, chosen: Flags, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield the numbers of the chosen rows, each with its values of some columns."""
        table = self.table.filter(pa.array(chosen))
        columns = (table.column(name).to_pylist() for name in names)
        return zip(np.flatnonzero(chosen).tolist(), *columns, strict=True)

    def row(self, at: int) -> dict[str, Any]:
        """Return one row."""
        row: dict[str, Any] = self.table.slice(at, 1).to_pylist()[0]
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A plain record.

    Attributes:
        topic: where.
        partition: where.
        offset: in records.
        value: which.
        process: its producer.
        op: its number there.
        txn: the transaction that it was sent in; None if in none.
    """

    topic: str
    partition: int
    offset: int
    value: int
    process: int
    op: int
    txn: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return (self.topic, self.partition)

    @property
    def name(self) -> str:
        """Topic, partition and offset, for a sentence: orders/0 @17."""
        return f"{partition_name(self.topic_partition)} @{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One row of `anomalies/`, without its time: found, or to be found in the planted copy.

    Two are the same if the columns of ANOMALY_SCHEMA are.

    Attributes:
        anomaly: its name.
        topic: where.
        partition: where.
        offset: in records.
        value: which record.
        process: which client.
        kind: as the checker refines it.
        detail: what was found; of a planted one, facts that must be found, among others.
        because: why a planted one follows by definition from what is planted; else empty.
    """

    anomaly: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    value: int | None = None
    process: int | None = None
    kind: str | None = None
    detail: Mapping[str, str] = field(default_factory=dict, compare=False)
    because: str = field(default="", compare=False)

    @property
    def in_words(self) -> str:
        """For a sentence: lost-write at orders/0 offset 17, value 42."""
        where = "" if self.topic is None else f" at {self.topic}"
        where += "" if self.partition is None else f"/{self.partition}"
        names = ("offset", "value", "process", "kind")
        facts = [(name, getattr(self, name)) for name in names]
        told = ", ".join(f"{name} {fact}" for name, fact in facts if fact not in (None, ""))
        return f"{self.anomaly}{where} {told}".rstrip()


OFFENCE_COLUMNS = tuple(column.name for column in fields(Offence) if column.compare)
"""What two offences that are the same have in common."""


def read_found(anomalies: Path) -> list[Offence]:
    """Return the rows of an `anomalies/` folder."""
    rows = pq.read_table(anomalies, columns=[*OFFENCE_COLUMNS, "detail"]).to_pylist()
    return [Offence(**{**row, "detail": dict(row["detail"])}) for row in rows]


class RunContents:
    """The contents of a run that plants choose from.

    Args:
        path: the folder of the run, its history sealed.
        found: what a verification of it as it is finds.
    """

    def __init__(self, path: Path, found: Iterable[Offence] = ()) -> None:
        self.path = path
        self.run: RunInput = read_run(path)
        self.folder = RunDir.open(path)
        self.found = tuple(found)
        self._files = read_sealed(self.run.path).files
        self._rows: dict[str, Rows] = {}

    def rows(self, dataset: str) -> Rows:
        """Return a dataset of the history: send, txn, poll, final or event."""
        if dataset not in self._rows:
            self._rows[dataset] = Rows(dataset, self._files[dataset])
        return self._rows[dataset]

    def has(self, dataset: str) -> bool:
        """Tell whether a dataset has any row."""
        return bool(self.rows(dataset).table.num_rows)

    @cached_property
    def new_process(self) -> int:
        """The lowest number above those of all processes of the run."""
        recorded = [self._highest(dataset, "process") for dataset in HISTORY_SCHEMAS]
        values = [self._highest(dataset, "value") for dataset in ("send", "poll", "final")]
        clients = [int(client["process"]) for client in self.run.meta.get("clients", [])]
        return max([*recorded, *map(producer_of, values), *clients]) + 1

    @cached_property
    def after_ns(self) -> int:
        """A moment after everything that was recorded."""
        columns = {"send": "complete_ns", "poll": "time_ns", "final": "time_ns",
                   "event": "time_ns", "txn": "complete_ns"}  # fmt: skip
        times = [self._highest(dataset, name) for dataset, name in columns.items()]
        samples = [int(line.get("answered_ns", 0)) for line in self.folder.lines("samples.jsonl")]
        phases = [int(phase["to_ns"] or 0) for phase in self.run.meta.get("phases", [])]
        return max([*times, *samples, *phases]) + _MS_NS

    def _highest(self, dataset: str, column: str) -> int:
        """Return the highest number of a column; 0 if it holds none."""
        return int(self.rows(dataset).numbers(column).max(initial=0))

    @cached_property
    def cuts_by_faults(self) -> Sequence[Cut]:
        """What faults took from logs; none where no leader is known: nothing is laid to them."""
        return cuts_by_faults(self.folder.lines("faults.jsonl")) if self.timeline.states else ()

    @cached_property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that were finally read to their ends."""
        return tuple((end.topic, end.partition) for end in self.run.ends if end.complete)

    @property
    def some_partition(self) -> TopicPartition:
        """A partition that was finally read to its end.

        Raises:
            NothingToPlant: there is none.
        """
        return first_of(self.topic_partitions, "no partition was finally read to its end")

    def demand_transactions(self) -> None:
        """Reject a run without transactions.

        Raises:
            NothingToPlant: it has none.
        """
        if not self.has("txn"):
            raise NothingToPlant("the run has no transactions")

    def free_offset(self, tp: TopicPartition) -> int:
        """Return the lowest offset of a partition above all recorded ones."""
        highest = [end.high for end in self.run.ends if (end.topic, end.partition) == tp]
        for dataset in ("send", "poll", "final", "event"):
            offsets = self.rows(dataset).numbers("offset")[self.in_partition(dataset, tp)]
            highest.append(int(offsets.max(initial=-1)) + 1)
        return max(highest)

    def in_partition(self, dataset: str, tp: TopicPartition) -> Flags:
        """Return which rows of a dataset name a partition."""
        rows = self.rows(dataset)
        return rows.among("topic", tp[0]) & rows.among("partition", tp[1])

    def of_value(self, dataset: str, values: Iterable[int]) -> Flags:
        """Return which rows of a dataset hold one of some values."""
        return self.rows(dataset).among("value", *values)

    @property
    def sent(self) -> Flags:
        """Which sends were acknowledged or are in doubt."""
        return self.rows("send").among("type", "ok", "info")

    @cached_property
    def timeline(self) -> Timeline:
        """The committed states and samples of the partitions."""
        return read_timeline(self.path)

    @cached_property
    def replicas(self) -> tuple[Replica, ...]:
        """The replicas whose logs were copied."""
        return read_copied(self.folder, self.run.meta).replicas

    @cached_property
    def timeline_rows(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rows of the timeline's frames, by the name of the frame."""
        return read_rows(self.run, self.replicas).rows

    def name_within(self, file: Path) -> str:
        """Return the path of a file within the run's folder."""
        return str(file.relative_to(self.path))

    @property
    def has_disks(self) -> bool:
        """Whether data of brokers was copied."""
        return any(self.path.glob("cluster/*/data*"))

    @cached_property
    def plain(self) -> tuple[Record, ...]:
        """The plain records, by topic, partition and offset."""
        sends, finals, polls = (self.rows(name).table for name in ("send", "final", "poll"))
        acked = _alone(sends, "value").filter(pc.field("type") == "ok")
        undamaged = _alone(finals, *_PLACE).filter(pc.field("problem").is_null())
        read = _alone(finals, "value").join(undamaged.select(_RECORD), _RECORD, join_type=_SEMI)
        damaged = polls.filter(pc.field("problem").is_valid())
        contradicted = polls.join(finals.select(_RECORD), _RECORD, join_type=_ANTI)
        found = pa.table({"value": pa.array([row.value for row in self.found], pa.int64())})
        chosen = acked.join(read.select(_RECORD), _RECORD, join_type=_SEMI)
        for disputed in (damaged, contradicted, found):
            chosen = chosen.join(disputed.select(["value"]), "value", join_type=_ANTI)
        ordered = chosen.sort_by([(name, "ascending") for name in _PLACE])
        columns = [column.name for column in fields(Record)]
        return tuple(Record(**row) for row in ordered.select(columns).to_pylist())

    @property
    def some_plain(self) -> Record:
        """A plain record from the middle of the run.

        Raises:
            NothingToPlant: there is none.
        """
        return first_of(self.plain[len(self.plain) // 2 :], "no record is plainly in order")

    @cached_property
    def by_value(self) -> Mapping[int, Record]:
        """The plain records by their values."""
        return {record.value: record for record in self.plain}

    def has_any(self, anomalies: Iterable[str], tp: TopicPartition) -> bool:
        """Tell whether the unchanged run has any of these anomalies in a partition."""
        names = set(anomalies)
        return any(row.anomaly in names and (row.topic, row.partition) == tp for row in self.found)


def _alone(table: pa.Table, *names: str) -> pa.Table:
    """Return the rows that share the values of some columns with no other row."""
    counts = table.group_by([*names]).aggregate([([], "count_all")])
    single = counts.filter(pc.field("count_all") == 1)
    return table.join(single.select([*names]), [*names], join_type=_SEMI)
