"""The contents of a stored run, in arrays, and the records that plants may change.

Plants change records that are in order. A record is *plain* if it was acknowledged once, if the
final read found it once, undamaged and alone at that offset, and if all polls of it agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.op import producer_of
from harness.core.run_dir import RunDir
from verifiers.run_folder.folder import RunInput, TopicPartition, read_run
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.run_folder.sealed import read_sealed

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NONE = -(1 << 62)
"""Null, in a column of numbers."""

_MS_NS = 1_000_000


class NothingToPlant(Exception):
    """The run holds nothing that the plant could change; the text says what it lacks."""


class Rows:
    """One dataset of a history, all its files one after the other.

    Attributes:
        files: name, first row and the one after the last, of each file.
        tables: its files.
        schema: of a file of this dataset.
    """

    def __init__(self, dataset: str, paths: Sequence[Path]) -> None:
        self.tables = [pq.read_table(path) for path in paths]
        declared = to_arrow_schema(HISTORY_SCHEMAS[dataset])
        self.schema = self.tables[0].schema if self.tables else declared
        self.files: list[tuple[str, int, int]] = []
        begin = 0
        for path, table in zip(paths, self.tables, strict=True):
            self.files.append((path.name, begin, begin + table.num_rows))
            begin += table.num_rows
        self.count = begin
        self._declared = declared
        self._numbers: dict[str, Numbers] = {}
        self._words: dict[str, npt.NDArray[np.object_]] = {}

    def _column(self, name: str) -> pa.Array:
        kind = self._declared.field(name).type
        # Older folders lack some columns, which count as null.
        parts = [
            table.column(name).cast(kind)
            if name in table.schema.names
            else pa.chunked_array([pa.nulls(table.num_rows, kind)])
            for table in self.tables
        ]
        chunks = [chunk for part in parts for chunk in part.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([], kind)

    def numbers(self, name: str) -> Numbers:
        """Return a column of whole numbers; NONE where it is null."""
        if name not in self._numbers:
            column = pc.fill_null(self._column(name).cast(pa.int64()), NONE)
            self._numbers[name] = column.to_numpy(zero_copy_only=False)
        return self._numbers[name]

    def words(self, name: str) -> npt.NDArray[np.object_]:
        """Return a column of strings; None where it is null."""
        if name not in self._words:
            column = self._column(name)
            if len(column):
                column = column.dictionary_encode()
                texts = np.array([*column.dictionary.to_pylist(), None], dtype=object)
                codes = pc.fill_null(column.indices, len(texts) - 1)
                self._words[name] = texts[codes.to_numpy(zero_copy_only=False)]
            else:
                self._words[name] = np.array([], dtype=object)
        return self._words[name]

    def row(self, at: int) -> dict[str, Any]:
        """Return one row."""
        for (_, begin, end), table in zip(self.files, self.tables, strict=True):
            if begin <= at < end:
                (row,) = table.slice(at - begin, 1).to_pylist()
                return {**dict.fromkeys(self._declared.names), **row}
        raise IndexError(at)


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
        return f"{self.topic}/{self.partition} @{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """One row of `anomalies/`, without its time and detail; columns of ANOMALY_SCHEMA.

    Attributes:
        anomaly: its name.
        topic: where.
        partition: where.
        offset: in records.
        value: which record.
        process: which client.
        kind: as the checker refines it.
    """

    anomaly: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    value: int | None = None
    process: int | None = None
    kind: str | None = None


def read_found(anomalies: Path) -> list[tuple[FoundRow, dict[str, str]]]:
    """Return the rows of an `anomalies/` folder, each with its detail."""
    names = list(FoundRow.__dataclass_fields__)
    rows = pq.read_table(anomalies, columns=[*names, "detail"]).to_pylist()
    return [(FoundRow(**{name: row[name] for name in names}), dict(row["detail"])) for row in rows]


class RunContents:
    """The contents of a run that plants choose from.

    Args:
        path: the folder of the run, its history sealed.
        found: what a verification of it as it is finds.
    """

    def __init__(self, path: Path, found: Iterable[FoundRow] = ()) -> None:
        self.path = path
        self.run: RunInput = read_run(path)
        self.folder = RunDir.open(path)
        self.found = tuple(found)
        self._files = read_sealed(self.run.path).files
        self._rows: dict[str, Rows] = {}

    def rows(self, dataset: str) -> Rows:
        """Return a dataset of the history: send, txn, poll, final or event."""
        if dataset not in self._rows:
            self._rows[dataset] = Rows(dataset, [Path(file) for file in self._files[dataset]])
        return self._rows[dataset]

    def has(self, dataset: str) -> bool:
        """Tell whether a dataset has any row."""
        return self.rows(dataset).count > 0

    @cached_property
    def new_process(self) -> int:
        """The lowest number above those of all processes of the run."""
        known = [self.rows(dataset).numbers("process") for dataset in HISTORY_SCHEMAS]
        clients = [int(client["process"]) for client in self.run.meta.get("clients", [])]
        values = [self.rows(dataset).numbers("value") for dataset in ("send", "poll", "final")]
        written = [producer_of(int(sent.max())) for sent in values if len(sent)]
        seen = [int(processes.max()) for processes in known if len(processes)]
        return max([0, *seen, *clients, *written]) + 1

    @cached_property
    def after_ns(self) -> int:
        """A moment after everything that was recorded."""
        columns = {"send": "complete_ns", "poll": "time_ns", "final": "time_ns",
                   "event": "time_ns", "txn": "complete_ns"}  # fmt: skip
        last = [self.rows(dataset).numbers(name) for dataset, name in columns.items()]
        samples = [int(line.get("answered_ns", 0)) for line in self.folder.lines("samples.jsonl")]
        phases = [int(phase["to_ns"] or 0) for phase in self.run.meta.get("phases", [])]
        times = [int(column.max()) for column in last if len(column)]
        return max([*times, *samples, *phases]) + _MS_NS

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
        if not self.topic_partitions:
            raise NothingToPlant("no partition was finally read to its end")
        return self.topic_partitions[0]

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
            highest.append(int(offsets.max()) + 1 if len(offsets) else 0)
        return max(highest)

    def in_partition(self, dataset: str, tp: TopicPartition) -> Flags:
        """Return which rows of a dataset name a partition."""
        rows = self.rows(dataset)
        here: Flags = (rows.words("topic") == tp[0]) & (rows.numbers("partition") == tp[1])
        return here

    def of_value(self, dataset: str, values: Iterable[int]) -> Flags:
        """Return which rows of a dataset hold one of some values."""
        wanted = np.fromiter(values, dtype=np.int64)
        chosen: Flags = np.isin(self.rows(dataset).numbers("value"), wanted)
        return chosen

    @cached_property
    def plain(self) -> tuple[Record, ...]:
        """The plain records, by topic, partition and offset."""
        sends, finals = self.rows("send"), self.rows("final")
        sent = _once(sends.numbers("value"))
        read = _once(finals.numbers("value"))
        send_rows, final_rows = _met(sends.numbers("value"), sent, finals.numbers("value"), read)
        if not len(send_rows):
            return ()
        same = sends.words("type")[send_rows] == "ok"
        same &= sends.words("topic")[send_rows] == finals.words("topic")[final_rows]
        for name in ("partition", "offset"):
            same &= sends.numbers(name)[send_rows] == finals.numbers(name)[final_rows]
        same &= _isnull(finals.words("problem")[final_rows])
        same &= self._is_alone()[final_rows]
        same &= ~np.isin(finals.numbers("value")[final_rows], self._disputed())
        chosen = final_rows[same]
        order = np.lexsort(
            (
                finals.numbers("offset")[chosen],
                finals.numbers("partition")[chosen],
                finals.words("topic")[chosen].astype(str),
            )
        )
        return tuple(self._record(int(send)) for send in send_rows[same][order])

    @property
    def some_plain(self) -> Record:
        """A plain record from the middle of the run.

        Raises:
            NothingToPlant: there is none.
        """
        if not self.plain:
            raise NothingToPlant("no record is plainly in order")
        return self.plain[len(self.plain) // 2]

    def _record(self, send: int) -> Record:
        sends = self.rows("send")
        txn = int(sends.numbers("txn")[send])
        return Record(
            topic=str(sends.words("topic")[send]),
            partition=int(sends.numbers("partition")[send]),
            offset=int(sends.numbers("offset")[send]),
            value=int(sends.numbers("value")[send]),
            process=int(sends.numbers("process")[send]),
            op=int(sends.numbers("op")[send]),
            txn=None if txn == NONE else txn,
        )

    def _is_alone(self) -> Flags:
        """Return which records of the final read are alone at their offset."""
        finals = self.rows("final")
        topics = np.unique(finals.words("topic").astype(str), return_inverse=True)[1]
        keys = np.stack([topics, finals.numbers("partition"), finals.numbers("offset")])
        _, inverse, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
        alone: Flags = counts[np.ravel(inverse)] == 1
        return alone

    def _disputed(self) -> Numbers:
        """Return the values that polls or findings contradict."""
        polls, finals = self.rows("poll"), self.rows("final")
        values = polls.numbers("value")
        by_value = np.argsort(finals.numbers("value"), kind="stable")
        known = finals.numbers("value")[by_value]
        at = np.minimum(np.searchsorted(known, values), max(0, len(known) - 1))
        disputed = ~_isnull(polls.words("problem"))
        if len(known):
            met = by_value[at]
            disputed |= known[at] != values
            disputed |= finals.words("topic")[met] != polls.words("topic")
            for name in ("partition", "offset"):
                disputed |= finals.numbers(name)[met] != polls.numbers(name)
        named = [row.value for row in self.found if row.value is not None]
        return np.concatenate([values[disputed], np.array(named, dtype=np.int64)])

    @cached_property
    def by_value(self) -> Mapping[int, Record]:
        """The plain records by their values."""
        return {record.value: record for record in self.plain}

    def has_any(self, anomalies: Iterable[str], tp: TopicPartition) -> bool:
        """Tell whether the unchanged run has any of these anomalies in a partition."""
        names = set(anomalies)
        return any(row.anomaly in names and (row.topic, row.partition) == tp for row in self.found)


def _isnull(texts: npt.NDArray[np.object_]) -> Flags:
    return np.array([text is None for text in texts], dtype=np.bool_)


def _once(values: Numbers) -> Numbers:
    """Return the rows whose value no other row has."""
    _, first, counts = np.unique(values, return_index=True, return_counts=True)
    rows: Numbers = first[counts == 1]
    return rows


def _met(
    left: Numbers, left_rows: Numbers, right: Numbers, right_rows: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the rows of both sides that hold the same value."""
    _, a, b = np.intersect1d(
        left[left_rows], right[right_rows], assume_unique=True, return_indices=True
    )
    return left_rows[a], right_rows[b]
