"""Records that a consumer read before they were committed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.history import producer_of

_SECOND_NS = 1_000_000_000


@checker(
    "read-beyond-hw",
    severity=Severity.TOO_EARLY,
    one="record was read before it was committed",
    many="records were read before they were committed",
)
def read_beyond_hw(polls: DataFrame, ceilings: DataFrame) -> DataFrame:
    """Return the records that consumers were given at or above the high watermark.

    A high watermark that is asked for later is no lower than it was, while one leader leads: a
    record of that leader at or above it that was given before it was asked for had not been
    committed.

    Returns:
        One row per record given; `high_watermark` is what the leader of `leader_epoch` told when it
        was asked later, at `asked_ns`; `reader` is the process, and process the producer's.

    Source: Kafka documentation, replication design; KAFKA-9835.
    """
    second = F.floor(F.col("time_ns") / _SECOND_NS)
    spread = ceilings.select(
        "*",
        F.explode(
            F.sequence(F.floor(F.col("from_ns") / _SECOND_NS), F.floor(F.col("to_ns") / _SECOND_NS))
        ).alias("second"),
    )
    given = polls.withColumnRenamed("process", "reader").withColumn("second", second)
    beyond = given.join(F.broadcast(spread), ["topic", "partition", "second"]).where(
        (F.col("from_ns") <= F.col("time_ns"))
        & (F.col("time_ns") < F.col("to_ns"))
        & (F.col("offset") >= F.greatest("high_watermark", "epoch_start"))
    )
    return offences(
        beyond,
        process=producer_of(F.col("value")),
        detail=columns("reader", "high_watermark", "leader_epoch", "asked_ns"),
    )
