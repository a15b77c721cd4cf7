"""Acknowledged records that are not in the final log."""

from pyspark.sql import DataFrame

from verifiers.checking.checker import Severity, checker, offences
from verifiers.checking.details import columns, send_details


@checker(
    "lost-write",
    severity=Severity.LOST,
    one="acknowledged record was lost",
    many="acknowledged records were lost",
)
def lost_write(losses: DataFrame) -> DataFrame:
    """Return the acknowledged records that the final read lacks, the tail included.

    Only offsets that the final read certainly covered count: elsewhere a record is unseen.

    Returns:
        One row per lost record; offset as acknowledged, null under acks=0; time of the
        acknowledgement. `polled` in the detail counts consumers' reads before it was lost;
        `held_by`, `lacking`, `cut_by`, `cut_to`, `cut_at_utc` and `cut_epoch` say which brokers
        still have it on disk and which do not, and who cut it where and when, `replaced_on` which
        have another record at its offset; `marker` and `marker_at` how its transaction was ended on
        disk; `lost_by` what can have lost it: the first cut that is known to lie below it, or else
        the first thing of all.
        The kind is "aborted" if every replica still has it, and a marker that aborts it though its
        commit was acknowledged; "unread" if every replica has it, and nothing else at its offset,
        so that the final read is wrong; "unexplained" if nothing can have lost it; "destroyed" if
        faults destroyed every copy that its acknowledgement stands for, "last-known" if a last
        known leader led without it, "divergent" if a leader held another record in its place, below
        where its epoch begins, "partly-destroyed" if faults destroyed the copy of some replica that
        led afterwards, or may have, or if nothing else happened to it; else "explained", or null
        where who led the partition is not known.

    Source: the lost-write analysis of jepsen.tests.kafka, with a final read as the authority;
    KIP-279 (divergent).
    """
    facts = columns(
        *("held_by", "lacking", "replaced_on", "cut_by", "cut_to", "cut_at_utc", "cut_epoch"),
        *("marker", "marker_at", "lost_by"),
    )
    return offences(losses, time_ns="complete_ns", detail=send_details() | facts)
