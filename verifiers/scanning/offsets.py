"""Frames by offset: which offsets of a partition hold a record, and which hold more than one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.frames.history import History, legible, readable
from verifiers.scanning import block_digests
from verifiers.scanning.block_digests import BLOCK_BITS, FINAL_READ, PRODUCERS
from verifiers.spark.columns import INT, LONG, TEXT, struct

_BLOCK = ["topic", "partition", "block"]

SLOTS_SCHEMA = struct(
    topic=TEXT, partition=INT, offset=LONG, low=LONG, high=LONG, read_low=LONG, read_high=LONG,
    time_ns=LONG,
)  # fmt: skip


def log(history: History, *, by_scan: bool = False) -> DataFrame:
    """Return which offsets are known to hold a record, and in which blocks all witnesses agree.

    Witnesses are the producers' acknowledgements together, each consumer, and the final read.

    Args:
        history: the recorded frames.
        by_scan: let numpy scan the records (block_digests.py) instead of Spark. That is faster
            from a million records on, and the result is the same.

    Columns:
        topic, partition, block: the offsets from `block << 6`.
        bits: bit i is set if offset `(block << 6) + i` was acknowledged, polled or read finally.
        final_bits, final_reads: the same of the final read alone, and how many records it gave:
            more than there are bits if an offset came twice.
        alike: whether producers and final read are both witnesses here, and every witness names
            the same offsets, each once, with the same values (digests.py).
        witnessed: how many records all witnesses name together.
    """
    by_witness = block_digests.blocks(history) if by_scan else _by_witness(history)
    final = F.col("witness") == FINAL_READ
    each_once = (F.col("records") == F.bit_count("bits")) & (F.col("legible") == F.col("records"))
    alike = (
        F.bool_or(F.col("witness") == PRODUCERS)
        & F.bool_or(final)
        & F.bool_and(each_once)
        & (F.min("bits") == F.max("bits"))
        & (F.min("digest") == F.max("digest"))
    )
    return by_witness.groupBy(*_BLOCK).agg(
        F.bit_or("bits").alias("bits"),
        F.bit_or(F.when(final, F.col("bits"))).alias("final_bits"),
        F.coalesce(F.max(F.when(final, F.col("records"))), F.lit(0)).alias("final_reads"),
        F.coalesce(alike, F.lit(False)).alias("alike"),
        F.sum("records").alias("witnessed"),
    )


def bounds(block: int, bits: int) -> tuple[int, int]:
    """Return the first and the last offset of those that a block of `log` names; not none."""
    unsigned = bits & (1 << (1 << BLOCK_BITS)) - 1
    lowest = (unsigned & -unsigned).bit_length() - 1
    return (block << BLOCK_BITS) + lowest, (block << BLOCK_BITS) + unsigned.bit_length() - 1


def _by_witness(history: History) -> DataFrame:
    place = ["topic", "partition", "offset"]
    acknowledged = _acknowledged(history).select(*place, "value", F.lit(PRODUCERS).alias("witness"))
    polled, finally_read = (
        reads.select(*place, F.when(legible(), F.col("value")).alias("value"), witness)
        for reads, witness in (
            (history.polls, F.col("process").alias("witness")),
            (history.final, F.lit(FINAL_READ).alias("witness")),
        )
    )
    bit = F.expr(f"shiftleft(1L, cast(offset & {(1 << BLOCK_BITS) - 1} as int))")
    return (
        acknowledged.unionByName(polled)
        .unionByName(finally_read)
        .groupBy("topic", "partition", F.shiftright("offset", BLOCK_BITS).alias("block"), "witness")
        .agg(
            F.bit_or(bit).alias("bits"),
            F.count("*").alias("records"),
            F.count("value").alias("legible"),
            # Where each offset occurs once, as `alike` demands, the exclusive or of the hashes is
            # as good as their sum, and cannot overflow.
            F.bit_xor(F.when(F.col("value").isNotNull(), F.xxhash64("offset", "value"))).alias(
                "digest"
            ),
        )
    )


def _acknowledged(history: History) -> DataFrame:
    """Return the acknowledged sends whose place is known."""
    placed = F.col("offset").isNotNull() & F.col("partition").isNotNull()
    return history.sends.where((F.col("type") == "ok") & placed)


def suspects(values: DataFrame, log: DataFrame) -> DataFrame:
    """Return a row for each reason to compute `slots`; without any, `slots` is empty."""
    suspicious = values.where(values["first"].isNotNull()).select(F.lit(1).alias("one"))
    return suspicious.unionByName(_read_twice(log).select(F.lit(1).alias("one")))


def _read_twice(log: DataFrame) -> DataFrame:
    return log.where(F.col("final_reads") > F.bit_count("final_bits")).select(*_BLOCK)


def slots(history: History, values: DataFrame, log: DataFrame) -> DataFrame:
    """Return the offsets that are known to hold more than one value (SLOTS_SCHEMA).

    Two values at one offset cannot both be in order unless the final read returned that offset
    twice. So only offsets in the blocks of such reads, and of values in `values`, are compared.

    Columns:
        topic, partition, offset: the key.
        low, high: the lowest and the highest value known there.
        read_low, read_high: the same among polls and final reads; null if nobody read there.
        time_ns: when the last of them was acknowledged; if none was, when the last was read.
    """
    placed = ["topic", "partition", "offset", "value"]
    acknowledged = _acknowledged(history).select(
        *placed,
        F.lit(None).cast("long").alias("read"),
        F.col("complete_ns").alias("time_ns"),
    )
    polled, finally_read = (
        readable(reads).select(*placed, F.col("value").alias("read"), "time_ns")
        for reads in (history.polls, history.final)
    )
    reads = polled.unionByName(finally_read)
    evidence = acknowledged.unionByName(reads).withColumn(
        "block", F.shiftright("offset", BLOCK_BITS)
    )
    suspicious = values.select("topic", "value").where(values["first"].isNotNull())
    near = (
        evidence.join(suspicious, ["topic", "value"], "left_semi")
        .select(*_BLOCK)
        .unionByName(_read_twice(log))
        .distinct()
    )
    # There is at most one block for 64 offsets.
    suspects = F.broadcast(near)
    return (
        evidence.join(suspects, _BLOCK, "left_semi")
        .groupBy("topic", "partition", "offset")
        .agg(
            F.min("value").alias("low"),
            F.max("value").alias("high"),
            F.min("read").alias("read_low"),
            F.max("read").alias("read_high"),
            # The final read takes place long after the anomaly happened.
            F.coalesce(
                F.max(F.when(F.col("read").isNull(), F.col("time_ns"))), F.max("time_ns")
            ).alias("time_ns"),
        )
        .where(F.col("low") < F.col("high"))
    )
