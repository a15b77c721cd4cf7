"""Digest first: which values must be looked at one by one, told by a scan and no join.

The usual history is in good order, and that can be proven without bringing a record's evidence
together. `log` (places.py) has, for each block of 64 offsets and each witness (the producers' acks,
each consumer, the final read), which offsets it names, how often, and the exclusive or of a 64-bit
hash of (offset, value) over its records. A block is *alike* if both the producers and the final
read are witnesses of it, and every witness names the same offsets, each once, with one digest.

Of a record in a block that is alike, acknowledgement, final read and polls agree on offset and
value. So whatever is strange about its value is evidence elsewhere. Elsewhere is either a block
that is not alike, and the values of those are all looked at, or another that is: then two sends of
one value were acknowledged, and sends that share their value are looked at too. What else there is
to look at are acknowledgements without a place. A send that was not acknowledged is strange only if
it was read, and no block that holds it is alike, since no acknowledgement answers for it.

What is left out is therefore in order, but for one chance: two witnesses name the same offsets of a
block, not the same values, and their digests agree. That is 1 in 2^64 for each damaged block: of a
history of a hundred million records with every block damaged, 1 in ten million million. A consumer
that has read a block twice, or in part, cannot be compared so: that block is not alike.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames import History, legible
from verifiers.places import BLOCK_BITS

MOST_IN_DOUBT = 500_000
"""With more records than this to look at, looking at all of them costs less than choosing."""


def records_in_doubt(history: History, log: DataFrame) -> int:
    """Return how many records there are to look at; 0 proves that every value is in order.

    Runs one job: it aggregates `log`, which should be kept, and scans the sends once.
    """
    counts = (
        _unlike(log)
        .agg(F.sum("witnessed").alias("records"))
        .unionByName(_placeless(history).agg(F.count("*").alias("records")))
        .unionByName(_shared(history).agg(F.sum("sends").alias("records")))
    )
    (row,) = counts.agg(F.coalesce(F.sum("records"), F.lit(0)).alias("records")).collect()
    return int(row["records"])


def suspects(history: History, log: DataFrame) -> DataFrame:
    """Return the values that must be looked at: all that may not be in order, and some that are.

    Columns:
        topic, value: a value may come several times.
    """
    place = ["topic", "partition", "offset", "value"]
    placed = history.sends.where(_acknowledged() & _is_placed()).select(*place)
    reads = [reads.where(legible()).select(*place) for reads in (history.polls, history.final)]
    evidence = placed.unionByName(reads[0]).unionByName(reads[1])
    near = evidence.withColumn("block", F.shiftright("offset", BLOCK_BITS)).join(
        F.broadcast(_unlike(log).select("topic", "partition", "block")),
        ["topic", "partition", "block"],
        "left_semi",
    )
    shared = history.sends.select(
        "topic", "value", F.shiftright("value", BLOCK_BITS).alias("stretch")
    ).join(F.broadcast(_shared(history).drop("sends")), ["topic", "stretch"], "left_semi")
    keys = ["topic", "value"]
    return (
        near.select(*keys)
        .unionByName(_placeless(history).select(*keys))
        .unionByName(shared.select(*keys))
    )


def nothing_like(frame: DataFrame) -> DataFrame:
    """Return a frame of the same columns, known to Spark to be empty when it plans."""
    return frame.sparkSession.createDataFrame([], frame.schema)


def _unlike(log: DataFrame) -> DataFrame:
    return log.where(~F.col("alike"))


def _acknowledged() -> Column:
    return F.col("type") == "ok"


def _is_placed() -> Column:
    return F.col("offset").isNotNull() & F.col("partition").isNotNull()


def _placeless(history: History) -> DataFrame:
    return history.sends.where(_acknowledged() & ~_is_placed())


def _shared(history: History) -> DataFrame:
    """Return the stretches of 64 values in which some value has more than one send."""
    bit = F.expr(f"shiftleft(1L, cast(value & {(1 << BLOCK_BITS) - 1} as int))")
    return (
        history.sends.groupBy("topic", F.shiftright("value", BLOCK_BITS).alias("stretch"))
        .agg(F.count("*").alias("sends"), F.bit_or(bit).alias("values"))
        .where(F.col("sends") > F.bit_count("values"))
        .drop("values")
    )
