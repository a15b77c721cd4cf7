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

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import History
from verifiers.scanning import block_digests
from verifiers.scanning.excerpt import Wanted, block_numbers, by_topic, excerpt, values_of

_FEW, _LARGE_SHARE = 500_000, 0.1
"""If more records and a larger share of all have to be checked, checking all costs less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """How many records have to be checked one by one, among how many.

    None prove that every value is in order.
    """

    records: int
    among: int

    @property
    def is_large(self) -> bool:
        """Whether checking every record costs less than choosing those."""
        return self.records > max(_FEW, _LARGE_SHARE * self.among)


def doubt_of(log: DataFrame, stretches: DataFrame) -> Doubt:
    """Return how many records have to be checked.

    This runs one job over the blocks of offsets (offsets.py) and of values (`stretches_of`), which
    should be kept.
    """
    unlike = F.when(~F.col("alike"), F.col("witnessed"))
    counts = log.select(unlike.alias("records"), F.col("witnessed").alias("among")).unionByName(
        stretches.select(F.col("sends").alias("records"), F.lit(None).cast("long").alias("among"))
    )
    (row,) = counts.agg(F.sum("records").alias("records"), F.sum("among").alias("among")).collect()
    return Doubt(records=row["records"] or 0, among=row["among"] or 0)


def stretches_of(history: History) -> DataFrame:
    """Return the blocks of 64 values in which sends have to be checked.

    Columns:
        topic, stretch: the values from `stretch << 6`.
        sends: how many sends it has; one value was sent twice, or one was acknowledged without an
            offset.
    """
    return (
        block_digests.stretches(history)
        .where((F.col("sends") > F.bit_count("values")) | (F.col("placeless") > 0))
        .select("topic", "stretch", "sends")
    )


def in_doubt(history: History, log: DataFrame, stretches: DataFrame) -> History:
    """Return a history that holds what is known of each value that may not be in order.

    It holds some values that are in order as well, and all records in blocks that do not agree, so
    that two values at one offset are both there.

    This runs two small jobs that scan the history once; the frames returned are further scans. The
    others are as for `doubt_of`.
    """
    unlike = log.where(~F.col("alike"))
    blocks = {
        topic: np.sort(block_numbers(partition, block))
        for topic, (partition, block) in by_topic(unlike, "partition", "block").items()
    }
    asked = {
        topic: np.sort(numbers) for topic, (numbers,) in by_topic(stretches, "stretch").items()
    }
    values = values_of(history, Wanted(blocks=blocks, stretches=asked))
    return excerpt(history, Wanted(blocks=blocks, values=values))
