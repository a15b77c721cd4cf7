"""The facts that the detail of an anomaly holds: of a send, of its reads, of two replicas."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from verifiers.frames.history import producer_of, sequence_of


def send_details() -> dict[str, Column]:
    """Return, of a row of `values`, the send's outcome and who read the record later."""
    return {
        "producer": F.coalesce(F.col("process"), producer_of(F.col("value"))),
        "sequence": sequence_of(F.col("value")),
        "last_read_offset": F.coalesce("final_last", "poll_last"),
        **columns("invoke_ns", "complete_ns", acked_offset="offset", polled="polls"),
        **columns(last_reader="reader", last_read_ns="polled_ns"),
    }


def read_details() -> dict[str, Column]:
    """Return the facts of `send_details`, and the outcome of the send."""
    return send_details() | columns(
        send_type="type", finally_read="finals", sent_partition="partition"
    )


def pair_details() -> dict[str, Column]:
    """Return, of a row of `producing`, both sends and where they lie."""
    return {
        "after_sequence": sequence_of(F.col("prev_value")),
        **columns(producer="process", sequence="op"),
        **columns(after_value="prev_value", after_offset="prev_position"),
    }


def difference_details() -> dict[str, Column]:
    """Return, of a row of `differences`, which replicas differ and what each of them holds."""
    return columns(
        *("broker", "other_broker", "epoch", "other_epoch", "holds", "other_holds"),
        last_offset="last",
    )


def columns(*names: str, **renamed: str) -> dict[str, Column]:
    """Return columns as facts of a detail, under their own names or under new ones."""
    return {name: F.col(name) for name in names} | {
        name: F.col(column) for name, column in renamed.items()
    }
