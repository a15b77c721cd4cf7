"""Clusters that were not whole again within the bound after the last healing."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "isr-not-whole",
    severity=Severity.DELAYED,
    one="replica or broker had not come back after the last healing",
    many="replicas and brokers had not come back after the last healing",
)
def isr_not_whole(recoveries: DataFrame) -> DataFrame:
    """Return what was missing when the bound after the last healing had run out.

    Returns:
        One row per replica that was not in the ISR, partition without a leader, and broker that was
        not registered. time_ns is when the wait ended; `bound_s` how long it was to last at most;
        `missing` the broker, `leader` and `isr` what the partition had, and `caught_up_s` for how
        long the replica had held all that its leader held. Kind `caught-up`: for more than 30 s, by
        the files on both disks; `behind`: it had not.

    Source: Kafka documentation, replication design.
    """
    return offences(
        recoveries.where(F.col("kind").isNotNull()),
        time_ns="to_ns",
        detail={
            **columns("missing", "leader", "isr"),
            "caught_up_s": F.round(F.col("caught_up_ns") / 1e9, 3),
            "bound_s": F.round(F.col("bound_ns") / 1e9, 3),
        },
    )
