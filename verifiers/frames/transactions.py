"""Frames of transactions: what they read of each other or too early, and what is missing."""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import ANY_PARTITION, History, readable, was_searched, with_ends
from verifiers.frames.shared import shared_frame

_VALUE = ["topic", "value"]


def _by(uncommitted: AbstractSet[int]) -> Column:
    return F.col("process").isin(*sorted(uncommitted))


def committed_reads(
    polls: DataFrame, sends: DataFrame, final: DataFrame, uncommitted: AbstractSet[int]
) -> DataFrame:
    """Return the polls without what read_uncommitted readers saw of undecided transactions.

    Such a reader receives records as they are appended. If their transaction is not committed
    later, these reads prove nothing about the log that other readers see: no checker may use them.

    Args:
        polls: all polls, columns of POLL_SCHEMA.
        sends: all sends.
        final: the final read: what it was given was committed, whatever its producer was told.
        uncommitted: the processes that read with isolation.level=read_uncommitted.
    """
    if not uncommitted:
        return polls
    # A damaged record is kept, whichever reader received it.
    early = _by(uncommitted) & F.col("problem").isNull()
    # The transaction of a send that a killed client had only reserved is not known.
    reserved = (F.col("type") == "info") & F.col("invoke_ns").isNull()
    doubtful = (F.col("type") != "ok") & (F.col("txn").isNotNull() | reserved)
    unsure = sends.where(doubtful).select(*_VALUE)
    committed = readable(final).join(F.broadcast(unsure), _VALUE, "left_semi")
    undecided = unsure.join(committed, _VALUE, "left_anti")
    rest = polls.where(early).join(undecided, _VALUE, "left_anti")
    return polls.where(~early).unionByName(rest)


def aborted_reads(polls: DataFrame, sends: DataFrame, uncommitted: AbstractSet[int]) -> DataFrame:
    """Return the polls by read_uncommitted readers of records whose transaction was aborted.

    Columns:
        topic, partition, offset, value, process, time_ns: of the poll.
        sent_by, txn, complete_ns: who sent it, in which transaction, and when that had ended.
    """
    aborted = sends.where((F.col("type") == "fail") & F.col("txn").isNotNull()).select(
        "topic", "value", F.col("process").alias("sent_by"), "txn", "complete_ns"
    )
    early = polls.where(_by(uncommitted) if uncommitted else F.lit(False))
    return early.drop("txn").join(aborted, _VALUE).select(
        "topic", "partition", "offset", "value", "process", "time_ns", "sent_by", "txn",
        "complete_ns",
    )  # fmt: skip


@shared_frame("transactors")
def transactors(txns: DataFrame) -> DataFrame:
    """Return the processes that did transactions: process."""
    return txns.select("process").distinct()


def parts(history: History, values: DataFrame) -> DataFrame:
    """Return the sends of the transactions of which the final read may hold only a part.

    These transactions have an acknowledged record that the final read lacks, or a record of unknown
    outcome that it has. Sends that the client refused do not count.

    Columns:
        process, txn: which transaction.
        topic, partition, offset, value, type, invoke_ns, complete_ns: the send.
        found: whether the final read has it.
        searched: whether it certainly looked where the record should be.
    """
    # If there are no transactions, this tells Spark that nothing has to be read.
    inside = F.lit(history.transactional) & F.col("txn").isNotNull()
    sends = history.sends.where(inside & F.col("type").isin("ok", "info")).select(
        "process", "txn", "topic", "partition", "offset", "value", "type", "invoke_ns",
        "complete_ns",
    )  # fmt: skip
    suspicious = values.where(
        ((F.col("type") == "ok") & (F.col("finals") == 0))
        | ((F.col("type") == "info") & (F.col("finals") > 0))
    ).select(*_VALUE)
    suspects = sends.join(suspicious, _VALUE).select("process", "txn")
    members = sends.join(suspects.distinct(), ["process", "txn"])
    read = (
        readable(history.final)
        .join(members.select(*_VALUE), _VALUE, "left_semi")
        .select("topic", "value", F.lit(True).alias("found"))
        .distinct()
    )
    place = F.coalesce("partition", F.lit(ANY_PARTITION))
    joined = with_ends(members.join(read, _VALUE, "left"), history.ends, place)
    return joined.select(
        *sends.columns,
        F.coalesce("found", F.lit(False)).alias("found"),
        was_searched(F.col("offset")).alias("searched"),
    )


def txn_reads(history: History) -> DataFrame:
    """Return the records that a transaction was given and that a transaction had sent.

    Columns:
        process, txn: which transaction was given it.
        sent_by, sent_in: which transaction had sent it: process and number.
        topic, partition, offset, value, time_ns: of the poll.
    """
    # If there are no transactions, this tells Spark that nothing has to be read.
    inside = F.lit(history.transactional) & F.col("txn").isNotNull()
    sent = history.sends.where(inside).select(
        "topic", "value", F.col("process").alias("sent_by"), F.col("txn").alias("sent_in")
    )
    given = readable(history.polls).where(inside)
    return given.join(sent, _VALUE).select(
        "process", "txn", "sent_by", "sent_in", "topic", "partition", "offset", "value", "time_ns"
    )
