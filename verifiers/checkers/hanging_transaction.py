"""Transactions that lie open in a partition though they are over, or ought to be."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns

_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


@checker(
    "hanging-transaction",
    severity=Severity.DELAYED,
    one="transaction lies open in a partition for ever",
    many="transactions lie open in partitions for ever",
)
def hanging_transaction(
    unmarked: DataFrame, coordinators: DataFrame, transactional_ids: DataFrame
) -> DataFrame:
    """Return the transactions without a marker that their coordinators do not account for.

    What the coordinators know was copied before the replicas were, so what had ended by then must
    have its markers in them.

    Returns:
        One row per producer id and partition, at the first offset of what lies open. Kind `ended`:
        the coordinator has ended the transaction, or the producer began another one; `not-added`:
        it is ongoing, and the partition is no part of it; `forgotten`: no coordinator knows the
        producer id; `overdue`: it is ongoing, and its time has run out; `unmarked`: it is decided,
        and the marker ought to be written. `state`, `transactional_id`, `producer_id` and
        `producer_epoch` say whose it is, `last_offset` and `broker` where it lies.

    Source: KIP-664, hanging transactions; KIP-98.
    """
    known = transactional_ids.withColumnRenamed("producer_epoch", "coordinator_epoch")
    met = unmarked.join(F.broadcast(coordinators), "topic").join(
        F.broadcast(known), ["topic", "producer_id"], "left"
    )
    state, is_late = F.col("state"), F.col("asked_ns") > F.col("due_ns")
    began_another = F.col("coordinator_epoch") > F.col("producer_epoch")
    is_added = F.array_contains("partitions", F.col("partition"))
    kind = (
        F.when(state.isNull(), "forgotten")
        .when(state.isin(*_ENDED), "ended")
        .when(state == "Ongoing", F.when(began_another, "ended").when(~is_added, "not-added")
              .when(is_late, "overdue"))
        .when(is_late, "unmarked")
    )  # fmt: skip
    hanging = met.withColumn("kind", kind).where(F.col("kind").isNotNull())
    whose = columns("producer_id", "producer_epoch", "transactional_id", "state")
    return offences(hanging, detail=whose | columns("last_offset", "batches", "broker"))
