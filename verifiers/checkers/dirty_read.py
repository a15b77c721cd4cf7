"""Records that a consumer read and that are no longer in the log."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import read_details


@checker(
    "dirty-read",
    severity=Severity.FALSE,
    one="record was read and then vanished",
    many="records were read and then vanished",
)
def dirty_read(values: DataFrame) -> DataFrame:
    """Return the values that a consumer read during the run and that the final read lacks.

    Only offsets that the final read certainly covered count.

    Returns:
        One row per value, at the highest offset it was polled at.
    """
    gone = (F.col("polls") > 0) & (F.col("finals") == 0) & F.col("searched")
    return offences(
        values.where(gone),
        partition="poll_partition",
        offset="poll_last",
        process="reader",
        time_ns="polled_ns",
        detail=read_details(),
    )
