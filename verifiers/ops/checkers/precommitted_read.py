"""Ops that polled a value which they had sent themselves."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("precommitted-read")
def precommitted_read(reads: DataFrame) -> DataFrame:
    """Return the ops, of every type, that polled a value of a key which they sent themselves.

    Under read_committed nobody sees what is not committed, its sender included.

    Returns:
        One row per op, with the first of its keys, and the lowest value of that.

    Source: the precommitted-read analysis of jepsen.tests.kafka.
    """
    own = reads.where(F.col("writer") == F.col("op"))
    first = own.groupBy("run", "op").agg(F.min(F.struct("key", "value")).alias("first"))
    rows = first.select("run", "op", "first.*")
    return op_offences(rows, value="value", op="op")
