"""Transactions committed by a producer that another one had fenced."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "zombie-commit",
    severity=Severity.FALSE,
    one="transaction was committed by a client that had been fenced",
    many="transactions were committed by clients that had been fenced",
)
def zombie_commit(txns: DataFrame, events: DataFrame) -> DataFrame:
    """Return the transactions whose commit was acknowledged after another client had taken over.

    A takeover is recorded when the second client has been given the transactional id, and before
    the first one tries to commit.

    Returns:
        One row per transaction, at the time when its commit was acknowledged.

    Source: fencing of zombies, KIP-98.
    """
    taken = events.where((F.col("f") == "takeover") & F.col("op").isNotNull()).select(
        "process", F.col("op").alias("txn"), F.col("time_ns").alias("taken_ns")
    )
    rows = txns.where(F.col("type") == "ok").join(taken, ["process", "txn"])
    detail = columns("txn", taken_over_ns="taken_ns")
    return offences(rows, time_ns="complete_ns", detail=detail)
