"""Acknowledged, and gone."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checker import checker, offences
from verifiers.story import send_story


@checker("lost-write")
def lost_write(values: DataFrame) -> DataFrame:
    """Return the acknowledged records that the final read lacks, the tail included.

    Only where the final read certainly looked: elsewhere a record is unseen, not lost.

    Args:
        values: what is known of each value.

    Returns:
        One row per lost record; offset as acknowledged, null under acks=0; time of the
        acknowledgement. `polled` in the detail counts consumers' reads before it was lost.

    Source: the lost-write analysis of jepsen.tests.kafka, with a final read as the authority.
    """
    elsewhere = F.col("final_partition") != F.col("partition")
    absent = (F.col("finals") == 0) | F.coalesce(elsewhere, F.lit(False))
    lost = values.where((F.col("type") == "ok") & F.col("searched") & absent)
    return offences(lost, time_ns="complete_ns", detail=send_story())
