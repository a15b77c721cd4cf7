"""Acknowledged records that are not in the final log."""

from pyspark.sql import DataFrame

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns, send_details
from verifiers.frames.records import lost


@checker(
    "lost-write",
    severity=Severity.LOST,
    one="acknowledged record was lost",
    many="acknowledged records were lost",
)
def lost_write(values: DataFrame, located: DataFrame) -> DataFrame:
    """Return the acknowledged records that the final read lacks, the tail included.

    Only offsets that the final read certainly covered count: elsewhere a record is unseen.

    Args:
        values: what is known of each value.
        located: where lost records still lie, and who cut them.

    Returns:
        One row per lost record; offset as acknowledged, null under acks=0; time of the
        acknowledgement. `polled` in the detail counts consumers' reads before it was lost;
        `held_by`, `lacking`, `cut_by`, `cut_to`, `cut_at_utc` and `cut_epoch` say which brokers
        still have it on disk and which do not, and who cut it where and when.

    Source: the lost-write analysis of jepsen.tests.kafka, with a final read as the authority.
    """
    where = located.drop("partition")
    found = lost(values).join(where, ["topic", "value"], "left")
    facts = columns(*where.drop("topic", "value").columns)
    return offences(found, time_ns="complete_ns", detail=send_details() | facts)
