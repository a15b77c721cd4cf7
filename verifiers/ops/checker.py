"""What a checker of op histories is, which frames it may ask for, and how it is registered."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from harness.core.registry import Registry
from verifiers.checking.checker import frames_wanted
from verifiers.spark.columns import INT, LONG, TEXT, declared, in_columns

OpChecker = Callable[..., DataFrame]
"""A pure function of shared frames, asked for by the names of its parameters.

ops, mops, committed
    the history (schema.py), and the ops of unknown outcome that happened (versions.py).
log, values, versions, writers
    the values at each offset, and what is known of each value (versions.py).
reads, steps
    the suspicious ones (neighbours.py): values that an OK op read although a failed op wrote them,
    values that an op read although it wrote them itself, and values that are out of order.

The last six hold only the keys that the first look suspects (first_look.py), unless `exact` asks
for all keys. A checker that asks for any of them, and not for mops, is not run where no key is
suspected: a checker of something that first_look.py does not rule out has to ask for mops.
"""

SUSPECTS = frozenset({"log", "values", "versions", "writers", "reads", "steps"})
"""The frames that are of suspected keys only."""

OP_CHECKERS: Registry[OpChecker] = Registry("op checker", "verifiers.ops.checkers")
op_checker = OP_CHECKERS.register


def can_find(check: OpChecker) -> bool:
    """Tell whether a checker could find anything where no key is suspected."""
    wanted = frames_wanted(check)
    return "mops" in wanted or SUSPECTS.isdisjoint(wanted)


OP_ANOMALY_SCHEMA = declared(
    "key", "value", "op", run=INT, key=TEXT, value=LONG, op=LONG, detail=TEXT
)
"""What a checker returns: one row per offence.

`key` and `value` say which value, `op` which op (the index of its completion) shows it; each may be
null. `detail` is a JSON object with what else a person wants to know.
"""

NAMED_ANOMALY_SCHEMA = StructType([*declared(anomaly=TEXT).fields, *OP_ANOMALY_SCHEMA.fields])
"""The same behind the name of the anomaly."""


def op_offences(
    frame: DataFrame, *, value: str | None, op: str | None, **detail: Column | str
) -> DataFrame:
    """Return one anomaly per row of `frame`, in the columns of OP_ANOMALY_SCHEMA.

    Args:
        frame: the rows that offend; with a run, and a key.
        value: the column that names the value.
        op: the column that names the op which shows it.
        detail: further facts by name, as columns or their names; those that are null in a row are
            left out there.
    """
    facts = [
        (F.col(fact) if isinstance(fact, str) else fact).alias(name.replace("_", "-"))
        for name, fact in detail.items()
    ]
    chosen = {"run": "run", "key": "key", "value": value, "op": op}
    given = {name: F.col(column) for name, column in chosen.items() if column is not None}
    given["detail"] = F.to_json(F.struct(*facts))
    return in_columns(frame, OP_ANOMALY_SCHEMA, given)
