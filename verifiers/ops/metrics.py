"""The metrics of op histories: lags of polls, repeated reads, causes of unknown outcomes.

None of it is a verdict. Each measure is one frame of a few rows a history, so that all of them are
parts of the one job (checking.py). Source: section "metrics" of jepsen.tests.kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.details import columns
from verifiers.ops.schema import NAMED_ANOMALY_SCHEMA
from verifiers.spark.columns import in_columns

Record = Mapping[str, Any]
"""One record of a measure (METRIC_SCHEMA)."""

MOST_SHOWN = 32
"""So many processes, keys, values and causes of a history are told by name."""

LAGS = "realtime-lag"
WORST, OF_PROCESS, OF_KEY = "worst-realtime-lag", "realtime-lag-process", "realtime-lag-key"
CONSUMED, REPEATED = "consume-counts", "consume-counts-repeated"
CAUSES = "info-txn-causes"

METRIC_SCHEMA = NAMED_ANOMALY_SCHEMA
"""What is measured: a row per record, `anomaly` is the name of the measure.

They go the way of anomalies, and are named apart from them (`measure_of`). `value` is the rank of a
record in its history, from 1, `detail` the record:

- WORST, one row: `process`, `key`, `op` (the index of its completion), `time` (when it was
  invoked), `lag`, both ns; OF_PROCESS, OF_KEY: the same, the worst of each process and each key,
  the largest first, and `of`, how many there are;
- CONSUMED: `times` (how often a process was given a value of a key), `values` (how many of them);
  the fewest times first;
- REPEATED: `process`, `key`, `value`, `times` if that is more than 1, and `of`;
- CAUSES: `error` (absent if none was recorded), `ops` (how many have it), and `of`.
"""

_MARK = "\0metric "
_VALUE = ("run", "process", "key", "value")


def marked(measure: str) -> str:
    """Return the name of a metric among the anomalies, which no anomaly has."""
    return _MARK + measure


def measure_of(name: str) -> str | None:
    """Return the metric of this name; None if it is an anomaly."""
    return name.removeprefix(_MARK) if name.startswith(_MARK) else None


def worst_lags(lags: DataFrame) -> DataFrame:
    """Return the worst lag of each history, of its processes and of its keys: METRIC_SCHEMA."""
    sets = [["run"], ["run", "process"], ["run", "key"]]
    most = F.max(F.struct("worst", F.col("process").alias("by"), F.col("key").alias("of")))
    named = (
        F.when(F.grouping("process") + F.grouping("key") == 2, WORST)
        .when(F.grouping("key") == 1, OF_PROCESS)
        .otherwise(OF_KEY)
    )
    worst = lags.groupingSets(sets, "run", "process", "key").agg(
        named.alias("measure"), most.alias("most")
    )
    flat = worst.select(
        "run",
        "measure",
        F.col("most.by").alias("process"),
        F.col("most.of").alias("key"),
        *(f"most.worst.{name}" for name in ("op", "time", "lag")),
    )
    facts = ("process", "key", "op", "time", "lag", "of")
    return _records(flat, [F.desc("lag"), "time", "process", "key"], *facts)


def consume_counts(ops: DataFrame, mops: DataFrame) -> DataFrame:
    """Return how often values were read, and which ones more than once: METRIC_SCHEMA."""
    consumed = consumptions(ops, mops)
    counted = consumed.groupBy("run", "times").agg(F.count("*").alias("values"))
    distribution = counted.withColumn("measure", F.lit(CONSUMED))
    repeated = consumed.where(F.col("times") > 1).withColumn("measure", F.lit(REPEATED))
    facts = ("process", "key", "value", "times", "of")
    return _records(distribution, ["times"], "times", "values").unionByName(
        _records(repeated, [F.desc("times"), "key", "value", "process"], *facts)
    )


def consumptions(ops: DataFrame, mops: DataFrame) -> DataFrame:
    """Return how often each process was given each value since it first subscribed.

    Columns: run, process, key, value, times. Counted are OK polls and transactions behind the first
    OK subscribe of their process; what was assigned may be consumed again.
    """
    ok = F.col("type") == "ok"
    subscribed = (
        ops.where(ok & (F.col("f") == "subscribe"))
        .groupBy("run", "process")
        .agg(F.min("op").alias("since"))
    )
    return (
        mops.where(ok & (F.col("kind") == "poll"))
        .select(*_VALUE, "op")
        .join(F.broadcast(subscribed), ["run", "process"])
        .where(F.col("op") > F.col("since"))
        .groupBy(*_VALUE)
        .agg(F.count("*").alias("times"))
    )


def info_causes(ops: DataFrame) -> DataFrame:
    """Return why ops that send or poll are of unknown outcome: METRIC_SCHEMA."""
    unknown = ops.where((F.col("type") == "info") & F.col("f").isin("send", "poll", "txn"))
    causes = unknown.groupBy("run", "error").agg(F.count("*").alias("ops"))
    most = [F.desc("ops"), F.asc_nulls_last("error")]
    return _records(causes.withColumn("measure", F.lit(CAUSES)), most, "error", "ops", "of")


MEASURES: Mapping[str, Callable[..., DataFrame]] = {
    LAGS: worst_lags,
    CONSUMED: consume_counts,
    CAUSES: info_causes,
}
"""What makes METRIC_SCHEMA, by the part of the document that it fills: pure functions of the frames
of a history, asked for by the names of their parameters: ops, mops, lags (reading.py)."""


def _records(rows: DataFrame, order: Sequence[Column | str], *facts: str) -> DataFrame:
    """Return the first rows of each measure in an order as records of METRIC_SCHEMA."""
    alike = Window.partitionBy("run", "measure")
    ranked = rows.withColumns(
        {"rank": F.row_number().over(alike.orderBy(*order)), "of": F.count("*").over(alike)}
    )
    given = {
        **columns("run", value="rank"),
        "anomaly": F.concat(F.lit(_MARK), "measure"),
        "detail": F.to_json(F.struct(*facts)),
    }
    return in_columns(ranked.where(F.col("rank") <= MOST_SHOWN), METRIC_SCHEMA, given)
