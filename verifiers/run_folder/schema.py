"""The declared columns of a run's history and of what is found in it."""

from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def _column(name: str, kind: type[DataType], *, null: bool = False) -> StructField:
    return StructField(name, kind(), nullable=null)


SEND_SCHEMA = StructType(
    [
        _column("process", IntegerType),
        _column("op", LongType),
        _column("type", StringType),
        _column("topic", StringType),
        _column("partition", IntegerType, null=True),
        _column("offset", LongType, null=True),
        _column("value", LongType),
        _column("invoke_ns", LongType, null=True),
        _column("complete_ns", LongType, null=True),
        _column("error", StringType, null=True),
        _column("txn", LongType, null=True),
    ]
)
"""`history/send`: one row per completed send; `op` is its sequence number."""

POLL_SCHEMA = StructType(
    [
        _column("process", IntegerType),
        _column("op", LongType),
        _column("position", IntegerType),
        _column("topic", StringType),
        _column("partition", IntegerType),
        _column("offset", LongType),
        _column("value", LongType, null=True),
        _column("time_ns", LongType),
        _column("problem", StringType, null=True),
        _column("txn", LongType, null=True),
    ]
)
"""`history/poll`: one row per record that a consumer was given, in the order it was given."""

FINAL_SCHEMA = POLL_SCHEMA
"""`history/final`: one row per record of the final read, as `history/poll`."""

TXN_SCHEMA = StructType(
    [
        _column("process", IntegerType),
        _column("txn", LongType),
        _column("type", StringType),
        _column("invoke_ns", LongType),
        _column("complete_ns", LongType),
        _column("committing", BooleanType),
        _column("error", StringType, null=True),
    ]
)
"""`history/txn`: one row per transaction; `txn` is its number within the process."""

EVENT_SCHEMA = StructType(
    [
        _column("process", IntegerType),
        _column("op", LongType, null=True),
        _column("f", StringType),
        _column("topic", StringType, null=True),
        _column("partition", IntegerType, null=True),
        _column("offset", LongType, null=True),
        _column("time_ns", LongType),
        _column("detail", StringType, null=True),
    ]
)
"""`history/event`: one row per anything else that a client did or met."""

HISTORY_SCHEMAS = {
    "send": SEND_SCHEMA,
    "txn": TXN_SCHEMA,
    "poll": POLL_SCHEMA,
    "final": FINAL_SCHEMA,
    "event": EVENT_SCHEMA,
}
"""The datasets of a sealed history, by the name of their folder."""

YOUNGER_COLUMNS = frozenset({"txn"})
"""Columns of `send`, `poll` and `final` that older folders lack; they count as null there."""

ENDS_SCHEMA = StructType(
    [
        _column("topic", StringType),
        _column("partition", IntegerType),
        _column("reached", LongType),
        _column("complete", BooleanType),
    ]
)
"""How far the final read got: all below `reached` was read; partition -1 stands for its topic."""

ANOMALY_SCHEMA = StructType(
    [
        _column("topic", StringType, null=True),
        _column("partition", IntegerType, null=True),
        _column("offset", LongType, null=True),
        _column("value", LongType, null=True),
        _column("process", IntegerType, null=True),
        _column("time_ns", LongType, null=True),
        _column("kind", StringType, null=True),
        StructField("detail", MapType(StringType(), StringType()), nullable=False),
    ]
)
"""What a checker returns: one row per offence.

`topic` and `partition` say where (the partition may be unknown), `offset` and `value` which
record, `process` which client, `time_ns` when on our monotonic clock. `kind` refines the
anomaly for the oracle. `detail` holds what else a person wants to know, by name.
"""
