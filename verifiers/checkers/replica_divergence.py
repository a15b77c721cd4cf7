"""Offsets at which two replicas hold different batches on disk."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import difference_details
from verifiers.frames.history import producer_of


@checker(
    "replica-divergence",
    severity=Severity.DIFFERENT,
    one="stretch of offsets holds other records on another replica",
    many="stretches of offsets hold other records on another replica",
)
def replica_divergence(differences: DataFrame) -> DataFrame:
    """Return where two replicas hold different batches below the high watermark, at rest.

    Returns:
        One row per pair of batches; offset is the first at which they differ, `last_offset` in
        the detail the last. Kind "in-sync" if the other replica was in the ISR when the run
        ended, so that it counts as a copy and may lead; else "out-of-sync": it cuts its log
        before it is let in again. An end that such a replica lacks is no divergence. Value is
        what the leader holds at the offset, or whoever stands for it; `other_value` what the
        other one has; `holds` and `other_holds` name the records on each side.

    Source: KIP-101, scenario 2.
    """
    return offences(
        differences.where(~F.col("same_records")),
        offset="first",
        process=producer_of(F.col("value")),
        kind=F.when(F.col("in_sync"), "in-sync").otherwise("out-of-sync"),
        detail=difference_details() | {"other_value": F.col("other_value")},
    )
