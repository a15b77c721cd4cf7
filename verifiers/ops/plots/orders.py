"""Who put and who found what at which offset, around the offences of a key, chosen by Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from harness.core.grouping import by_key
from verifiers.checking.checker import CHECKERS
from verifiers.frames.shared import Frames
from verifiers.ops.first_look import KEY_SCHEMA
from verifiers.ops.frames import as_op_anomalies, no_brokers, values_of_topics
from verifiers.ops.kept import Kept
from verifiers.ops.versions import Versions
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, LONG, TEXT, declared
from verifiers.spark.plans import union

ANOMALIES = ("inconsistent-offsets", "duplicate", "lost-write", "G1a", "unseen")
"""Keys with one of these have a picture; values of the first of them are drawn first."""

MOST_KEYS = 32
"""So many keys of a history have a picture, those with the most offences first."""

MOST_VALUES = 16
"""At most so many values of a key are drawn: of each anomaly those with the lowest offsets."""

AROUND = 2
"""So many offsets on either side of such a value are shown."""

MOST_COLUMNS, MOST_ROWS = 60, 100
"""Offsets and ops of a picture."""

_KEY = ["run", "key"]
_VALUE = ["run", "key", "value"]
_FOUND_SCHEMA = declared(run=INT, key=TEXT, value=LONG, rank=INT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What an op sent to an offset, or polled there (`kind` send or poll).

    `column` is the place of the offset among all offsets of the key, from 0; None if it is unknown.
    A `suspect` value has an anomaly itself, others only lie near one that has.
    """

    column: int | None
    kind: str
    value: int
    suspect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """An op: index of its completion, process, type, f, and its cells from left to right."""

    op: int
    process: int
    type: str
    f: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A value that is drawn, and the anomalies it is drawn for."""

    value: int
    anomalies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What there is to see of a key around its offences.

    Attributes:
        key: which.
        counts: offending values by anomaly; of G1a, those that a failed op wrote and an OK op read.
        suspects: the values that have an anomaly, the lowest first.
        offsets: by column, of those that are shown.
        rows: ops, in the order of the history.
        all_offsets: at how many offsets anything is known to lie, or was sent.
        all_rows: how many ops sent or polled one of the offsets shown, or a value with an anomaly.
    """

    key: str
    counts: Mapping[str, int]
    suspects: tuple[Suspect, ...]
    offsets: Mapping[int, int]
    rows: tuple[OpRow, ...]
    all_offsets: int
    all_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The orders of one history, and how many of its keys have an offence."""

    orders: tuple[Order, ...] = ()
    keys: int = 0


def order_series(mops: DataFrame, shared: Versions) -> Mapping[int, Orders]:
    """Return the orders of the histories (MOPS_SCHEMA) that have such an offence, by run."""
    spark = mops.sparkSession
    # Cut off from how it was made: the plans of what is made of it would grow with each step.
    offending = _offending(mops, shared).localCheckpoint()
    counted = _counted(offending).collect()
    keys = frame_of(spark, sorted({(row["run"], row["key"]) for row in counted}), KEY_SCHEMA)
    found = _suspects(mops, offending, keys).collect()
    of_found = itemgetter(*_FOUND_SCHEMA.names)
    known = frame_of(spark, [of_found(row) for row in found], _FOUND_SCHEMA)
    with Kept() as kept:
        touched = kept.keep(mops.join(F.broadcast(keys), _KEY, "left_semi"))
        return _told(found, counted, _cells(touched, known).collect())


def _offending(mops: DataFrame, shared: Versions) -> DataFrame:
    """Return the values that offend: run, key, value, grave (place in ANOMALIES), once each."""
    values, log = shared.values, shared.log
    known = values_of_topics(values, shared.committed)
    frames = Frames({"values": known, **no_brokers(mops.sparkSession)})
    about_values = {
        "duplicate": CHECKERS["duplicate"](values=known),
        "lost-write": CHECKERS["lost-write"](losses=frames["losses"]),
        "unseen": CHECKERS["unseen"](values=known),
    }
    written = values.where(F.col("writer_type") == "fail").select(*_VALUE)
    read = mops.where((F.col("type") == "ok") & (F.col("kind") == "poll"))
    found = {
        "inconsistent-offsets": log.where(F.col("lowest") != F.col("highest")),
        "G1a": read.join(written, _VALUE, "left_semi"),
        **{name: as_op_anomalies(name, rows) for name, rows in about_values.items()},
    }
    graded = [
        found[name].select(*_VALUE, F.lit(grave).alias("grave"))
        for grave, name in enumerate(ANOMALIES)
    ]
    return union(graded).distinct()


def _counted(offending: DataFrame) -> DataFrame:
    """Return how many values offend: run, key, grave, values; and keys, how many such keys."""
    by_kind = offending.groupBy(*_KEY, "grave").agg(F.count("*").alias("values"))
    in_run = Window.partitionBy("run")
    most = in_run.orderBy(F.desc("total"), "key")
    return (
        by_kind.withColumn("total", F.sum("values").over(Window.partitionBy(*_KEY)))
        .withColumn("rank", F.dense_rank().over(most))
        .withColumn("keys", F.max("rank").over(in_run))
        .where(F.col("rank") <= MOST_KEYS)
    )


def _suspects(mops: DataFrame, offending: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the values of some keys that have an anomaly: run, key, value, graves, rank."""
    lowest = (
        mops.join(offending.select(*_VALUE).distinct(), _VALUE, "left_semi")
        .groupBy(*_VALUE)
        .agg(F.min("offset").alias("lowest"))
    )
    of_kind = Window.partitionBy(*_KEY, "grave").orderBy(F.asc_nulls_last("lowest"), "value")
    in_turn = Window.partitionBy(*_KEY).orderBy("turn", "gravest", "value")
    return (
        offending.join(F.broadcast(keys), _KEY)
        .join(lowest, _VALUE)
        .withColumn("turn", F.row_number().over(of_kind))
        .groupBy(*_VALUE)
        .agg(
            F.min("turn").alias("turn"),
            F.min("grave").alias("gravest"),
            F.sort_array(F.collect_set("grave")).alias("graves"),
        )
        .withColumn("rank", F.row_number().over(in_turn))
        .where(F.col("rank") <= MOST_VALUES)
        .select(*_VALUE, "graves", "rank")
    )


