"""The facts that the detail of an anomaly holds: of a send, of its reads, of two replicas."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from verifiers.frames.history import producer_of, sequence_of


def send_details() -> dict[str, Column]:
    """Return, from a row of `values`, what its producer was told and who saw the record since."""
    return {
        "producer": F.coalesce(F.col("process"), producer_of(F.col("value"))),
        "sequence": sequence_of(F.col("value")),
        "last_read_offset": F.coalesce("final_last", "poll_last"),
        **columns("invoke_ns", "complete_ns", acked_offset="offset", polled="polls"),
        **columns(last_reader="reader", last_read_ns="polled_ns"),
    }


def read_details() -> dict[str, Column]:
    """Return the same, and whether the send was known to have happened."""
    return send_details() | columns(
        send_type="type", finally_read="finals", sent_partition="partition"
    )


def difference_details() -> dict[str, Column]:
    """Return, from a row of `differences`, whose batches differ, until where, and what is held."""
    return columns(
        *("broker", "other_broker", "epoch", "other_epoch", "holds", "other_holds"),
        last_offset="last",
    )


def columns(*names: str, **renamed: str) -> dict[str, Column]:
    """Return columns as facts of a detail: under their own names, or under the ones given."""
    return {
        name: F.col(column)
        for name, column in (dict(zip(names, names, strict=True)) | renamed).items()
    }
