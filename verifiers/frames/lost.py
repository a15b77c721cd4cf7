"""Which records are lost: told once, for the checker and for those who look for them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def lost(values: DataFrame) -> DataFrame:
    """Return the rows of `values` that were acknowledged and that the final read lacks.

    Only where the final read certainly looked: elsewhere a record is unseen, not lost.
    """
    # Of a value that lies in several partitions, its own may be one.
    elsewhere = ~F.col("partition").between(F.col("final_partition"), F.col("final_partition_high"))
    absent = (F.col("finals") == 0) | F.coalesce(elsewhere, F.lit(False))
    return values.where((F.col("type") == "ok") & F.col("searched") & absent)
