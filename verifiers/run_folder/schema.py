"""The declared columns of a run's history, and of the anomalies that checkers find."""

from pyspark.sql.types import (
    MapType,
    StringType,
    StructField,
    StructType,
)

from verifiers.spark.columns import BOOL, INT, LONG, TEXT, declared, struct

SEND_SCHEMA = declared(
    "partition",
    "offset",
    "invoke_ns",
    "complete_ns",
    "error",
    "txn",
    process=INT,
    op=LONG,
    type=TEXT,
    topic=TEXT,
    partition=INT,
    offset=LONG,
    value=LONG,
    invoke_ns=LONG,
    complete_ns=LONG,
    error=TEXT,
    txn=LONG,
)
"""`history/send`: one row per completed send; `op` is its sequence number."""

POLL_SCHEMA = declared(
    "value",
    "problem",
    "txn",
    process=INT,
    op=LONG,
    position=INT,
    topic=TEXT,
    partition=INT,
    offset=LONG,
    value=LONG,
    time_ns=LONG,
    problem=TEXT,
    txn=LONG,
)
"""`history/poll`: one row per record that a consumer was given, in the order it was given."""

FINAL_SCHEMA = POLL_SCHEMA
"""`history/final`: one row per record of the final read, as `history/poll`."""

TXN_SCHEMA = declared(
    "error",
    process=INT,
    txn=LONG,
    type=TEXT,
    invoke_ns=LONG,
    complete_ns=LONG,
    committing=BOOL,
    error=TEXT,
)
"""`history/txn`: one row per transaction; `txn` is its number within the process."""

EVENT_SCHEMA = declared(
    "op",
    "topic",
    "partition",
    "offset",
    "detail",
    process=INT,
    op=LONG,
    f=TEXT,
    topic=TEXT,
    partition=INT,
    offset=LONG,
    time_ns=LONG,
    detail=TEXT,
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

ABORTED_READS_SCHEMA = struct(
    topic=TEXT, partition=INT, offset=LONG, value=LONG, process=INT, time_ns=LONG, sent_by=INT,
    txn=LONG, complete_ns=LONG,
)  # fmt: skip
"""What read_uncommitted readers saw of aborted transactions (frames/transactions.py)."""

ENDS_SCHEMA = declared(topic=TEXT, partition=INT, low=LONG, reached=LONG, complete=BOOL)
"""How far the final read got: all from `low`, the first offset of the log, to below `reached` was
read; partition -1 stands for its topic.
"""

_PLACE = struct(
    topic=TEXT, partition=INT, offset=LONG, value=LONG, process=INT, time_ns=LONG, kind=TEXT
)
_DETAIL = StructField("detail", MapType(StringType(), StringType()), nullable=False)
ANOMALY_SCHEMA = StructType([*_PLACE.fields, _DETAIL])
"""What a checker returns: one row per offence.

`topic` and `partition` say where (the partition may be unknown), `offset` and `value` which
record, `process` which client, `time_ns` when on our monotonic clock. `kind` refines the
anomaly for the oracle. `detail` holds what else a person wants to know, by name.
"""
