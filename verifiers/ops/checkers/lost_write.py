"""Written values that no op read although later values of the key were read."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("lost-write")
def lost_write(values: DataFrame, committed: DataFrame) -> DataFrame:
    """Return the values that lie below what was read of their key, and that no OK op read.

    How far a key was read is the highest of the values that OK ops read, each at its lowest place;
    a value is below that if its highest place is. Only values whose writer is known to have
    happened count. A lost tail cannot be told from a late one: it is unseen.

    Returns:
        One row per value. The detail has its lowest dense index, how far the key was read
        (`max-read-index`, and an op that read that far), its writer and the writer's type.

    Source: the lost-write analysis of jepsen.tests.kafka.
    """
    read = values.where(F.col("reader").isNotNull() & F.col("first").isNotNull())
    bounds = read.groupBy("run", "key").agg(
        F.max("first").alias("bound"),
        F.max_by("reader", F.struct("first", -F.col("reader"))).alias("max_read_op"),
    )
    missing = values.where(F.col("reader").isNull() & F.col("writer_type").isin("ok", "info"))
    passed = missing.join(bounds, ["run", "key"]).where(F.col("latest") <= F.col("bound"))
    proven = committed.select("run", F.col("op").alias("writer"), F.lit(True).alias("proven"))
    rows = passed.join(proven, ["run", "writer"], "left").where(
        (F.col("writer_type") == "ok") | F.col("proven")
    )
    return op_offences(
        rows,
        value="value",
        op="writer",
        index="first",
        max_read_index="bound",
        max_read_op="max_read_op",
        writer="writer",
        writer_type="writer_type",
    )
