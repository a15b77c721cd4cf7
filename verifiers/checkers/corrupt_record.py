"""Not what its producer put in."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checker import checker, offences


@checker("corrupt-record")
def corrupt_record(polls: DataFrame, final: DataFrame) -> DataFrame:
    """Return the records whose checksum, run or topic is not what their producer put in.

    Args:
        polls: records that consumers were given.
        final: records of the final read.

    Returns:
        One row per record given; kind is the problem: checksum, run, topic or format. The value
        is null if it could not be made out.
    """
    broken = F.col("problem").isNotNull()
    rows = polls.where(broken).withColumn("read_by", F.lit("consumer"))
    rows = rows.unionByName(final.where(broken).withColumn("read_by", F.lit("final read")))
    return offences(
        rows,
        kind="problem",
        detail={"read_by": F.col("read_by"), "poll": F.col("op"), "position": F.col("position")},
    )
