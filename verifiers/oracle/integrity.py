"""Chapters on records that must not be read, or that were changed."""

from verifiers.oracle import reasons
from verifiers.oracle.circumstances import DECIDES_LATE, LAST_REPLICA_DESTROYED
from verifiers.oracle.row import Reason, chapter, forbidden, permitted, undecided

_UNCOMMITTED = Reason(
    "A reader with isolation.level=read_uncommitted is given records of open and aborted "
    "transactions too.",
    "Kafka documentation, isolation.level; KIP-98",
)

INTEGRITY = (
    chapter(
        "G1a",
        "A record was read that certainly was not written: refused, or part of an aborted "
        "transaction; the kinds name who read the latter.",
        permitted(_UNCOMMITTED, "read_uncommitted", by="read_uncommitted"),
        reasons.copies_destroyed("destroyed"),
        forbidden(reasons.DECIDED_LATE, "read_committed", given=DECIDES_LATE),
        forbidden(reasons.LAST_REPLICA_STANDING, "partly-destroyed", given=LAST_REPLICA_DESTROYED),
        forbidden(
            "What certainly failed must never be read: no contract permits it.",
            source="Adya, G1a; jepsen.tests.kafka",
        ),
        kinds=("read_committed", "destroyed", "partly-destroyed", "read_uncommitted"),
    ),
    chapter(
        "precommitted-read",
        "A transaction was given a record that it had itself sent and not yet committed.",
        permitted(_UNCOMMITTED, "read_uncommitted", by="read_uncommitted"),
        forbidden(
            "Under read_committed nobody is given a record of an open transaction, its sender "
            "included.",
            source="KIP-98; jepsen.tests.kafka",
        ),
        kinds=("read_committed", "read_uncommitted"),
    ),
    chapter(
        "G1c",
        "Transactions read each other's records in a circle.",
        forbidden(reasons.DECIDED_LATE, given=DECIDES_LATE),
        forbidden(
            "A transaction is given records of committed transactions only, so whatever it was "
            "given was committed before it was itself.",
            source="Adya, G1c; KIP-98; jepsen.tests.kafka",
        ),
    ),
    chapter(
        "G1c-realtime",
        "Transactions form a circle by what they read and by what had ended before what began.",
        forbidden(reasons.DECIDED_LATE, given=DECIDES_LATE),
        forbidden(
            "Whoever is given a record ends after the transaction that sent it was begun, on "
            "whichever broker it lies.",
            source="Elle, G1c-realtime; KIP-98; jepsen.tests.kafka",
        ),
    ),
    chapter(
        "torn-transaction",
        "Some records of a committed transaction can be read, and others never.",
        reasons.unclean_election(),
        reasons.copies_destroyed("destroyed"),
        forbidden(reasons.LAST_KNOWN_LEADER, "last-known"),
        *reasons.DIVERGENT,
        forbidden(reasons.DECIDED_LATE, "decided", given=DECIDES_LATE),
        forbidden(
            "A transaction is read in all its partitions or in none, and it is acknowledged under "
            "acks=all.",
            "decided",
            source="KIP-98",
        ),
        *reasons.PARTLY_DESTROYED,
        forbidden(reasons.ISR_KEEPS),
        kinds=(
            *("decided", "divergent", "explained"),
            *("last-known", "partly-destroyed", "destroyed"),
        ),
    ),
    chapter(
        "zombie-commit",
        "A client's commit was acknowledged after another client had taken over its transactional "
        "id.",
        forbidden(
            "The second client's first call raises the epoch and aborts what was open, so the "
            "coordinator refuses the first one.",
            source="KIP-98, fencing of zombies",
        ),
    ),
    chapter(
        "phantom",
        "A record was read that no recorded send wrote.",
        forbidden(
            "What nobody wrote must never be read: no contract permits it.",
            source="jepsen.tests.kafka, no-writer-of-value",
        ),
    ),
    chapter(
        "corrupt-record",
        "A record is not what its producer put in, as it was read or as it lies on a disk.",
        permitted(reasons.OUTSIDE_THE_ISR, "disk-out-of-sync", by="being outside the ISR"),
        forbidden(
            "A record must be read as it was written: no contract permits otherwise.",
            source="KIP-98, checksums of batches; KAFKA-19012",
        ),
        kinds=("checksum", "run", "topic", "format", "disk", "disk-out-of-sync"),
    ),
    chapter(
        "corrupt-batch",
        "A broker was sent a batch whose checksum does not fit its records, and refused it.",
        undecided(
            "A fault may have changed bytes on their way, or on the disk of a leader whose "
            "followers refuse them.",
            "damaged",
            source="cluster/refusals.jsonl of the run",
        ),
        forbidden(
            "A client computes the checksum over what it sends, and nothing has changed it since.",
            source="KIP-98, checksums of batches; KAFKA-8729; KAFKA-19012",
        ),
        kinds=("damaged",),
    ),
)
