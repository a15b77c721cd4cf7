"""The declared columns of op histories, as they are parsed and as checkers know them."""

from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from verifiers.spark.columns import BYTE, INT, LONG, TEXT, declared

_KEYS = ArrayType(StringType(), containsNull=False)

OPS_SCHEMA = declared(
    "invoke_ns", "complete_ns", "keys", "rebalanced", "error",
    run=INT, op=LONG, invoked=LONG, process=LONG, type=TEXT, f=TEXT, invoke_ns=LONG,
    complete_ns=LONG, keys=_KEYS, rebalanced=_KEYS, error=TEXT,
)  # fmt: skip
"""One row per op.

`run` is the position of its file among those that are verified together, `op` the index of its
completion and `invoked` that of its invocation. An op that never completed is an INFO whose `op` is
the index of its invocation and whose `complete_ns` is null. `keys` are those of an assign or
subscribe, `rebalanced` those that its rebalance-log names.
"""

MOPS_SCHEMA = declared(
    "offset",
    run=INT, op=LONG, process=LONG, type=TEXT, f=TEXT, mop=INT, position=INT, kind=TEXT, key=TEXT,
    offset=LONG, value=LONG, invoked=LONG,
)  # fmt: skip
"""One row per value that an op sent or polled.

`mop` is the index of the micro-op, `position` the order of the values of the op over all its
micro-ops, `kind` send or poll. Values are those of the completion; of an op that never completed,
the sends of its invocation, without offsets. `invoked` is as in OPS_SCHEMA.
"""

PARSED_SCHEMA = StructType(
    [
        *declared("line", row=BYTE, run=INT, split=INT, line=INT).fields,
        *(
            StructField(field.name, field.dataType, nullable=True)
            for field in [*OPS_SCHEMA.fields[1:], *MOPS_SCHEMA.fields[5:-1]]
        ),
    ]
)
"""What the parser tells of a split of a file: one frame of several kinds of rows (`row`).

Each kind fills its own columns. `line` counts from 0 within the split.
"""

OP, MOP, BEGIN, ORPHAN, OPEN, OPEN_MOP, PROBLEM, COUNT, SPLIT, LAG, FILE = range(11)
"""Kinds of rows of PARSED_SCHEMA.

OP, MOP
    an op, a value of one: completed, or of the file's last split.
BEGIN
    the first event of a process in a split is this invocation (not told of a file's first split).
ORPHAN
    the first event of a process in a split is this completion; its values are MOPs already.
OPEN, OPEN_MOP
    an invocation that is not completed in its split, a value that it was to send (not told of a
    file's last split: such ops never complete).
PROBLEM
    of a file of several splits: an event that cannot stand where it does: why in `error`.
COUNT
    of a file of several splits: how many ops never complete (`kind` open), and how many values they
    may have sent (pending), in `value`.
SPLIT
    one a split: in `error` its summary (`parser.Parser.summary`), a JSON object, with the
    `suspects` of `description.Described`.
LAG
    of a file that is one split: the worst lag of a `process` and `key` (lags.py): `value` is
    the lag (ns), `invoke_ns` and `op` are of the poll.
FILE
    a Parquet file that a task has written, of OPs (`kind` ops) or MOPs (mops): its name in `error`;
    `run` is -1, for a task has parts of many files.
"""

NAMED_ANOMALY_SCHEMA = declared(
    "key", "value", "op", "kind",
    anomaly=TEXT, run=INT, key=TEXT, value=LONG, op=LONG, kind=TEXT, detail=TEXT,
)  # fmt: skip
"""What is found in op histories: one row per offence.

`key` and `value` say which value, `op` which op (the index of its completion) shows it; each may be
null. `kind` is what the oracle tells kinds of an anomaly by, null if nothing does. `detail` is a
JSON object with what else a person wants to know.
"""
