"""Reading op histories: many files in one job, each divided into splits, each row with its run."""

import stat
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from verifiers.ops.arrow import map_in_arrow
from verifiers.ops.lines import MOP_COLUMNS, OP_COLUMNS, Parser, Row, split_lines
from verifiers.ops.schema import (
    BEGIN,
    COUNT,
    KEYS,
    MOP,
    MOPS_SCHEMA,
    OP,
    OPEN,
    OPEN_MOP,
    OPS_SCHEMA,
    ORPHAN,
    PARSED_SCHEMA,
    PROBLEM,
    SPLIT,
)

SPLIT_BYTES = 8 << 20
"""A file is divided into pieces of so many bytes, each parsed by itself."""

_BATCH_ROWS = 32_768
_TOLD = ("row", "run", "split", "line", "op", "invoked", "type", "error", "kind", "value")
_SPLITS_SCHEMA = StructType(
    [
        StructField("run", IntegerType(), nullable=False),
        StructField("split", IntegerType(), nullable=False),
        StructField("path", StringType(), nullable=False),
        StructField("begin", LongType(), nullable=False),
        StructField("end", LongType(), nullable=False),
    ]
)
_ARROW: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "array<string>": pa.list_(pa.field("element", pa.string(), nullable=False)),
}
_PARSED: pa.Schema = pa.schema(
    [pa.field(field.name, _ARROW[field.dataType.simpleString()]) for field in PARSED_SCHEMA.fields]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a history cannot be judged.

    Attributes:
        line: the line, from 1; None if it is about the file as a whole.
        words: what is wrong with it.
    """

    line: int | None
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is known of one file once it is parsed.

    Attributes:
        path: the file.
        problems: why it cannot be judged, by line; at most 8 a split. None of its ops is in the
            frames then.
        problem_count: how many lines have one.
        lines: how many lines it has.
        counts: completed ops ("op") and their values ("send", "poll"), by type; what never
            completed is told apart.
        open: ops that never completed.
        pending: values that these may have sent.
    """

    path: Path
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    lines: int = 0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    open: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpHistories:
    """Some op histories, as frames.

    Attributes:
        ops: one row per op (OPS_SCHEMA).
        mops: one row per value sent or polled (MOPS_SCHEMA).
        described: what is known of each file; the position is `run` of the frames.
        kept: frames that occupy memory until they are unpersisted.
    """

    ops: DataFrame
    mops: DataFrame
    described: tuple[Described, ...]
    kept: tuple[DataFrame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    run: int
    number: int
    path: str
    begin: int
    end: int


def read_histories(spark: SparkSession, paths: Sequence[Path]) -> OpHistories:
    """Parse op histories in JSON lines, in one job, and return their frames.

    A file that cannot be read, or has a line that is no event, spoils no other: it is described,
    and none of its ops is in the frames.

    Args:
        spark: the session; its workers must see the files under the same paths.
        paths: the files; `run` is the position here.
    """
    unreadable = {run: words for run, path in enumerate(paths) if (words := _unreadable(path))}
    splits = [
        split
        for run, path in enumerate(paths)
        if run not in unreadable
        for split in _splits(run, path)
    ]
    table = spark.createDataFrame(_dealt(splits, spark), _SPLITS_SCHEMA)
    parsed = map_in_arrow(table, _parse, PARSED_SCHEMA).persist()
    divided = any(split.number for split in splits)
    told = parsed.where(F.col("row").isin(PROBLEM, KEYS, COUNT, SPLIT))
    stitched = _stitched(parsed) if divided else None
    if stitched is not None:
        told = told.unionByName(_stitching_problems(stitched))
    rows = (
        told.select(*_TOLD)
        .unionByName(_how_many(_never(parsed, stitched), "open"))
        .unionByName(_how_many(_pending(parsed, stitched), "pending"))
        .collect()
    )
    by_run: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        by_run[row["run"]].append(row)
    described = tuple(
        Described(path=path, problems=(Problem(line=None, words=unreadable[run]),), problem_count=1)
        if run in unreadable
        else _describe(path, by_run[run])
        for run, path in enumerate(paths)
    )
    bad = [run for run, one in enumerate(described) if one.problems]
    good = parsed.where(~F.col("run").isin(bad)) if bad else parsed
    if stitched is not None and bad:
        stitched = stitched.where(~F.col("run").isin(bad))
    return OpHistories(
        ops=_ops(good, stitched),
        mops=_mops(good, stitched),
        described=described,
        kept=(parsed,),
    )


def _unreadable(path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return "is a folder, and neither the folder of a run nor an op history"
        with path.open("rb"):
            return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _splits(run: int, path: Path) -> list[_Split]:
    size = path.stat().st_size
    begins = range(0, max(size, 1), SPLIT_BYTES)
    return [
        _Split(
            run=run, number=n, path=str(path.absolute()), begin=b, end=min(b + SPLIT_BYTES, size)
        )
        for n, b in enumerate(begins)
    ]


def _dealt(splits: Sequence[_Split], spark: SparkSession) -> list[tuple[Any, ...]]:
    # A table of rows is cut into as many equal stretches as there are cores: deal the largest
    # splits out first, one to each.
    cores = spark.sparkContext.defaultParallelism
    largest = sorted(splits, key=lambda split: split.begin - split.end)
    dealt = [split for core in range(cores) for split in largest[core::cores]]
    return [(one.run, one.number, one.path, one.begin, one.end) for one in dealt]


# -- in the workers ------------------------------------------------------------------------------


def _parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for split in batch.to_pylist():
            yield from _parse_split(split)


def _parse_split(split: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    parser = Parser(first=split["split"] == 0)
    for lines in split_lines(_bytes_of(split)):
        parser.feed(lines)
        if len(parser.ops) + len(parser.mops) >= _BATCH_ROWS:
            yield from _batches(parser, split)
    parser.finish()
    yield from _batches(parser, split)


def _bytes_of(split: Mapping[str, Any]) -> bytes:
    """Return the lines that begin in a split."""
    begin, end = split["begin"], split["end"]
    with Path(split["path"]).open("rb") as file:
        if begin:
            file.seek(begin - 1)
            begin += len(file.readline()) - 1
        if begin >= end:
            return b""
        return file.read(end - begin) + (b"" if _ends_a_line(file) else file.readline())


def _ends_a_line(file: Any) -> bool:  # noqa: ANN401  (any binary file)
    file.seek(-1, 1)
    last: bytes = file.read(1)
    return last == b"\n"


def _batches(parser: Parser, split: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    for columns, rows in ((OP_COLUMNS, parser.ops), (MOP_COLUMNS, parser.mops)):
        if rows:
            yield _batch(columns, rows, split)
            rows.clear()


def _batch(columns: Sequence[str], rows: Sequence[Row], split: Mapping[str, Any]) -> pa.RecordBatch:
    given: dict[str, Any] = dict(zip(columns, zip(*rows, strict=True), strict=True))
    many = len(rows)
    arrays = []
    for column in _PARSED:
        if column.name in ("run", "split"):
            arrays.append(pa.repeat(pa.scalar(split[column.name], column.type), many))
        elif column.name in given:
            arrays.append(pa.array(given[column.name], column.type))
        else:
            arrays.append(pa.nulls(many, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_PARSED)


# -- ops across the borders of splits ------------------------------------------------------------


def _stitched(parsed: DataFrame) -> DataFrame:
    """Return what splits could not pair, each row with its process' neighbours in other splits."""
    order = Window.partitionBy("run", "process").orderBy("op", "row")
    loose = parsed.where(F.col("row").isin(BEGIN, ORPHAN, OPEN))
    return loose.select(
        "*",
        *(F.lag(c).over(order).alias(f"prev_{c}") for c in ("row", "op", "f", "invoke_ns")),
        F.lead("row").over(order).alias("next_row"),
    )


def _stitching_problems(stitched: DataFrame) -> DataFrame:
    process, before = F.col("process"), F.col("prev_row") == OPEN
    overtaken = F.format_string(
        "invokes an op of process %d, whose op of index %d is not completed: "
        "a process has one op in flight",
        process,
        F.col("prev_op"),
    )
    alone = F.format_string(
        "completes an op of process %d that was not invoked, or is completed already", process
    )
    other = F.format_string(
        "completes a %s of process %d, which invoked a %s at index %d",
        F.col("f"),
        process,
        F.col("prev_f"),
        F.col("prev_op"),
    )
    orphan = F.col("row") == ORPHAN
    words = (
        F.when((F.col("row") == BEGIN) & before, overtaken)
        .when(orphan & ~F.coalesce(before, F.lit(False)), alone)
        .when(orphan & (F.col("f") != F.col("prev_f")), other)
    )
    columns = [F.col(name) for name in PARSED_SCHEMA.names if name not in ("row", "error", "value")]
    return stitched.where(words.isNotNull()).select(
        *columns,
        F.lit(PROBLEM).cast("tinyint").alias("row"),
        words.alias("error"),
        F.lit(1).cast("long").alias("value"),
    )


def _never(parsed: DataFrame, stitched: DataFrame | None) -> DataFrame:
    """Return the ops that never completed."""
    if stitched is None:
        return parsed.where(F.col("row") == OPEN)
    return stitched.where((F.col("row") == OPEN) & F.col("next_row").isNull())


def _pending(parsed: DataFrame, stitched: DataFrame | None) -> DataFrame:
    """Return the values that such ops may have sent."""
    pending = parsed.where(F.col("row") == OPEN_MOP)
    if stitched is None:
        return pending
    never = _never(parsed, stitched).select("run", "op")
    return pending.join(never, ["run", "op"], "left_semi")


def _how_many(rows: DataFrame, kind: str) -> DataFrame:
    counted = rows.groupBy("run").agg(F.count("*").alias("value"))
    given = {
        "row": F.lit(COUNT).cast("tinyint"),
        "run": F.col("run"),
        "type": F.lit("info"),
        "kind": F.lit(kind),
        "value": F.col("value"),
    }
    none = F.lit(None)
    return counted.select(
        *(given.get(c, none.cast(PARSED_SCHEMA[c].dataType)).alias(c) for c in _TOLD)
    )


def _ops(parsed: DataFrame, stitched: DataFrame | None) -> DataFrame:
    ops = parsed.where(F.col("row") == OP).select(*OPS_SCHEMA.names)
    ops = ops.unionByName(_never(parsed, stitched).select(*OPS_SCHEMA.names))
    if stitched is None:
        return ops
    mended: dict[str, Column] = {
        "invoked": F.col("prev_op"),
        "invoke_ns": F.col("prev_invoke_ns"),
    }
    orphans = stitched.where(F.col("row") == ORPHAN)
    return ops.unionByName(
        orphans.select(*(mended.get(c, F.col(c)).alias(c) for c in OPS_SCHEMA.names))
    )


def _mops(parsed: DataFrame, stitched: DataFrame | None) -> DataFrame:
    if stitched is None:
        return parsed.where(F.col("row").isin(MOP, OPEN_MOP)).select(*MOPS_SCHEMA.names)
    mops = parsed.where(F.col("row") == MOP).select(*MOPS_SCHEMA.names)
    before = stitched.where(F.col("row") == ORPHAN).select(
        "run", "op", F.col("prev_op").alias("invoked")
    )
    mended = mops.where(F.col("invoked").isNull()).drop("invoked").join(before, ["run", "op"])
    return (
        mops.where(F.col("invoked").isNotNull())
        .unionByName(mended)
        .unionByName(_pending(parsed, stitched).select(*MOPS_SCHEMA.names))
    )


# -- what is known of each file ------------------------------------------------------------------


def _describe(path: Path, rows: Sequence[Any]) -> Described:
    splits = sorted((row for row in rows if row["row"] == SPLIT), key=lambda row: int(row["split"]))
    before: dict[int, int] = {}
    lines = 0
    for split in splits:
        before[split["split"]] = lines
        lines += split["line"]

    def line_of(row: Any) -> int:  # noqa: ANN401  (a Row)
        return int(before[row["split"]] + row["line"] + 1)

    problems = [
        Problem(line=line_of(row), words=row["error"])
        for row in rows
        if row["row"] == PROBLEM and row["error"]
    ]
    most: Counter[int] = Counter()
    for row in rows:
        if row["row"] == PROBLEM:
            most[row["split"]] = max(most[row["split"]], row["value"])
    problems += _disordered(splits, before)
    problems += _mixed_keys([(line_of(row), row["kind"]) for row in rows if row["row"] == KEYS])
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["row"] == COUNT:
            counts[row["kind"], row["type"]] += row["value"]
    return Described(
        path=path,
        problems=tuple(sorted(problems, key=lambda problem: problem.line or 0)),
        problem_count=max(sum(most.values()), len(problems)),
        lines=lines,
        open=counts.pop(("open", "info"), 0),
        pending=counts.pop(("pending", "info"), 0),
        counts=counts,
    )


def _disordered(splits: Sequence[Any], before: Mapping[int, int]) -> list[Problem]:
    problems = []
    last = -1
    for split in splits:
        if split["op"] is None:
            continue
        if split["op"] <= last:
            words = f"has index {split['op']} after {last}: indices must rise line by line"
            problems.append(Problem(line=before[split["split"]] + 1, words=words))
        last = split["invoked"]
    return problems


def _mixed_keys(seen: Sequence[tuple[int, str]]) -> list[Problem]:
    first = {kind: min(line for line, k in seen if k == kind) for kind in {k for _, k in seen}}
    if len(first) < 2:
        return []
    words = {"int": "whole numbers", "str": "strings"}
    kind = max(first, key=lambda kind: first[kind])
    (other,) = set(first) - {kind}
    return [
        Problem(
            line=first[kind],
            words=f"has keys that are {words[kind]}, and line {first[other]} has keys that are "
            f"{words[other]}: keys of one history are of one type",
        )
    ]
