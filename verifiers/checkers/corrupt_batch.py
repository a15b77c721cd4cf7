"""Batches that brokers refused since their checksums did not fit their records."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "corrupt-batch",
    severity=Severity.DIFFERENT,
    one="broker refused batches since their checksums did not fit",
    many="brokers refused batches since their checksums did not fit",
)
def corrupt_batch(refusals: DataFrame) -> DataFrame:
    """Return the brokers that were sent batches whose checksums do not fit their records.

    The producer need not know: it is told nothing of a batch that it has given up.

    Returns:
        One row per broker; time_ns is when it told of the last one. `node` says which, `batches`
        how many, by its own count. Kind `damaged` where a fault may have changed bytes.

    Source: KAFKA-8729, InvalidMessageCrcRecordsPerSec; KAFKA-19012.
    """
    return offences(
        refusals.where(F.col("batches") > 0), time_ns="at_ns", detail=columns("node", "batches")
    )
