"""Which keys of op histories the checkers have to check: those that the first look suspects."""

from collections.abc import Collection, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from verifiers.checking.details import columns
from verifiers.ops.cycles import concurrent
from verifiers.ops.description import Described
from verifiers.ops.edges import place_of
from verifiers.ops.first_look import KEY_SCHEMA, POLL, SEND, SUSPECT_SCHEMA, screened
from verifiers.ops.neighbours import remembered
from verifiers.ops.versions import code_of_type
from verifiers.spark.arrow import frame_of, map_in_arrow
from verifiers.spark.columns import in_columns


def first_look(mops: DataFrame, *, ww_deps: bool) -> DataFrame:
    """Return what the first look at each key leaves to the checkers (`first_look.screened`).

    With `ww_deps` the order of a key's log makes edges as well.
    """
    numbers = mops.select(
        "run",
        "key",
        "op",
        "process",
        "offset",
        "value",
        "position",
        place_of().alias("place"),
        code_of_type().cast("byte").alias("type"),
        F.when(F.col("kind") == "send", SEND).otherwise(POLL).cast("byte").alias("kind"),
    )
    together = numbers.repartition("run", "key").sortWithinPartitions("run", "key")
    return map_in_arrow(together, partial(screened, ww_deps=ww_deps), SUSPECT_SCHEMA)


def suspects(found: DataFrame, ops: DataFrame, mops: DataFrame, *, ww_deps: bool) -> DataFrame:
    """Return the keys that the checkers have to check: run, key.

    `found` is what `first_look` and `suspect_frame` returned, of different runs. The edges of
    `ww_deps` lead from key to key: of a run with one suspect, or whose graph may have no edge at
    all, every key is one.
    """
    steps = found.where(F.col("op").isNotNull()).withColumn("internal", F.lit(False))
    certain = found.where(F.col("op").isNull()).select("run", "key")
    keys = certain.unionByName(remembered(steps, ops).select("run", "key")).distinct()
    if not ww_deps:
        return keys
    runs = keys.select("run").unionByName(concurrent(ops)).distinct()
    return _all_keys(mops, runs)


def known_suspects(described: Sequence[Described], *, ww_deps: bool) -> set[tuple[int, str | None]]:
    """Return the keys that the first look suspected while their files were parsed: run and key.

    A key of None stands for all keys of the run.
    """
    return {
        (run, key)
        for run, history in enumerate(described)
        for key, by_order_only in history.suspects or ()
        if ww_deps or not by_order_only
    }


def suspect_frame(known: Collection[tuple[int, str | None]], mops: DataFrame) -> DataFrame:
    """Return what `known_suspects` returned in the columns of `first_look`, without steps."""
    spark = mops.sparkSession
    keys = frame_of(spark, sorted((run, key) for run, key in known if key is not None), KEY_SCHEMA)
    whole = sorted((run,) for run, key in known if key is None)
    if whole:
        runs = frame_of(spark, whole, StructType(KEY_SCHEMA.fields[:1]))
        keys = keys.unionByName(_all_keys(mops, runs))
    return in_columns(keys, SUSPECT_SCHEMA, columns(*KEY_SCHEMA.names))


def _all_keys(mops: DataFrame, runs: DataFrame) -> DataFrame:
    return mops.join(runs, "run", "left_semi").select("run", "key").distinct()
