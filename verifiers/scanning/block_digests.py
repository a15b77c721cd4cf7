"""Digests of blocks: what each witness names of 64 consecutive offsets, and of 64 values.

One pass of numpy over the files computes what an aggregation by Spark would, and one row per 64
records reaches Spark, which merges those of a block that is divided between batches of files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from verifiers.frames.history import FOREIGN_PROBLEMS, History
from verifiers.scanning.scan import (
    Numbers,
    codes,
    grouped,
    is_one_of,
    numbers,
    scan,
    starts_of,
)
from verifiers.spark.arrow import BatchFunction
from verifiers.spark.columns import INT, LONG, TEXT, struct

BLOCK_BITS = 6
"""A block has 2 to the power of this many offsets or values: as many as a long has bits."""

PRODUCERS, FINAL_READ = -1, -2
"""The witnesses that are no consumers: all producers together, and the final read."""

Hashes = npt.NDArray[np.uint64]

BLOCK_SCHEMA = struct(
    topic=TEXT,
    partition=INT,
    block=LONG,
    witness=INT,
    bits=LONG,
    records=LONG,
    legible=LONG,
    digest=LONG,
)
"""What a witness names of the offsets from `block << 6`: which offsets, in how many records, how
many of these have a value of this run, and the exclusive or of their hashes."""

STRETCH_SCHEMA = struct(topic=TEXT, stretch=LONG, sends=LONG, values=LONG, placeless=LONG)
"""Which of the values from `stretch << 6` were sent, in how many sends, and how many of these were
acknowledged without an offset."""

_Fold = tuple[np.ufunc, Callable[[str], Column]]
"""How rows of one key are merged, by numpy and by Spark."""

_UNION: _Fold = (np.bitwise_or, F.bit_or)
_SUM: _Fold = (np.add, F.sum)
_BLOCK_FOLDS: Mapping[str, _Fold] = {
    "bits": _UNION, "records": _SUM, "legible": _SUM, "digest": (np.bitwise_xor, F.bit_xor),
}  # fmt: skip
_STRETCH_FOLDS: Mapping[str, _Fold] = {"sends": _SUM, "values": _UNION, "placeless": _SUM}
_MOST_ROWS = 1_000_000
"""A worker merges its rows whenever it has so many."""
_SEEN = ["topic", "partition", "offset", "value"]
_ONE = np.uint64(1)
_LAST = np.uint64((1 << BLOCK_BITS) - 1)


def blocks(history: History) -> DataFrame:
    """Return the digests of all acknowledgements, polls and final reads (BLOCK_SCHEMA)."""

    def of(dataset: str, *columns: str, witness: int | None) -> DataFrame:
        kernel = _merging(partial(_blocks_of, witness=witness), BLOCK_SCHEMA, _BLOCK_FOLDS)
        return scan(history, dataset, [*_SEEN, *columns], kernel, BLOCK_SCHEMA)

    sent = of("send", "type", witness=PRODUCERS)
    polled = of("poll", "problem", "process", witness=None)
    final = of("final", "problem", witness=FINAL_READ)
    # The repartition serves what brings all witnesses of a block together, too.
    parts = sent.unionByName(polled).unionByName(final).repartition("topic", "partition", "block")
    return _merged_by_spark(parts, _BLOCK_FOLDS)


def stretches(history: History) -> DataFrame:
    """Return the digests of the values of all sends (STRETCH_SCHEMA)."""
    kernel = _merging(_stretches_of, STRETCH_SCHEMA, _STRETCH_FOLDS)
    parts = scan(history, "send", [*_SEEN, "type"], kernel, STRETCH_SCHEMA)
    return _merged_by_spark(parts.repartition("topic", "stretch"), _STRETCH_FOLDS)


def _merged_by_spark(parts: DataFrame, folds: Mapping[str, _Fold]) -> DataFrame:
    keys = [name for name in parts.columns if name not in folds]
    merged = [merge(name).alias(name) for name, (_, merge) in folds.items()]
    return parts.groupBy(*keys).agg(*merged)


def _blocks_of(batch: pa.RecordBatch, *, witness: int | None) -> Iterator[pa.RecordBatch]:
    """Yield what a witness names in a batch; who it is stands in the rows if None is given."""
    partition, in_one = numbers(batch, "partition")
    offset, at_one = numbers(batch, "offset")
    value, legible = numbers(batch, "value")
    kept = in_one & at_one
    if witness == PRODUCERS:
        kept &= is_one_of(batch, "type", ("ok",))
    else:
        legible &= ~is_one_of(batch, "problem", FOREIGN_PROBLEMS)
    topic, texts = codes(batch, "topic")
    who = None if witness is not None else numbers(batch, "process")[0]
    rows = np.flatnonzero(kept)
    if not len(rows):
        return
    rows = rows[grouped([column[rows] for column in (topic, who, partition) if column is not None])]
    lane = [column[rows] for column in (topic, who, partition) if column is not None]
    offset, value, legible = offset[rows], value[rows], legible[rows]
    block = offset >> BLOCK_BITS
    starts = starts_of([*lane, block])
    bits = _ONE << (offset.view(np.uint64) & _LAST)
    hashes = np.where(legible, _hashes(offset, value), np.uint64(0))
    firsts = rows[starts]
    yield _batch(
        BLOCK_SCHEMA,
        {
            "topic": texts.take(pa.array(topic[firsts])),
            "partition": partition[firsts],
            "block": block[starts],
            "witness": who[firsts] if who is not None else np.full(len(firsts), witness),
            "bits": np.bitwise_or.reduceat(bits, starts).view(np.int64),
            "records": np.diff(starts, append=len(rows)),
            "legible": np.add.reduceat(legible.astype(np.int64), starts),
            "digest": np.bitwise_xor.reduceat(hashes, starts).view(np.int64),
        },
    )


def _stretches_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    topic, texts = codes(batch, "topic")
    values = numbers(batch, "value")[0]
    placed = numbers(batch, "partition")[1] & numbers(batch, "offset")[1]
    placeless = is_one_of(batch, "type", ("ok",)) & ~placed
    for number, name in enumerate(texts.to_pylist()):
        of_topic = topic == number
        value, nowhere = values[of_topic], placeless[of_topic]
        if not len(value):
            continue
        if bool((value[1:] < value[:-1]).any()):
            order = np.argsort(value)
            value, nowhere = value[order], nowhere[order]
        stretch = value >> BLOCK_BITS
        starts = starts_of([stretch])
        bits = _ONE << (value.view(np.uint64) & _LAST)
        yield _batch(
            STRETCH_SCHEMA,
            {
                "topic": pa.repeat(name, len(starts)),
                "stretch": stretch[starts],
                "sends": np.diff(starts, append=len(value)),
                "values": np.bitwise_or.reduceat(bits, starts).view(np.int64),
                "placeless": np.add.reduceat(nowhere.astype(np.int64), starts),
            },
        )


def _merging(
    rows_of: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]],
    schema: StructType,
    folds: Mapping[str, _Fold],
) -> BatchFunction:
    """Return a function that merges, by their keys, the rows that one worker has of all batches."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pending: list[pa.RecordBatch] = []
        rows = 0
        for part in chain.from_iterable(map(rows_of, batches)):
            pending.append(part)
            rows += part.num_rows
            if rows >= _MOST_ROWS:
                yield _folded(pending, schema, folds)
                pending, rows = [], 0
        if rows:
            yield _folded(pending, schema, folds)

    return merge


