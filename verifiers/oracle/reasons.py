"""Reasons that several chapters give, and rows that several chapters have."""

from verifiers.oracle.circumstances import (
    COPIES_DESTROYED,
    CUTS_BY_HIGH_WATERMARK,
    LAST_KNOWN_DESTROYED,
    LAST_REPLICA_DESTROYED,
    SHOWN_ALONE_AND_DESTROYED,
    UNCLEAN,
    UNKNOWN_EPOCHS_UNANSWERED,
)
from verifiers.oracle.row import Reason, Row, forbidden, permitted

ACKS_0_PROMISES_NOTHING = Reason(
    "Under acks=0 a producer waits for nothing: what it calls sent may never have arrived.",
    "Kafka documentation, acks",
)
ACKS_1_IS_THE_LEADER_ALONE = Reason(
    "Under acks=1 only the leader has the record when it is acknowledged; if another replica leads "
    "before it has copied the record, it is cut off.",
    "Kafka documentation, acks",
)
UNCLEAN_LEADER = Reason(
    "With unclean leader election on, a replica outside the ISR may lead, and what only the others "
    "held is gone.",
    "Kafka documentation, unclean.leader.election.enable; KAFKA-1028",
)
NO_COPY_LEFT = Reason(
    "Acknowledged is not flushed: faults destroyed data on every replica in the ISR, and on as "
    "many as min.insync.replicas demands of an acknowledged record.",
    "KIP-966",
)
EVERY_DISK_HAS_IT = Reason(
    "Every replica still has the record, and the final read was not given it: it is not lost but "
    "unread, and no contract permits that.",
    "Kafka documentation, replication design",
)
DECIDED_LATE = Reason(
    "The contract forbids it, though Kafka up to 3.9, and any Kafka with librdkafka, is known for "
    "it: a late request to end one transaction may end the next, as both have one epoch.",
    "KAFKA-17754; KIP-890, part 2, in 4.0; librdkafka issue 5423",
)
COMMITTED_AND_ABORTED = Reason(
    "Every replica has the record, and a marker that aborts it, though its transaction was "
    "acknowledged as committed.",
    "KIP-98",
)
NOTHING_EXPLAINS_IT = Reason(
    "After the record was sent no log was cut there, no leader's log went on there or below, and "
    "under acks=0 no fault hit the partition: a contract permits losses by damage, not losses by "
    "themselves.",
    "Kafka documentation, acks and replication design",
)
UNKNOWN_EPOCH = Reason(
    "The contract forbids it, though Kafka 0.11 to 1.1 is known for it: a leader that does not "
    "have the epoch it is asked for tells no offset, and the follower cuts its log by high "
    "watermark after all.",
    "KIP-279, KAFKA-6361; mended in 2.0",
)
ANOTHER_IN_ITS_PLACE = Reason(
    "A leader held another record in its place, and with unclean election off only an ISR member "
    "leads: it was let in with a log that was not its leader's.",
    "KIP-101; KIP-279",
)
ISR_KEEPS = Reason(
    "acks=all acknowledges what the whole ISR holds, and with unclean election off only an ISR "
    "member leads.",
    "Kafka documentation, acks and replication design",
)
KIP_101 = Reason(
    "The contract forbids it, though Kafka up to 0.10.2 is known for it: a follower cuts its log "
    "to its own high watermark, acknowledged records included.",
    "KIP-101, mended in 0.11",
)
LAST_REPLICA_STANDING = Reason(
    "The contract forbids it, though Kafka without eligible leader replicas (new clusters up to "
    "4.0) is known for it: the last member of an ISR leads on after it lost what it had not "
    "flushed.",
    "KIP-966, last replica standing; on by default since 4.1",
)
LAST_KNOWN_LEADER = Reason(
    "The contract forbids it, though Kafka with eligible leader replicas is known for it: once "
    "every member of the ISR and every eligible leader has ended uncleanly, the last known leader "
    "leads on, whatever it has lost, and the others cut off what they still have.",
    "KIP-966; Kafka documentation, eligible leader replicas; docs/findings.md",
)
CUT_OR_DESTROYED = Reason(
    "The contract forbids it, though Kafka up to 0.10.2 is known for it: a broker that lost what "
    "it had not flushed leads on, and followers that still have it cut it off, to their own high "
    "watermarks at that.",
    "KIP-966; KIP-101, mended in 0.11",
)
SHOWN_ALONE = Reason(
    "Before 3.7 the high watermark goes on with fewer than min.insync.replicas in the ISR, so what "
    "consumers were given may have lain on one broker only, and a fault of this run destroyed data "
    "on disk.",
    "KIP-966, KAFKA-15583",
)
COMMITTED_STAYS = Reason(
    "Consumers read below the high watermark only: what they were given was committed, whatever "
    "the acks, and with unclean election off it stays.",
    "Kafka documentation, replication design; KIP-207",
)
WRITTEN_AGAIN = Reason(
    "Without idempotence a producer that retries after a lost answer writes its record again.",
    "KIP-98",
)
OUTSIDE_THE_ISR = Reason(
    "A replica outside the ISR is no copy: it may hold what was never committed, and cuts it off "
    "before it is let in again.",
    "Kafka documentation, replication design; KIP-101",
)

CUT_BY_HIGH_WATERMARK = forbidden(KIP_101, given=CUTS_BY_HIGH_WATERMARK)
DIVERGENT = (
    forbidden(UNKNOWN_EPOCH, "divergent", given=UNKNOWN_EPOCHS_UNANSWERED),
    forbidden(ANOTHER_IN_ITS_PLACE, "divergent"),
)
"""Rows on what is lost since a leader held other records in its place."""
LED_ON_WITHOUT_ITS_LOG = (
    forbidden(LAST_KNOWN_LEADER, given=LAST_KNOWN_DESTROYED),
    forbidden(LAST_REPLICA_STANDING, given=LAST_REPLICA_DESTROYED),
)
"""Rows on what a leader brings about that lost what it had not flushed."""

LAST_KNOWN_COMMIT = forbidden(LAST_KNOWN_LEADER, "partly-destroyed", given=LAST_KNOWN_DESTROYED)
PARTLY_DESTROYED = (
    forbidden(CUT_OR_DESTROYED, "partly-destroyed", given=CUTS_BY_HIGH_WATERMARK),
    forbidden(LAST_REPLICA_STANDING, "partly-destroyed", given=LAST_REPLICA_DESTROYED),
    CUT_BY_HIGH_WATERMARK,
)
"""Rows on what is lost although the ISR had it, where faults may have destroyed a copy."""


def unclean_election(*kinds: str) -> Row:
    """Return the row that permits these kinds, or all kinds, under unclean leader election."""
    return permitted(UNCLEAN_LEADER, *kinds, given=UNCLEAN, by="unclean election")


def copies_destroyed(*kinds: str) -> Row:
    """Return the row that permits these kinds where faults destroyed every copy in the ISR."""
    return permitted(NO_COPY_LEFT, *kinds, given=COPIES_DESTROYED, by="copies destroyed")


def shown_by_one(*kinds: str) -> Row:
    """Return the row that permits these kinds where old brokers show what only one of them has."""
    return permitted(SHOWN_ALONE, *kinds, given=SHOWN_ALONE_AND_DESTROYED, by="Kafka before 3.7")
