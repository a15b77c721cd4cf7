"""What an anomaly's detail tells of a record: who wrote it, what became of it, who read it."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from verifiers.frames.history import producer_of, sequence_of


def send_story() -> dict[str, Column]:
    """Return, from a row of `values`, what its producer was told and who saw the record since."""
    return {
        "producer": F.coalesce(F.col("process"), producer_of(F.col("value"))),
        "sequence": sequence_of(F.col("value")),
        "acked_offset": F.col("offset"),
        "invoke_ns": F.col("invoke_ns"),
        "complete_ns": F.col("complete_ns"),
        "polled": F.col("polls"),
        "last_reader": F.col("reader"),
        "last_read_ns": F.col("polled_ns"),
        "last_read_offset": F.coalesce("final_last", "poll_last"),
    }


def read_story() -> dict[str, Column]:
    """Return the same, and whether the send was known to have happened."""
    return send_story() | {
        "send_type": F.col("type"),
        "finally_read": F.col("finals"),
        "sent_partition": F.col("partition"),
    }
