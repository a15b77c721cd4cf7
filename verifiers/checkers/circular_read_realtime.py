"""Transactions in a circle of which one had ended before another began."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "G1c-realtime",
    severity=Severity.TOO_EARLY,
    one="circle of transactions read what was not yet sent",
    many="circles of transactions read what was not yet sent",
)
def circular_read_realtime(txn_cycles: DataFrame) -> DataFrame:
    """Return the transactions that form a circle by what they read and by their order in time.

    Such a circle has an edge of realtime: one of them was known to be committed before the next one
    began. The plain circles of the same transactions are G1c.

    Returns:
        One row per strongly connected component, as for G1c.

    Source: G1c of strong PL-2 in Elle; the cycles of jepsen.tests.kafka.
    """
    return offences(
        txn_cycles.where(F.col("anomaly") == "G1c-realtime"),
        detail=columns("txn", "transactions", "cycle", "steps"),
    )
