"""Consumer groups that never came to the end, though all was well again."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns


@checker(
    "group-stuck",
    severity=Severity.PASSED_OVER,
    one="partition was not committed to its end by its consumer group",
    many="partitions were not committed to their ends by their consumer group",
)
def group_stuck(group_ends: DataFrame) -> DataFrame:
    """Return the partitions that a group had not come to the end of when it was waited for.

    It is waited for when all faults are healed and nobody sends any more, until it has stood still
    for the time in which Kafka must have given its partitions to members that are there
    (`workloads.group_config.stuck_after_s`).

    Returns:
        One row per partition; the offset is the one committed, if any is known. `end` is where the
        partition ends, `still_s` for how long nothing was committed and `bound_s` for how long
        that may be, `members` who was there. The kind says what else there was to it, see
        `verifiers.run_folder.group.WHY_BEHIND`.

    Source: KIP-62 and KIP-848, which bound how long a rebalance waits for a member.
    """
    return offences(
        group_ends.where(F.col("why").isNotNull()),
        kind="why",
        offset="committed",
        detail=columns("group", "end", "still_s", "bound_s", "members", "strangers", "state"),
    )
