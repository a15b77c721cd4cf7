"""Chapters on replicas and high watermarks."""

from verifiers.oracle import reasons
from verifiers.oracle.circumstances import (
    CUTS_BY_HIGH_WATERMARK,
    LAST_REPLICA_DESTROYED,
    READS_RACE_APPENDS,
    UNKNOWN_EPOCHS_UNANSWERED,
)
from verifiers.oracle.row import Reason, chapter, forbidden, permitted

_ONE_LOG = Reason(
    "Members of the ISR hold the same batches below the high watermark: since 0.11 a follower cuts "
    "its log by leader epoch before it copies.",
    "KIP-101",
)
_LEADS_ON = Reason(
    "The contract forbids it, though Kafka without eligible leader replicas (new clusters up to "
    "4.0) is known for it: a broker that lost what it had not flushed leads on, even in its old "
    "epoch, and writes other records where followers have those that it lost.",
    "KIP-966; docs/findings.md",
)

DISKS = (
    chapter(
        "replica-divergence",
        "Two replicas hold different batches at one offset below the high watermark.",
        permitted(reasons.OUTSIDE_THE_ISR, "out-of-sync", by="being outside the ISR"),
        forbidden(
            "The contract forbids it, though Kafka up to 0.10.2 is known for it: it cuts followers "
            "by high watermark, and what lay above it on a broker that led before can stay there "
            "under other records' offsets.",
            source="KIP-101, scenario 2; mended in 0.11",
            given=CUTS_BY_HIGH_WATERMARK,
        ),
        forbidden(_LEADS_ON, "partly-destroyed", given=LAST_REPLICA_DESTROYED),
        forbidden(reasons.UNKNOWN_EPOCH, "in-sync", given=UNKNOWN_EPOCHS_UNANSWERED),
        forbidden(_ONE_LOG),
        kinds=("in-sync", "partly-destroyed", "out-of-sync"),
    ),
    chapter(
        "replica-gap",
        "A replica's log leaves out offsets that another one holds, or goes back.",
        forbidden(_ONE_LOG),
        kinds=("gap", "overlap", "backwards"),
    ),
    chapter(
        "epoch-disorder",
        "A batch on disk has a leader epoch that it must not have.",
        forbidden(
            "The contract forbids it, though Kafka 0.11 to 1.1 is known for it: of an epoch that a "
            "leader does not have it tells no offset, or where its next one begins, and the "
            "follower keeps records that the leader has under another epoch.",
            "renamed",
            source="KIP-279, KAFKA-6361; mended in 2.0",
            given=UNKNOWN_EPOCHS_UNANSWERED,
        ),
        forbidden(
            "Leader epochs grow along a log, and an epoch has one leader, so epoch and offset "
            "name one batch: no contract permits otherwise.",
            source="KIP-101",
        ),
        kinds=("decreases", "checkpoint", "ambiguous", "renamed"),
    ),
    chapter(
        "hw-regression",
        "Within one leader epoch a partition's high watermark went down.",
        reasons.copies_destroyed(),
        reasons.shown_by_one(),
        *reasons.LED_ON_WITHOUT_ITS_LOG,
        forbidden(
            "What a leader has once shown as committed stays so while it leads: no contract "
            "permits otherwise.",
            source="Kafka documentation, replication design; KIP-207",
        ),
    ),
    chapter(
        "read-beyond-hw",
        "A consumer was given an offset at or above the high watermark.",
        forbidden(
            "The contract forbids it, though Kafka up to 2.5.0 is known for it: a slice of the "
            "log that is read while it grows may reach beyond the high watermark.",
            source="KAFKA-9835, mended in 2.5.1",
            given=READS_RACE_APPENDS,
        ),
        forbidden(
            "Consumers read below the high watermark only: no contract permits otherwise.",
            source="Kafka documentation, replication design",
        ),
    ),
)
