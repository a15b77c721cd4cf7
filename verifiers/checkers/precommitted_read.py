"""Transactions that read a record which they had sent and not yet committed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "precommitted-read",
    severity=Severity.TOO_EARLY,
    one="transaction was given a record of its own",
    many="transactions were given records of their own",
)
def precommitted_read(txns: DataFrame, txn_reads: DataFrame) -> DataFrame:
    """Return the transactions that were given a record that they had sent themselves.

    Returns:
        One row per transaction, with the lowest such value; `records` in the detail counts them.
        Clients that poll within transactions read read_committed, which is the kind.

    Source: the precommitted-read analysis of jepsen.tests.kafka.
    """
    is_own = (F.col("process") == F.col("sent_by")) & (F.col("txn") == F.col("sent_in"))
    own = (
        txn_reads.where(is_own)
        .groupBy("process", "txn", "topic")
        .agg(
            F.min(F.struct("value", "partition", "offset", "time_ns")).alias("first"),
            F.count("*").alias("records"),
        )
        .join(txns.select("process", "txn", F.col("type").alias("outcome")), ["process", "txn"])
    )
    return offences(
        own.select("*", "first.*"),
        kind=F.lit("read_committed"),
        detail=columns("txn", "records", type="outcome"),
    )
