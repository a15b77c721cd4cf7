"""Values that an OK op sent and that no OK op read until the history ended."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("unseen")
def unseen(values: DataFrame) -> DataFrame:
    """Return the values that an OK op sent and that no OK op has read when the history ends.

    It cannot tell lost from late, so a history must end with reads of all there is.

    Returns:
        One row per value; op is the one that sent it.

    Source: the unseen analysis of jepsen.tests.kafka.
    """
    rows = values.where(F.col("acked") & F.col("reader").isNull())
    return op_offences(rows, value="value", op="writer", index="first", writer="writer")
