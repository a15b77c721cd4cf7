"""Transactions that read each other's records in a circle."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "G1c",
    severity=Severity.TOO_EARLY,
    one="circle of transactions read each other's records",
    many="circles of transactions read each other's records",
)
def circular_read(txn_cycles: DataFrame) -> DataFrame:
    """Return the transactions of which each read a record of the one before it, in a circle.

    Returns:
        One row per strongly connected component, by the transaction of it that ended first, at the
        first record of a short cycle. `cycle` in the detail names the transactions of that, as
        process/number, and `steps` what each read of the one before it.

    Source: G1c in Adya's thesis; the cycles of jepsen.tests.kafka.
    """
    return offences(
        txn_cycles.where(F.col("anomaly") == "G1c"),
        detail=columns("txn", "transactions", "cycle", "steps"),
    )
