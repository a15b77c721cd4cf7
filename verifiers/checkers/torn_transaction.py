"""Transactions of which the log holds some records and lacks others."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "torn-transaction",
    severity=Severity.FALSE,
    one="transaction is there in part only",
    many="transactions are there in part only",
)
def torn_transaction(txns: DataFrame, parts: DataFrame) -> DataFrame:
    """Return the transactions of which the final read has some records and lacks others.

    Committed transactions count, and transactions of unknown outcome: they too must be in the log
    as a whole or not at all. Records of aborted transactions are G1a. A record beyond the end of
    the final read counts as neither found nor lacking.

    Returns:
        One row per transaction, at the lowest record that is lacking; `found` and `lacking` in the
        detail count its records, `type` is ok (committed) or info (unknown).

    Source: atomicity of transactions, KIP-98.
    """
    outcomes = txns.select("process", "txn", F.col("type").alias("outcome"))
    lacking = ~F.col("found") & F.col("searched")
    first = F.struct("topic", "partition", "offset", "value")
    torn = (
        parts.groupBy("process", "txn")
        .agg(
            F.count_if("found").alias("present"),
            F.count_if(lacking).alias("absent"),
            F.min(F.when(lacking, first)).alias("first"),
            F.max("complete_ns").alias("complete_ns"),
        )
        .where((F.col("present") > 0) & (F.col("absent") > 0))
        .join(outcomes, ["process", "txn"])
    )
    return offences(
        torn.select("*", "first.*"),
        time_ns="complete_ns",
        detail=columns("txn", type="outcome", found="present", lacking="absent"),
    )
