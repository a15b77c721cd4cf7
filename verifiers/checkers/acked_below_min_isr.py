"""Sends that a leader acknowledged while its ISR was smaller than min.insync.replicas."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "acked-below-min-isr",
    severity=Severity.TOO_EARLY,
    one="send was acknowledged with too few replicas in sync",
    many="sends were acknowledged with too few replicas in sync",
)
def acked_below_min_isr(sends: DataFrame, shortages: DataFrame) -> DataFrame:
    """Return the sends that were acknowledged while fewer than min.insync.replicas were in sync.

    Only sends count that were invoked after the leader itself had said that its ISR is too small,
    and acknowledged before it can have changed: neither metadata that comes late nor a clock can
    make one of them up.

    Returns:
        One row per send; `leader` and `isr` are what the leader had, from `short_from_ns` to
        `short_to_ns` for sure.

    Source: Kafka documentation, min.insync.replicas; KIP-966.
    """
    acked = sends.where((F.col("type") == "ok") & F.col("invoke_ns").isNotNull())
    within = acked.join(F.broadcast(shortages), ["topic", "partition"]).where(
        (F.col("invoke_ns") >= F.col("from_ns"))
        & (F.col("complete_ns") <= F.col("to_ns"))
        & F.array_contains("producers", F.col("process"))
    )
    return offences(
        within,
        time_ns="complete_ns",
        detail=columns("leader", "isr", "invoke_ns", short_from_ns="from_ns", short_to_ns="to_ns"),
    )
