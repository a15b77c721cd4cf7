"""Clients that gave up: errors after which librdkafka makes no more use of a client.

A producer, consumer or transactor records such an error as `fatal`, by name, and goes on with a new
client if it can. A transactor also records each time that it asked for its transactional id
(`init`): how long that took, or that nobody answered.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.frames.answers import error_in
from verifiers.frames.shared import shared_frame

REPEATED_AFTER_S = 10.0
"""librdkafka asks again after `socket.timeout.ms` (`workloads.client_config`): a request that took
longer may have been carried out twice."""


@shared_frame("fatals")
def fatals(events: DataFrame, txns: DataFrame) -> DataFrame:
    """Return the fatal errors that clients recorded, one row each.

    Columns:
        process, time_ns.
        error: its name in `confluent_kafka.KafkaError`.
        words: of the client.
        open_ns: how long the transaction in which it happened had been open; null if in none.
        committing: whether its commit had been tried; null if in none.
        is_doubtful: whether this process had asked for its transactional id before, and it is not
            known when the coordinator did what it was asked.
    """
    told = events.where(F.col("f").isin("fatal", "init"))
    unsure = F.coalesce(F.col("detail").try_cast("double") > REPEATED_AFTER_S, F.lit(True))
    before = (
        Window.partitionBy("process")
        .orderBy("time_ns")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = told.withColumn("is_doubtful", F.max((F.col("f") == "init") & unsure).over(before))
    begun = txns.select(
        "process", F.col("txn").alias("op"), F.col("invoke_ns").alias("begun_ns"), "committing"
    )
    return (
        known.where(F.col("f") == "fatal")
        .join(begun, ["process", "op"], "left")
        .select(
            *("process", "time_ns", "committing", "is_doubtful"),
            error_in(F.col("detail")).alias("error"),
            F.col("detail").alias("words"),
            (F.col("time_ns") - F.col("begun_ns")).alias("open_ns"),
        )
    )
