"""The edges of an op history's transaction graph.

A node is a completed op that sends or polls. An edge leads to what must have come later:

- `wr`, from the writer of a value to every other op that polled it;
- `ww`, from the writer of a value to the writer of the next value in the log of their key;
- `realtime`, from an op that ended ok to every op invoked after that. These edges are never made
  in Spark: they are a matter of comparing two indices, and proving edges acyclic needs none.

Which of them can lie on a cycle is told by the *places* of the ops (`verifiers.cycles.stretches`).
The places are chosen so that a usual history has few backward edges: see `place_of`.

Source: the ww and wr graphs of jepsen.tests.kafka, the realtime graph of elle.core.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from verifiers.cycles.stretches import block_of

BLOCK_BITS = 6
"""64 indices in a block: fine, so that a rare backward edge sends little to the search."""

_RECORD = ("run", "key", "value")
_FIELDS = ("op", "mop", "ok", "invoked", "place")


def placed(mops: DataFrame) -> DataFrame:
    """Return the values that ops sent and polled (MOPS_SCHEMA), with the columns that edges need.

    Returns:
        run, key, value, kind (send, poll), op, mop, and of the op: invoked, ok (bool), place.
    """
    ok = (F.col("type") == "ok").alias("ok")
    place = place_of().alias("place")
    return mops.select("run", "key", "value", "kind", "op", "mop", "invoked", ok, place)


def read_edges(touched: DataFrame, stretches: DataFrame | None = None) -> DataFrame:
    """Return an edge of kind "wr" for every value polled, from its last writer to its reader.

    Edges that do not lead into one of the stretches are left out, if some are given.

    Returns:
        run, kind, key, value, next_value (null), and for both ends, `from_` and `to_`: op (index
        of its completion), mop (which of its micro-ops), ok (bool), invoked (index), place. Ends
        of any completion type; none from an op to itself; a value that nobody sent has no edge.
    """
    polled = touched.where(F.col("kind") == "poll")
    if stretches is not None:
        near = F.broadcast(stretches.select("run", "block"))
        polled = polled.withColumn("block", block_of("place", BLOCK_BITS)).join(
            near, ["run", "block"]
        )
    readers = polled.select(*_RECORD, *(F.col(field).alias(f"to_{field}") for field in _FIELDS))
    joined = readers.join(_writers(touched), list(_RECORD))
    return _edges(joined, kind="wr", next_value=F.lit(None).cast("long"))


def write_edges(touched: DataFrame, log: DataFrame) -> DataFrame:
    """Return an edge of kind "ww" from the writer of each value to that of the next in the log.

    Args:
        touched: the frame of `placed`.
        log: what lies at each index (`Versions.log`); the lowest value there is in the version
            order.

    Returns:
        The columns of `read_edges`, with the later value in next_value. A value that lies at
        several indices follows upon the value before the last of them. A record that nobody sent
        has no edge on either side.
    """
    along = Window.partitionBy("run", "key").orderBy("index")
    last = Window.partitionBy(*_RECORD)
    pairs = (
        log.where(F.col("value") == F.col("lowest"))
        .withColumn("before", F.lag("value").over(along))
        .withColumn("last", F.max("index").over(last))
        .where((F.col("index") == F.col("last")) & F.col("before").isNotNull())
        .select("run", "key", F.col("before").alias("value"), F.col("value").alias("next_value"))
    )
    writers = _writers(touched)
    later = writers.select(
        "run",
        "key",
        F.col("value").alias("next_value"),
        *(F.col(f"from_{field}").alias(f"to_{field}") for field in _FIELDS),
    )
    joined = pairs.join(later, ["run", "key", "next_value"]).join(writers, list(_RECORD))
    return _edges(joined, kind="ww", next_value=F.col("next_value"))


def place_of() -> Column:
    """Return the place of an op, from its columns type, f, op and invoked.

    A send is placed at its invocation: nobody polls it before. A poll is placed at its completion:
    whatever it was given had been sent by then. So between plain sends and polls an edge leads
    backward only if a record was polled by an op that completed before its send was invoked, which
    is a cycle in itself. A transaction is placed at its completion as well: its sends become
    visible when it commits, which is the last thing that it does. One that did not end ok may
    have committed long before its completion was recorded, and is placed at its invocation.
    """
    early = (F.col("f") == "send") | ((F.col("f") == "txn") & (F.col("type") != "ok"))
    return F.when(early, F.col("invoked")).otherwise(F.col("op"))


def _writers(touched: DataFrame) -> DataFrame:
    """Return the last op that sent each value: run, key, value and the `from_` columns."""
    # Plain numbers instead of a struct: Spark can then group without sorting.
    of_last = [F.max_by(field, "op").alias(f"from_{field}") for field in _FIELDS if field != "op"]
    sent = touched.where(F.col("kind") == "send")
    return sent.groupBy(*_RECORD).agg(F.max("op").alias("from_op"), *of_last)


def _edges(joined: DataFrame, *, kind: str, next_value: Column) -> DataFrame:
    ends = [f"{end}_{field}" for end in ("from", "to") for field in _FIELDS]
    others = joined.where(F.col("from_op") != F.col("to_op"))
    return others.select(
        "run", F.lit(kind).alias("kind"), "key", "value", next_value.alias("next_value"), *ends
    )
