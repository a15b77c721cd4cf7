"""The edges of a history's transaction graph, and which of them can lie on a cycle.

A node is a completed op that sends or polls. An edge leads to what must have come later:

- `wr`, from the writer of a value to every other op that polled it;
- `ww`, from the writer of a value to the writer of the next value in the log of their key;
- `realtime`, from an op that ended ok to every op invoked after that. These edges are never made
  in Spark: they are a matter of comparing two indices, and the certificate below needs none.

**The certificate.** Every op is given a *place*, an index of the history at or after its invocation
and, if it is ok, at or before its completion. Then every realtime edge leads forward: its source
completed, at or after its place, before its target was invoked, at or before its place. So a cycle
has an edge of `wr` or `ww` that leads *backward*, from a higher place to a lower or the same one.
More: let a cycle (or a strongly connected component) reach from the lowest place to the highest.
The way back from the highest to the lowest passes over every point between them, and only backward
edges lead back, so their spans cover the whole reach without a gap. Hence every component lies
within one *stretch*, a gapless union of spans of backward edges, and so do all its edges. What lies
outside the stretches is thereby proven acyclic, without having been looked at, and the rest is
searched stretch by stretch. Stretches are rounded outward to blocks of indices, which joins some of
them and parts none.

The places are chosen so that a usual history has few backward edges: see `place_of`.

Source: the ww and wr graphs of jepsen.tests.kafka, the realtime graph of elle.core.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

BLOCK = 64
"""Indices in a block: fine, so that a rare backward edge sends little to the search."""

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
        polled = polled.withColumn("block", _block("place")).join(near, ["run", "block"])
    readers = polled.select(*_RECORD, *(F.col(field).alias(f"to_{field}") for field in _FIELDS))
    joined = readers.join(_writers(touched), list(_RECORD))
    return _edges(joined, kind="wr", next_value=F.lit(None).cast("long"))


def write_edges(touched: DataFrame, order: DataFrame) -> DataFrame:
    """Return an edge of kind "ww" from the writer of each value to that of the next in the log.

    Args:
        touched: the frame of `placed`.
        order: the version order: run, key, index (dense), value; one value an index.

    Returns:
        The columns of `read_edges`, with the later value in next_value. A value that lies at
        several indices follows upon the value before the last of them. A record that nobody sent
        has no edge on either side.
    """
    along = Window.partitionBy("run", "key").orderBy("index")
    last = Window.partitionBy(*_RECORD)
    pairs = (
        order.withColumn("before", F.lag("value").over(along))
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


def stretches(edges: DataFrame) -> DataFrame:
    """Return the blocks that can contain a cycle: those that spans of backward edges touch.

    Args:
        edges: all edges of `wr` and, if asked for, of `ww`, or of these at least those that lead
            backward. Only run, from_place and to_place are asked for.

    Returns:
        run, block (a place divided by BLOCK), stretch (a number, unique in the run); at most a row
        per block of the history, none if all edges lead forward.
    """
    # Spans are first merged by the block in which they begin, so that however many edges lead
    # backward, what is sorted and multiplied here is at most a row per block of the history.
    spans = (
        edges.where(F.col("from_place") >= F.col("to_place"))
        .groupBy("run", _block("to_place").alias("first"))
        .agg(F.max(_block("from_place")).alias("last"))
    )
    order = Window.partitionBy("run").orderBy("first")
    reach = F.max("last").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col("first") > F.col("reach"), F.lit(True))
    numbered = spans.withColumn("reach", reach).withColumn(
        "stretch", F.sum(begins.cast("long")).over(order)
    )
    merged = numbered.groupBy("run", "stretch").agg(
        F.min("first").alias("first"), F.max("last").alias("last")
    )
    blocks = F.explode(F.sequence("first", "last")).alias("block")
    return merged.select("run", blocks, "stretch")


def within(edges: DataFrame, stretches: DataFrame) -> DataFrame:
    """Return the edges that may lie on a cycle: those with both ends in one stretch.

    They are among those that the stretches were made of, or at least those leading into one.

    Returns:
        The same columns and `stretch`. All edges of a stretch are there, so a search per run and
        stretch misses no cycle (see the certificate above).
    """
    near = F.broadcast(stretches)
    ending = near.withColumnRenamed("stretch", "to_stretch")
    return (
        edges.withColumn("block", _block("from_place"))
        .join(near, ["run", "block"])
        .withColumn("block", _block("to_place"))
        .join(ending, ["run", "block"])
        .where(F.col("stretch") == F.col("to_stretch"))
        .drop("block", "to_stretch")
    )


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


def _block(place: str) -> Column:
    return F.shiftright(place, BLOCK.bit_length() - 1)
