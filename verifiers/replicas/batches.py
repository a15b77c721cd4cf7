"""The batches of all replicas in one frame, and a summary of each replica."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import attrgetter, itemgetter, xor
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from harness.core.grouping import by_key
from verifiers.replicas.copied import Copied, Replica
from verifiers.replicas.segments import HEADERS, read_headers
from verifiers.run_folder.folder import TopicPartition
from verifiers.run_folder.member import name_in
from verifiers.spark import storage
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, LONG, TEXT, declared

_KEY = declared(broker=INT, topic=TEXT, partition=INT, segment=TEXT)
BATCH_SCHEMA = StructType([*_KEY.fields, *from_arrow_schema(HEADERS).fields])
"""One row per batch of a replica; `segment` is the file's path within the run's folder,
`position` a byte in it.

`leader_epoch` is null before format v2; `intact` says whether the checksum fits, `jump` how many
offsets lie between the batch before it in the file and itself. A row with a `problem` is a stretch
of bytes, `size` long, that is no batch: nothing else is known of it.
"""

_BOUND_SCHEMA = declared(topic=TEXT, partition=INT, bound=LONG)

_File = tuple[int, tuple[int, str, int, str], str]
"""The size of a segment in bytes, its columns of _KEY, and the name by which it is opened."""

_FEW_BYTES = 64 * 1024**2
"""The driver reads so much itself: starting a worker would take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Neighbouring batches of one leader epoch in one replica: offsets `first` to `last`.

    The epoch is None before format v2.
    """

    epoch: int | None
    first: int
    last: int
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes at the end of a segment that are no batch, from `position` (bytes) on.

    `offset` is that of the record which should lie there; segment and problem are as in a row of
    BATCH_SCHEMA.
    """

    segment: str
    position: int
    size_bytes: int
    offset: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of one replica's batches.

    Attributes:
        replica: which.
        bound: the high watermark of its partition at rest, up to which replicas are compared.
        runs: by epoch, in the order of their first offsets.
        size_bytes: of all batches.
        compared: how many batches lie below the bound.
        digest: of these; equal for equal batches.
        damaged: how many of these have a checksum that does not fit.
        transactional: how many belong to transactions, markers included.
        broken: whether offsets are missing between its batches, or overlap.
        garbage: stretches of bytes that are no batch, by segment.
        end: the log end offset.
    """

    replica: Replica
    bound: int
    runs: tuple[Run, ...]
    size_bytes: int
    compared: int
    digest: int
    damaged: int
    transactional: int
    broken: bool
    garbage: tuple[Stretch, ...]
    end: int

    @property
    def problem(self) -> str | None:
        """What follows the last batch: truncated at byte 70 of 0.log, 9 bytes before its end."""
        if not self.garbage:
            return None
        stretch = self.garbage[0]
        return (
            f"{stretch.problem} at byte {stretch.position:,} of {Path(stretch.segment).name}, "
            f"{stretch.size_bytes:,} bytes before its end"
        )

    @property
    def batches(self) -> int:
        """How many there are."""
        return sum(run.batches for run in self.runs)

    @property
    def start(self) -> int:
        """The first offset that counts."""
        return max(self.replica.log_start, self.replica.first_segment)

    @property
    def disordered(self) -> bool:
        """Whether epochs decrease or differ from the checkpoint."""
        runs = [(run.epoch, run) for run in self.runs if run.epoch is not None]
        rising = all(
            epoch <= next_epoch and run.last < next_run.first
            for (epoch, run), (next_epoch, next_run) in pairwise(runs)
        )
        return not rising or not all(self._agrees(run) for _, run in runs)

    def _agrees(self, run: Run) -> bool:
        """Tell whether a run lies in its epoch's offsets, as far as it is above the log start."""
        if run.last < self.start or run.epoch == -1 or not self.replica.epochs:
            return True
        return any(
            epoch == run.epoch and since <= max(run.first, self.start) and run.last < until
            for epoch, since, until in self.replica.epoch_offsets
        )


def batches_of(
    spark: SparkSession, replicas: Iterable[Replica], homes: Mapping[str, str], target: str
) -> DataFrame:
    """Return the batch headers of replicas (BATCH_SCHEMA).

    They are stored as Parquet in the folder of the name `target`; what that held is replaced.
    """
    storage.remove(target)
    files = [
        (size_bytes, (*replica.key, str(segment)), name_in(homes, str(segment)))
        for replica in replicas
        for segment, size_bytes in zip(replica.segments, replica.sizes_bytes, strict=True)
        if size_bytes
    ]
    if not files:
        return frame_of(spark, [], BATCH_SCHEMA)
    storage.make_folder(target)
    if sum(size_bytes for size_bytes, _, _ in files) <= _FEW_BYTES:
        drafts = _index(target, files, 0)
    else:
        # Each task writes its own file: returning rows one by one would cost more.
        tasks = min(len(files), 4 * spark.sparkContext.defaultParallelism)
        shares = spark.sparkContext.parallelize(files, tasks)
        indexed = shares.mapPartitionsWithIndex(lambda task, share: _index(target, share, task))
        drafts = indexed.collect()
    parts = [storage.join(target, f"part-{number}.parquet") for number in range(len(drafts))]
    for draft, part in zip(drafts, parts, strict=True):
        storage.move_file(draft, part)
    return spark.read.schema(BATCH_SCHEMA).parquet(*map(storage.spark_name, parts))