def _cells(touched: DataFrame, suspects: DataFrame) -> DataFrame:
    """Return what is shown: run, key, op, process, type, f, kind, offset, column, value, suspect.

    And of each key offsets and rows, as they are in all.
    """
    known = F.broadcast(suspects)
    of_keys = touched.select(*_KEY, "op", "process", "type", "f", "kind", "offset", "value")
    along = Window.partitionBy(*_KEY).orderBy("offset")
    columns = (
        of_keys.where(F.col("offset").isNotNull())
        .select(*_KEY, "offset")
        .distinct()
        .withColumn("column", (F.row_number().over(along) - 1).cast("long"))
        .withColumn("offsets", F.count("*").over(Window.partitionBy(*_KEY)))
    )
    marked = (
        of_keys.join(known, _VALUE, "left")
        .join(columns, [*_KEY, "offset"], "left")
        .withColumn("suspect", F.col("rank").isNotNull())
    )
    near = F.explode(F.sequence(F.col("column") - AROUND, F.col("column") + AROUND))
    wanted = (
        marked.where(F.col("suspect") & F.col("column").isNotNull())
        .select(*_KEY, "rank", F.col("column").alias("middle"), near.alias("column"))
        .groupBy(*_KEY, "column")
        .agg(F.min(F.struct(F.abs(F.col("middle") - F.col("column")) > 0, "rank")).alias("first"))
        .withColumn("n", F.row_number().over(Window.partitionBy(*_KEY).orderBy("first", "column")))
        .where(F.col("n") <= MOST_COLUMNS)
        .select(*_KEY, "column", F.lit(True).alias("wanted"))
    )
    unplaced = F.col("suspect") & F.col("column").isNull()
    by_op = Window.partitionBy(*_KEY, "op")
    order = Window.partitionBy(*_KEY).orderBy(F.desc("concerned"), "op")
    return (
        marked.join(F.broadcast(wanted), [*_KEY, "column"], "left")
        .where(F.col("wanted") | unplaced)
        .withColumn("concerned", F.max("suspect").over(by_op))
        .withColumn("place", F.dense_rank().over(order))
        .withColumn("rows", F.max("place").over(Window.partitionBy(*_KEY)))
        .withColumn("offsets", F.max("offsets").over(Window.partitionBy(*_KEY)))
        .where(F.col("place") <= MOST_ROWS)
        .drop("rank", "wanted", "concerned", "place")
        .distinct()
    )


def _told(
    suspects: Sequence[Row], counted: Sequence[Row], cells: Sequence[Row]
) -> Mapping[int, Orders]:
    key_of = itemgetter(*_KEY)
    looked_at, shown = by_key(suspects, key_of), by_key(cells, key_of)
    in_order = sorted(counted, key=itemgetter("rank", "grave"))
    return {
        run: Orders(
            orders=tuple(
                _order(key, rows, looked_at[run, key], shown[run, key])
                for key, rows in by_key(of_run, itemgetter("key")).items()
            ),
            keys=of_run[0]["keys"],
        )
        for run, of_run in by_key(in_order, itemgetter("run")).items()
    }


def _order(
    key: str, counted: Sequence[Row], suspects: Sequence[Row], cells: Sequence[Row]
) -> Order:
    by_op = by_key(cells, itemgetter("op"))
    return Order(
        key=key,
        counts={ANOMALIES[row["grave"]]: row["values"] for row in counted},
        suspects=tuple(
            Suspect(value=row["value"], anomalies=tuple(ANOMALIES[g] for g in row["graves"]))
            for row in sorted(suspects, key=lambda row: int(row["value"]))
        ),
        offsets={row["column"]: row["offset"] for row in cells if row["column"] is not None},
        rows=tuple(_op_row(by_op[op]) for op in sorted(by_op)),
        all_offsets=max((row["offsets"] or 0 for row in cells), default=0),
        all_rows=max((row["rows"] for row in cells), default=0),
    )


def _op_row(rows: Sequence[Row]) -> OpRow:
    first = rows[0]
    cells = [
        Cell(**{name: row[name] for name in ("column", "kind", "value", "suspect")}) for row in rows
    ]
    last = 1 << 63
    cells.sort(key=lambda c: (last if c.column is None else c.column, c.kind != "send", c.value))
    op = {name: first[name] for name in ("op", "process", "type", "f")}
    return OpRow(**op, cells=tuple(cells))
