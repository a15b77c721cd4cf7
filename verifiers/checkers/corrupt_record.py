"""Records that differ from what their producer sent, as read or as stored on a disk."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "corrupt-record",
    severity=Severity.FALSE,
    one="record came back, or lies on a disk, damaged",
    many="records came back, or lie on a disk, damaged",
)
def corrupt_record(polls: DataFrame, final: DataFrame, damaged: DataFrame) -> DataFrame:
    """Return the records that differ from what their producer sent, as read or on a disk.

    Returns:
        One row per record given; kind is the problem: checksum, run, topic or format. The value
        is null if it could not be made out. And one row per batch on a disk; kind "disk" if its
        replica was in the ISR at the end, else "disk-out-of-sync".

    Source: Kafka documentation, message format: CRC-32C of v2 batches, CRC-32 before.
    """
    broken = F.col("problem").isNotNull()
    rows = polls.where(broken).withColumn("read_by", F.lit("consumer"))
    rows = rows.unionByName(final.where(broken).withColumn("read_by", F.lit("final read")))
    given = offences(rows, kind="problem", detail=columns("read_by", "position", poll="op"))
    batches = offences(
        damaged,
        kind=F.when(F.col("in_sync"), "disk").otherwise("disk-out-of-sync"),
        detail=columns("broker", "problem", "segment", "position", "size", "last_offset"),
    )
    return given.unionByName(batches)
