"""Values that an OK op read although the op that wrote them failed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.ops.checker import op_checker, op_offences


@op_checker("G1a")
def aborted_read(reads: DataFrame) -> DataFrame:
    """Return the values that an OK op read and that a failed op wrote.

    Returns:
        One row per value and op that read it; the detail has the writer and the reader.

    Source: G1a in Adya's thesis; the g1a analysis of jepsen.tests.kafka.
    """
    rows = (
        reads.where((F.col("type") == "ok") & (F.col("writer_type") == "fail"))
        .select("run", "key", "value", "op", "writer")
        .distinct()
    )
    return op_offences(rows, value="value", op="op", writer="writer", reader="op")
