"""Chapters on records that are lost, and on writes that were refused for too long."""

from verifiers.oracle import reasons
from verifiers.oracle.circumstances import ACKS_0, ACKS_1, DECIDES_LATE
from verifiers.oracle.row import chapter, forbidden, permitted

LOSSES = (
    chapter(
        "lost-write",
        "An acknowledged record is not in the final log.",
        forbidden(reasons.EVERY_DISK_HAS_IT, "unread"),
        forbidden(reasons.NOTHING_EXPLAINS_IT, "unexplained"),
        reasons.unclean_election("divergent"),
        *reasons.DIVERGENT,
        permitted(reasons.ACKS_0_PROMISES_NOTHING, given=ACKS_0, by="acks=0"),
        permitted(reasons.ACKS_1_IS_THE_LEADER_ALONE, given=ACKS_1, by="acks=1"),
        reasons.unclean_election(),
        reasons.copies_destroyed("destroyed"),
        forbidden(reasons.LAST_KNOWN_LEADER, "last-known"),
        forbidden(reasons.DECIDED_LATE, "aborted", given=DECIDES_LATE),
        forbidden(reasons.COMMITTED_AND_ABORTED, "aborted"),
        *reasons.PARTLY_DESTROYED,
        forbidden(reasons.ISR_KEEPS),
        kinds=(
            *("explained", "destroyed", "last-known", "divergent", "partly-destroyed"),
            *("aborted", "unread", "unexplained"),
        ),
    ),
    chapter(
        "unseen",
        "An acknowledged record was never read, where the final read did not get to.",
        permitted(
            "Nobody looked where these records should be: they are neither kept nor lost, and "
            "leave the verdict unknown instead.",
            source="jepsen.tests.kafka, unseen",
        ),
    ),
    chapter(
        "inconsistent-offsets",
        "Two different records are known of one offset.",
        *(
            permitted(
                "An acknowledged record that was lost gives its offset to another, and "
                f"{by} permits the loss itself.",
                "acks",
                source="Kafka documentation, acks",
                given=given,
                by=by,
            )
            for by, given in (("acks=0", ACKS_0), ("acks=1", ACKS_1))
        ),
        reasons.unclean_election(),
        reasons.copies_destroyed(),
        reasons.shown_by_one("reads"),
        reasons.CUT_BY_HIGH_WATERMARK,
        *reasons.LED_ON_WITHOUT_ITS_LOG,
        forbidden(reasons.COMMITTED_STAYS, "reads"),
        forbidden(reasons.ISR_KEEPS),
        kinds=("acks", "reads"),
    ),
    chapter(
        "dirty-read",
        "A consumer was given a record that is not in the final log.",
        reasons.unclean_election(),
        reasons.copies_destroyed(),
        reasons.shown_by_one(),
        reasons.CUT_BY_HIGH_WATERMARK,
        *reasons.LED_ON_WITHOUT_ITS_LOG,
        forbidden(reasons.COMMITTED_STAYS),
    ),
    chapter(
        "unavailable",
        "No send of a partition was acknowledged for longer than the scenario allows.",
        forbidden(
            "The scenario asks for it: with min.insync.replicas and a majority of the controllers "
            "left, a partition gets a leader and takes writes again.",
            source="Kafka documentation, replication design; available_within_s of the scenario",
        ),
    ),
    chapter(
        "acked-below-min-isr",
        "A send with acks=all was acknowledged while fewer than min.insync.replicas were in the "
        "ISR.",
        forbidden(
            "With acks=all a leader refuses what it cannot have copied to min.insync.replicas, "
            "and acknowledges nothing else.",
            source="Kafka documentation, min.insync.replicas; KIP-966",
        ),
    ),
)
