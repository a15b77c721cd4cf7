"""Values that were polled and that no op sent."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("phantom")
def phantom(values: DataFrame) -> DataFrame:
    """Return the values that were polled and that no op of the history ever sent.

    An op that never completed may have sent what it was invoked with.

    Returns:
        One row per value; op is the first OK op that read it, null if only others did.
    """
    rows = values.where(F.col("writer").isNull())
    return op_offences(rows, value="value", op="reader", index="first", reader="reader")