def _folded(
    batches: Sequence[pa.RecordBatch], schema: StructType, folds: Mapping[str, _Fold]
) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    topic, texts = codes(batch, "topic")
    keys = [name for name in schema.names if name not in folds and name != "topic"]
    key = [topic, *(numbers(batch, name)[0] for name in keys)]
    order = np.lexsort(key[::-1])
    key = [column[order] for column in key]
    starts = starts_of(key)
    columns = {name: column[starts] for name, column in zip(["topic", *keys], key, strict=True)}
    for name, (fold, _) in folds.items():
        columns[name] = fold.reduceat(numbers(batch, name)[0][order], starts)
    columns["topic"] = texts.take(pa.array(columns["topic"]))
    return _batch(schema, columns)


def _batch(schema: StructType, columns: Mapping[str, pa.Array | Numbers]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns, schema=to_arrow_schema(schema))


def _hashes(offset: Numbers, value: Numbers) -> Hashes:
    """Return a 64-bit hash of each pair: twice the last step of MurmurHash3."""
    return _mixed(_mixed(offset.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
                  + value.view(np.uint64))  # fmt: skip


def _mixed(bits: Hashes) -> Hashes:
    bits = bits ^ (bits >> np.uint64(33))
    bits *= np.uint64(0xFF51AFD7ED558CCD)
    bits ^= bits >> np.uint64(33)
    bits *= np.uint64(0xC4CEB9FE1A85EC53)
    bits ^= bits >> np.uint64(33)
    return bits
