"""Which values have to be checked one by one: digests tell, by a scan and without a join.

Most histories are in order, and a scan can prove that without joining what is known of each record.
`log` (offsets.py) holds, for each block of 64 offsets and each witness (the producers'
acknowledgements, each consumer, the final read), which offsets the witness names, how often, and
the exclusive or of a 64-bit hash of (offset, value) over its records. A block *agrees* (column
`alike`) if the producers and the final read are both witnesses of it, and every witness names the
same offsets, each once, with one digest.

For a record in a block that agrees, acknowledgement, final read and polls have the same offset and
value. An anomaly of its value therefore shows in another block. If that block does not agree, its
values are all checked. If it agrees, two sends of one value were acknowledged, and sends that share
their value are checked too. Acknowledgements without an offset are checked as well. A send that was
not acknowledged is suspicious only if it was read; a block that holds it does not agree, because no
acknowledgement names its offset.

Everything else is in order, except by chance: two witnesses name the same offsets of a block with
different values, and their digests are equal. The probability is 1 in 2^64 for each damaged block:
for a history of a hundred million records with every block damaged, 1 in ten million million. A
consumer that has read a block twice, or in part, cannot be compared this way: that block does not
agree.
"""

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import History
from verifiers.scanning import block_digests
from verifiers.scanning.excerpt import Wanted, block_numbers, by_topic, excerpt, keys_of

MOST_IN_DOUBT = 500_000
"""With more records than this to look at, looking at all of them costs less than choosing."""


def records_in_doubt(log: DataFrame, stretches: DataFrame) -> int:
    """Return how many records there are to look at; 0 proves that every value is in order.

    Runs one job.

    Args:
        log: what places hold (offsets.py); it should be kept.
        stretches: which values were sent (`stretches_of`); they should be kept.
    """
    counts = (
        _unlike(log)
        .agg(F.sum("witnessed").alias("records"))
        .unionByName(stretches.agg(F.sum("sends").alias("records")))
    )
    (row,) = counts.agg(F.coalesce(F.sum("records"), F.lit(0)).alias("records")).collect()
    return int(row["records"])


def stretches_of(history: History) -> DataFrame:
    """Return the stretches of 64 values of which something is to be looked at.

    Columns:
        topic, stretch: the values from `stretch << 6`.
        sends: how many there are of them: of a value more than one, or one that was acknowledged
            without a place.
    """
    return (
        block_digests.stretches(history)
        .repartition("topic", "stretch")
        .groupBy("topic", "stretch")
        .agg(
            F.sum("sends").alias("sends"),
            F.bit_or("values").alias("values"),
            F.sum("placeless").alias("placeless"),
        )
        .where((F.col("sends") > F.bit_count("values")) | (F.col("placeless") > 0))
        .select("topic", "stretch", "sends")
    )


def in_doubt(history: History, log: DataFrame, stretches: DataFrame) -> History:
    """Return a history that holds what is known of each value that may not be in order.

    It holds some that are in order as well; and all that is known of the places that are not alike,
    so that two values of one offset are there, too.

    Runs two small jobs, and scans the history once; what it returns is a scan yet to be run.

    Args:
        history: the recorded frames.
        log: what places hold (offsets.py); it should be kept.
        stretches: which values are to be looked at (`stretches_of`); they should be kept.
    """
    blocks = {
        topic: np.sort(block_numbers(partition, block))
        for topic, (partition, block) in by_topic(_unlike(log), "partition", "block").items()
    }
    asked = {
        topic: np.sort(numbers) for topic, (numbers,) in by_topic(stretches, "stretch").items()
    }
    near = keys_of(history, Wanted(blocks=blocks, stretches=asked))
    values = {topic: np.unique(numbers) for topic, (numbers,) in by_topic(near, "value").items()}
    return excerpt(history, Wanted(blocks=blocks, values=values))


def nothing_like(frame: DataFrame) -> DataFrame:
    """Return a frame of the same columns, known to Spark to be empty when it plans."""
    return frame.sparkSession.createDataFrame([], frame.schema)


def _unlike(log: DataFrame) -> DataFrame:
    return log.where(~F.col("alike"))
