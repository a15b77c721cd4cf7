"""Partitions that took no writes although the faults left enough brokers."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences


@checker(
    "unavailable",
    severity=Severity.DELAYED,
    one="gap without an acknowledgement was longer than the scenario allows",
    many="gaps without an acknowledgement were longer than the scenario allows",
)
def unavailable(sends: DataFrame, demands: DataFrame) -> DataFrame:
    """Return the gaps between acknowledgements that are longer than the scenario allows.

    When a fault is healed, there is as much time again.

    Returns:
        One row per gap: time_ns is when it begins, `gap_s` how long it is, `bound_s` how long it
        may be. Partitions to which no send is known to have gone do not count.

    Source: the liveness that a run's scenario asks for.
    """
    acked = sends.where((F.col("type") == "ok") & F.col("complete_ns").isNotNull()).select(
        "topic", "partition", F.col("complete_ns").alias("at_ns")
    )
    windows = F.broadcast(demands)
    is_demanded = F.col("at_ns").between(F.col("from_ns"), F.col("to_ns"))
    within = acked.join(windows, "topic").where(is_demanded)
    tried = sends.where(F.col("partition").isNotNull())
    partitions = tried.select("topic", "partition").distinct().join(windows, "topic")
    edges = partitions.select("*", F.explode(F.array("from_ns", "to_ns")).alias("at_ns"))
    order = Window.partitionBy("topic", "partition", "from_ns").orderBy("at_ns")
    gaps = within.unionByName(edges).withColumn("since_ns", F.lag("at_ns").over(order))
    long = gaps.where(F.col("at_ns") - F.col("since_ns") > F.col("bound_ns"))
    return offences(
        long,
        time_ns="since_ns",
        detail={
            "gap_s": F.round((F.col("at_ns") - F.col("since_ns")) / 1e9, 3),
            "bound_s": F.round(F.col("bound_ns") / 1e9, 3),
            "until_ns": F.col("at_ns"),
        },
    )
