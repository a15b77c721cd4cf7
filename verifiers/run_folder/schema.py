"""The declared columns of a run's history, and of the anomalies that checkers find."""

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import MapType, StructType

from harness.history.seal import SCHEMAS
from verifiers.spark.columns import BOOL, INT, LONG, TEXT, declared, struct

HISTORY_SCHEMAS: dict[str, StructType] = {
    dataset: from_arrow_schema(schema) for dataset, schema in SCHEMAS.items()
}
"""The datasets of a sealed history, by the name of their folder (`harness.history.format`).

send   one row per completed send; `op` is its sequence number
poll   one row per record that a consumer was given, in the order it was given
final  one row per record of the final read, as poll
txn    one row per transaction; `txn` is its number within the process
event  one row per anything else that a client did or met
"""

SEND_SCHEMA, POLL_SCHEMA = HISTORY_SCHEMAS["send"], HISTORY_SCHEMAS["poll"]
# We always seal a time; the format allows others to leave it out.
SEND_SCHEMA["complete_ns"].nullable = True

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

ANOMALY_SCHEMA = struct(
    topic=TEXT, partition=INT, offset=LONG, value=LONG, process=INT, time_ns=LONG, kind=TEXT
).add("detail", MapType(TEXT, TEXT), nullable=False)
"""What a checker returns: one row per offence.

`topic` and `partition` say where (the partition may be unknown), `offset` and `value` which
record, `process` which client, `time_ns` when on our monotonic clock. `kind` refines the
anomaly for the oracle. `detail` holds what else a person wants to know, by name.
"""
