"""Which edges of a graph of dependencies can lie on a cycle: those within a *stretch*.

Every op, or transaction, is given a *place*: a moment at or after its invocation and, if it is ok,
at or before its completion. Then every realtime edge leads forward: its source completed, at or
after its place, before its target was invoked, at or before its place. So a cycle has another edge
that leads *backward*, from a higher place to a lower or the same one. More: let a cycle (or a
strongly connected component) reach from the lowest place to the highest. The way back from the
highest to the lowest passes over every point between them, and only backward edges lead back, so
their spans cover the whole reach without a gap. Hence every component lies within one stretch, a
gapless union of spans of backward edges, and so do all its edges. What lies outside the stretches
is thereby proven acyclic, without having been looked at, and the rest is searched stretch by
stretch. Stretches are rounded outward to blocks of places, which joins some of them and parts none.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from verifiers.cycles.row_groups import whole_groups
from verifiers.spark.arrow import map_in_arrow

_TOGETHER = 200_000
"""Edges of small stretches are searched together, so many at a time; a larger one by itself."""


def stretches(edges: DataFrame, *, bits: int) -> DataFrame:
    """Return the blocks that can contain a cycle: those that spans of backward edges touch.

    Args:
        edges: all edges but those of realtime, or of these at least those that lead backward. Only
            run, from_place and to_place are asked for.
        bits: a block has `1 << bits` places.

    Returns:
        run, block (a place divided by that), stretch (a number, unique in the run); at most a row
        per block of the history, none if all edges lead forward.
    """
    # Spans are first merged by the block in which they begin, so that however many edges lead
    # backward, what is sorted and multiplied here is at most a row per block of the history.
    spans = (
        edges.where(F.col("from_place") >= F.col("to_place"))
        .groupBy("run", block_of("to_place", bits).alias("first"))
        .agg(F.max(block_of("from_place", bits)).alias("last"))
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


def within(edges: DataFrame, stretches: DataFrame, *, bits: int) -> DataFrame:
    """Return the edges that may lie on a cycle: those with both ends in one stretch.

    Args:
        edges: those that the stretches were made of, or at least those leading into one.
        stretches: the frame of `stretches`.
        bits: as there.

    Returns:
        The same columns and `stretch`. All edges of a stretch are there, so a search per run and
        stretch misses no cycle (see above).
    """
    near = F.broadcast(stretches)
    ending = near.withColumnRenamed("stretch", "to_stretch")
    return (
        edges.withColumn("block", block_of("from_place", bits))
        .join(near, ["run", "block"])
        .withColumn("block", block_of("to_place", bits))
        .join(ending, ["run", "block"])
        .where(F.col("stretch") == F.col("to_stretch"))
        .drop("block", "to_stretch")
    )


def block_of(place: str, bits: int) -> Column:
    """Return the block of a place; a block has `1 << bits` places."""
    return F.shiftright(place, bits)


def search_stretches(
    edges: DataFrame, search: Callable[[pa.Table], pa.Table], schema: StructType
) -> DataFrame:
    """Return what a search finds in edges, each stretch as a whole.

    Args:
        edges: the frame of `within`.
        search: returns what it finds in the edges of whole stretches, in the columns of the schema;
            runs on the executors.
        schema: of the result.
    """
    # All edges of one stretch go to one task, in consecutive rows.
    together = edges.repartition("run", "stretch").sortWithinPartitions("run", "stretch")

    def search_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for whole in whole_groups(batches, ("run", "stretch"), rows=_TOGETHER):
            yield from search(whole).to_batches()

    return map_in_arrow(together, search_each, schema)
