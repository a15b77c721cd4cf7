"""What an anomaly's detail tells of a record, or of two replicas that hold another one each."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from verifiers.frames.history import producer_of, sequence_of


def send_details() -> dict[str, Column]:
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


def read_details() -> dict[str, Column]:
    """Return the same, and whether the send was known to have happened."""
    return send_details() | {
        "send_type": F.col("type"),
        "finally_read": F.col("finals"),
        "sent_partition": F.col("partition"),
    }


def difference_details() -> dict[str, Column]:
    """Return, from a row of `differences`, whose batches differ, until where, and what is held."""
    return {
        "last_offset": F.col("last"),
        "broker": F.col("broker"),
        "other_broker": F.col("other_broker"),
        "epoch": F.col("epoch"),
        "other_epoch": F.col("other_epoch"),
        "holds": F.col("holds"),
        "other_holds": F.col("other_holds"),
    }
