"""Transactions of which the log holds some records and lacks others."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns
from verifiers.frames.losses import with_causes

_KINDS = ("decided", "divergent", "explained", "last-known", "partly-destroyed", "destroyed")
"""The kinds, the worst first."""


@checker(
    "torn-transaction",
    severity=Severity.FALSE,
    one="transaction is there in part only",
    many="transactions are there in part only",
)
def torn_transaction(
    txns: DataFrame, parts: DataFrame, losses: DataFrame, loss_causes: DataFrame
) -> DataFrame:
    """Return the transactions of which the final read has some records and lacks others.

    Committed transactions count, and transactions of unknown outcome: they too must be in the log
    as a whole or not at all. Records of aborted transactions are G1a. A record beyond the end of
    the final read counts as neither found nor lacking.

    Returns:
        One row per transaction, at the lowest record that is lacking; `found` and `lacking` in the
        detail count its records, `type` is ok (committed) or info (unknown). The kind is how its
        records were lost, as `lost-write` has it, of several kinds the worst; "decided" if the log
        that counts has one that is lacking, or if nothing explains its loss: then the transaction
        was committed in one partition and aborted in another.

    Source: atomicity of transactions, KIP-98.
    """
    outcomes = txns.select("process", "txn", F.col("type").alias("outcome"))
    lacking = ~F.col("found") & F.col("searched")
    fates = _fates(parts.where(lacking), losses, loss_causes)
    first = F.struct("topic", "partition", "offset", "value")
    torn = (
        parts.join(fates, ["topic", "value"], "left")
        .groupBy("process", "txn")
        .agg(
            F.count_if("found").alias("present"),
            F.count_if(lacking).alias("absent"),
            F.min(F.when(lacking, first)).alias("first"),
            F.min(F.when(lacking, F.coalesce("rank", F.lit(0)))).alias("rank"),
            F.max("complete_ns").alias("complete_ns"),
        )
        .where((F.col("present") > 0) & (F.col("absent") > 0))
        .join(outcomes, ["process", "txn"])
    )
    return offences(
        torn.select("*", "first.*"),
        kind=F.get(_ranks(), F.col("rank")),
        time_ns="complete_ns",
        detail=columns("txn", type="outcome", found="present", lacking="absent"),
    )


def _fates(lacking: DataFrame, losses: DataFrame, loss_causes: DataFrame) -> DataFrame:
    """Return how records were lost: topic, value, and the `rank` of the kind among _KINDS.

    Of what was acknowledged it is known where it lay.
    """
    unknown = lacking.where(F.col("type") == "info").select(
        "topic", "partition", "offset", "value", "invoke_ns", "complete_ns",
        *(
            F.lit(None).cast("string").alias(name)
            for name in ("held_by", "lacking", "replaced_on", "marker")
        ),
        F.lit(None).cast("long").alias("marker_at"),
    )  # fmt: skip
    kinds = losses.select("topic", "value", "kind").unionByName(
        with_causes(unknown, loss_causes).select("topic", "value", "kind")
    )
    rank = (F.array_position(_ranks(), F.col("kind")) - 1).cast("int")
    return kinds.select("topic", "value", F.when(rank > 0, rank).otherwise(0).alias("rank"))


def _ranks() -> Column:
    return F.array(*(F.lit(kind) for kind in _KINDS))
