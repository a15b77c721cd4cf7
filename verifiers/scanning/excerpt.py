"""An excerpt of a history: the rows of some blocks of offsets, or of some values.

Each dataset takes one scan (scan.py); the workers receive what is wanted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType

from verifiers.frames.history import History
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.scanning.block_digests import BLOCK_BITS
from verifiers.scanning.scan import Flags, Numbers, codes, numbers, scan
from verifiers.spark.arrow import BatchFunction
from verifiers.spark.columns import TEXT, struct
from verifiers.spark.plans import union

_BLOCK_SHIFT = 40
"""A block of a partition is one number: there are fewer than 2^40 blocks of 64 offsets."""

_PLACED = ("topic", "partition", "offset", "value")
_PACKED = struct(topic=TEXT, packed=BinaryType())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows an excerpt holds, by topic: those to which any of these applies.

    All are sorted: `blocks` of 64 offsets (see `block_numbers`), `stretches` of 64 values, values.
    """

    blocks: Mapping[str, Numbers] = field(default_factory=dict)
    stretches: Mapping[str, Numbers] = field(default_factory=dict)
    values: Mapping[str, Numbers] = field(default_factory=dict)


def block_numbers(partition: Numbers, block: Numbers) -> Numbers:
    """Return a number for each block of each partition of a topic."""
    return (partition << _BLOCK_SHIFT) | block


def by_topic(frame: DataFrame, *columns: str) -> dict[str, list[Numbers]]:
    """Return columns of whole numbers, by topic, of a frame that has few rows."""
    table = frame.select("topic", *columns).toArrow()
    return {
        topic: [
            rows.column(name).to_numpy().astype(np.int64, copy=False) for name in columns
        ]
        for topic in pc.unique(table.column("topic")).to_pylist()
        for rows in (table.filter(pc.equal(table.column("topic"), topic)),)
    }  # fmt: skip


def values_of(history: History, wanted: Wanted) -> dict[str, Numbers]:
    """Return the values of the wanted rows, sorted, by topic."""
    found = union(
        [
            scan(history, dataset, _PLACED, _packed_values(wanted), _PACKED)
            for dataset in ("send", "poll", "final")
        ]
    ).toArrow()
    by_topic: dict[str, list[Numbers]] = {}
    for topic, packed in zip(found["topic"].to_pylist(), found["packed"], strict=True):
        by_topic.setdefault(topic, []).append(np.frombuffer(packed.as_buffer(), np.int64))
    return {topic: np.unique(np.concatenate(parts)) for topic, parts in by_topic.items()}


def _packed_values(wanted: Wanted) -> BatchFunction:
    """Return one row for each topic of a task: as rows, millions of values take far longer."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_topic: dict[str, list[Numbers]] = {}
        for batch in _rows(wanted)(batches):
            topic, names = codes(batch, "topic")
            value, valued = numbers(batch, "value")
            for number, name in enumerate(names.to_pylist()):
                by_topic.setdefault(name, []).append(value[valued & (topic == number)])
        packed = [np.unique(np.concatenate(parts)).tobytes() for parts in by_topic.values()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(by_topic), pa.string()), pa.array(packed, pa.binary())],
            names=_PACKED.names,
        )

    return pack


def excerpt(history: History, wanted: Wanted) -> History:
    """Return a history that holds only the wanted sends, polls and final reads."""

    def of(dataset: str) -> DataFrame:
        columns = {field.name: field.dataType for field in HISTORY_SCHEMAS[dataset].fields}
        return scan(history, dataset, list(columns), _rows(wanted), struct(**columns))

    return replace(history, sends=of("send"), polls=of("poll"), final=of("final"), files={})


def _rows(wanted: Wanted) -> BatchFunction:
    def pick(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = _wanted_of(batch, wanted)
            if rows.any():
                yield batch.filter(pa.array(rows))

    return pick


def _wanted_of(batch: pa.RecordBatch, wanted: Wanted) -> Flags:
    topic, names = codes(batch, "topic")
    value, valued = numbers(batch, "value")
    partition, in_one = numbers(batch, "partition")
    offset, at_one = numbers(batch, "offset")
    placed = in_one & at_one
    chosen = np.zeros(batch.num_rows, dtype=np.bool_)
    for number, name in enumerate(names.to_pylist()):
        if not any(name in asked for asked in (wanted.blocks, wanted.stretches, wanted.values)):
            continue
        rows = np.flatnonzero(topic == number)
        of, here = value[rows], np.zeros(len(rows), dtype=np.bool_)
        if name in wanted.blocks:
            block = block_numbers(partition[rows], offset[rows] >> BLOCK_BITS)
            here |= placed[rows] & _is_in(block, wanted.blocks[name])
        if name in wanted.stretches:
            here |= valued[rows] & _is_in(of >> BLOCK_BITS, wanted.stretches[name])
        if name in wanted.values:
            here |= valued[rows] & _is_in(of, wanted.values[name])
        chosen[rows[here]] = True
    return chosen


def _is_in(numbers_asked: Numbers, known: Numbers) -> Flags:
    """Return which numbers occur among `known`, which are sorted."""
    if not len(known):
        return np.zeros(len(numbers_asked), dtype=np.bool_)
    at = np.minimum(np.searchsorted(known, numbers_asked), len(known) - 1)
    found: Flags = known[at] == numbers_asked
    return found