def _index(target: str, files: Iterable[_File], number: int) -> list[str]:
    """Write the batches of some segments to a Parquet file of their own; return its name.

    Another attempt of the same task may be writing too: only the driver knows which of them counts,
    and gives that file its place.
    """
    schema = to_arrow_schema(BATCH_SCHEMA)
    draft = storage.unused(target, f".part-{number}", ".draft")
    with storage.parquet_writer(draft, schema, compression="zstd") as writer:
        for _, key, name in files:
            with storage.at_hand(name) as segment:
                for rows in read_headers(segment):
                    keys = [
                        pa.repeat(pa.scalar(value, field.type), rows.num_rows)
                        for value, field in zip(key, schema, strict=False)
                    ]
                    columns = [*keys, *rows.columns]
                    writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return [draft]


def known_bounds(copied: Copied, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the high watermark of each partition after the run.

    That is where the final read ended (`ends`), which consumers cannot pass. Where there was none,
    the highest that a replica in the ISR has checkpointed, or any replica if nobody knows the ISR.
    """
    bounds = {}
    for tp, replicas in copied.by_partition().items():
        in_sync = [replica for replica in replicas if replica.in_sync] or replicas
        bounds[tp] = ends.get(tp, max(replica.high_watermark or 0 for replica in in_sync))
    return bounds


def summarise(
    batches: DataFrame, copied: Copied, bounds: Mapping[TopicPartition, int]
) -> tuple[Summary, ...]:
    """Return a summary of each replica's batches; runs one job."""
    rows = [(*tp, bound) for tp, bound in bounds.items()]
    bounded = batches.join(
        F.broadcast(frame_of(batches.sparkSession, rows, _BOUND_SCHEMA)),
        ["topic", "partition"],
        "left",
    )
    below = F.col("base_offset") < F.col("bound")
    names = ("base_offset", "last_offset", "crc", "leader_epoch")
    found = (
        bounded.groupBy("broker", "topic", "partition", "segment", "leader_epoch", "problem")
        .agg(
            F.count("*").alias("batches"),
            F.sum("size").alias("size"),
            F.min("position").alias("position"),
            F.max("position").alias("last_position"),
            F.min("base_offset").alias("first"),
            F.max("last_offset").alias("last"),
            F.min_by("base_offset", "position").alias("head"),
            F.max_by("last_offset", "position").alias("tail"),
            F.count_if(F.col("jump") != 0).alias("jumps"),
            F.count_if("is_transactional").alias("transactional"),
            F.count_if(below).alias("compared"),
            F.count_if(below & ~F.col("intact")).alias("damaged"),
            F.bit_xor(F.when(below, F.xxhash64(*names))).alias("digest"),
        )
        .collect()
    )
    by_replica = by_key(found, itemgetter("broker", "topic", "partition"))
    return tuple(
        _summary(replica, bounds[replica.topic_partition], by_replica.get(replica.key, []))
        for replica in copied.replicas
    )


def _summary(replica: Replica, bound: int, rows: list[Any]) -> Summary:
    whole = [row for row in rows if row["problem"] is None]
    runs = _runs(whole)
    return Summary(
        replica=replica,
        bound=bound,
        runs=runs,
        size_bytes=sum(row["size"] for row in whole),
        compared=sum(row["compared"] for row in whole),
        digest=reduce(xor, (row["digest"] or 0 for row in whole), 0),
        damaged=sum(row["damaged"] for row in whole),
        transactional=sum(row["transactional"] for row in whole),
        broken=any(row["jumps"] for row in whole) or _is_broken_between(whole),
        garbage=_stretches(rows, whole, replica),
        end=max([replica.last_segment, *(run.last + 1 for run in runs)]),
    )


def _runs(rows: list[Any]) -> tuple[Run, ...]:
    runs = [
        Run(
            epoch=epoch,
            first=min(row["first"] for row in rows_of_epoch),
            last=max(row["last"] for row in rows_of_epoch),
            batches=sum(row["batches"] for row in rows_of_epoch),
        )
        for epoch, rows_of_epoch in by_key(rows, itemgetter("leader_epoch")).items()
    ]
    return tuple(sorted(runs, key=lambda run: run.first))


def _is_broken_between(rows: list[Any]) -> bool:
    """Tell whether a segment does not begin where the one before it ends."""
    spans = [
        (
            min(groups, key=itemgetter("position"))["head"],
            max(groups, key=itemgetter("last_position"))["tail"],
        )
        for _, groups in sorted(by_key(rows, itemgetter("segment")).items())
    ]
    return any(head != tail + 1 for (_, tail), (head, _) in pairwise(spans))


def _stretches(rows: list[Any], whole: list[Any], replica: Replica) -> tuple[Stretch, ...]:
    """Return the bytes that are no batch, with the offsets that should lie there."""
    stretches = []
    for row in rows:
        if row["problem"] is None:
            continue
        name = Path(row["segment"]).stem
        named = int(name) if name.isdigit() else replica.first_segment
        before = [other["last"] + 1 for other in whole if other["segment"] == row["segment"]]
        stretches.append(
            Stretch(
                segment=row["segment"],
                position=row["position"],
                size_bytes=row["size"],
                offset=max(before, default=named),
                problem=row["problem"],
            )
        )
    return tuple(sorted(stretches, key=attrgetter("segment")))
