"""Reading op histories: one job parses many files, each divided into splits."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from harness.core.errors import EnvironmentBroken
from harness.core.grouping import by_key
from verifiers.ops import pairing, schema
from verifiers.ops.description import Described, Problem, describe
from verifiers.ops.kept import Kept
from verifiers.ops.lags import realtime_lags, watched_lags
from verifiers.ops.splits import SPLITS_SCHEMA, dealt, parse, splits_of
from verifiers.spark import storage
from verifiers.spark.arrow import frame_of, map_in_arrow
from verifiers.spark.errors import first_line
from verifiers.spark.hadoop import reject_unknown
from verifiers.spark.session import is_local

_OF_TASKS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpHistories:
    """Some op histories, as frames.

    Attributes:
        ops: one row per op (OPS_SCHEMA).
        mops: one row per value sent or polled (MOPS_SCHEMA).
        lags: how far behind each process was at the worst, by key (lags.py).
        described: what is known of each file; the position is `run` of the frames.
        divided: the runs that can be judged and whose files were divided between workers.
        kept: the frames that occupy memory, and the folder that they are read from.
    """

    ops: DataFrame
    mops: DataFrame
    lags: DataFrame
    described: tuple[Described, ...]
    divided: Sequence[int]
    kept: Kept

    def close(self) -> None:
        """Free memory and disk; the frames cannot be used afterwards."""
        self.kept.close()


def read_histories(spark: SparkSession, paths: Sequence[Path | str]) -> OpHistories:
    """Parse op histories in JSON lines in one job, and return their frames.

    A file that cannot be read, or has a line that is no event, spoils no other: it is described,
    and none of its ops is in the frames.

    Args:
        spark: the session; its workers must see the files under the same names.
        paths: the files, paths or URIs; `run` is the position here.
    """
    names = [storage.name_of(path) for path in paths]
    unreadable = {
        run: words for run, name in enumerate(names) if (words := _unreadable(spark, name))
    }
    readable = {run: name for run, name in enumerate(names) if run not in unreadable}
    with Kept() as kept:
        scratch = _scratch(spark, [*readable.values()])
        kept.callback(storage.remove, scratch)
        splits = [
            split
            for run, name in readable.items()
            for split in splits_of(run, _for_tasks(name, scratch, run))
        ]
        table = spark.createDataFrame(
            dealt(splits, spark.sparkContext.defaultParallelism), SPLITS_SCHEMA
        )
        parsed = kept.keep(map_in_arrow(table, partial(parse, scratch), schema.PARSED_SCHEMA))
        paired = pairing.paired_events(parsed) if any(split.number for split in splits) else None
        by_run = _told(parsed, paired)
        described = tuple(
            Described(
                path=PurePath(path),
                problems=(Problem(line=None, words=unreadable[run]),),
                problem_count=1,
            )
            if run in unreadable
            else describe(PurePath(path), by_run.get(run, []))
            for run, path in enumerate(paths)
        )
        bad = [run for run, history in enumerate(described) if history.problems]

        def good(frame: DataFrame) -> DataFrame:
            return frame.where(~F.col("run").isin(bad)) if bad else frame

        written = by_run.get(_OF_TASKS, [])
        ops = good(_written(spark, written, "ops", schema.OPS_SCHEMA))
        mops = good(_written(spark, written, "mops", schema.MOPS_SCHEMA))
        if paired is not None:
            events = good(paired)
            # These few rows have a long plan, which would become part of every checker's plan.
            other_ops = kept.keep(pairing.other_ops(events))
            other_mops = kept.keep(pairing.other_mops(mops, good(parsed), events))
            ops = ops.unionByName(other_ops)
            mops = mops.where(F.col("invoked").isNotNull()).unionByName(other_mops)
        lags = watched_lags(good(parsed))
        divided = [
            run
            for run, history in enumerate(described)
            if history.suspects is None and not history.problems
        ]
        if divided:
            among = F.col("run").isin(divided)
            lags = lags.unionByName(realtime_lags(ops.where(among), mops.where(among)))
        return OpHistories(
            ops=ops,
            mops=mops,
            lags=lags,
            described=described,
            divided=divided,
            kept=kept.pop_all(),
        )


def _scratch(spark: SparkSession, names: Sequence[str]) -> str:
    """Return the name of a new folder that all workers see."""
    beside = tempfile.gettempdir()
    if names and not is_local(spark):
        # Other machines can read the histories, so they can read a folder beside them.
        beside = names[0].rpartition("/")[0]
        reject_unknown(spark, beside)
    folder = storage.unused(beside, ".kafka-chaos-ops", "")
    try:
        storage.make_folder(folder)
    except OSError as error:
        raise EnvironmentBroken(
            f"{beside} cannot be written to ({error.strerror or error}): the verifier needs room "
            "there for what it parses."
        ) from error
    return folder


def _told(parsed: DataFrame, paired: DataFrame | None) -> Mapping[int, list[Any]]:
    """Parse all files, and return a few rows that describe each of them."""
    described = parsed.where(F.col("row").isin(schema.SPLIT, schema.FILE)).select(
        *pairing.TOLD_COLUMNS
    )
    if paired is not None:
        described = described.unionByName(
            pairing.pairing_problems(paired).select(*pairing.TOLD_COLUMNS)
        ).unionByName(pairing.counts(parsed, paired))
    return by_key(described.collect(), itemgetter("run"))


def _written(spark: SparkSession, told: Sequence[Any], kind: str, schema: StructType) -> DataFrame:
    """Return what tasks have written of a kind, by their rows of FILE."""
    files = sorted(storage.spark_name(row["error"]) for row in told if row["kind"] == kind)
    return spark.read.schema(schema).parquet(*files) if files else frame_of(spark, [], schema)


def _for_tasks(name: str, scratch: str, run: int) -> str:
    """Return the name by which tasks open a file: that of a copy, if only Spark could read it."""
    if storage.opens_in_tasks(name):
        return name
    copy = Path(scratch) / f"history-{run}.jsonl"
    storage.fetch(name, copy)
    return str(copy)


def _unreadable(spark: SparkSession, name: str) -> str | None:
    if not storage.opens_in_tasks(name) and not is_local(spark):
        return "cannot be read by the tasks of a cluster, which open hdfs, s3 and shared disks"
    try:
        if storage.kind_of(name) == "folder":
            return "is a folder, and neither the folder of a run nor an op history"
        with storage.open_input(name):
            return None
    except OSError as error:
        return f"cannot be read: {error.strerror or first_line(error)}"
