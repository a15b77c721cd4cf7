"""What each anomaly means, in the words of a sentence about the run.

Source: the catalogue of the Kafka checker of Jepsen, whose names these are, and our own additions.
"""

from dataclasses import dataclass

from verifiers.report import units


@dataclass(frozen=True, slots=True)
class Meaning:
    """How to speak of an anomaly.

    Attributes:
        one: what follows "1" in a sentence.
        many: what follows any other number.
        gist: what was observed, in one sentence.
    """

    one: str
    many: str
    gist: str


MEANINGS: dict[str, Meaning] = {
    "lost-write": Meaning(
        "acknowledged record was lost",
        "acknowledged records were lost",
        "The producer was told that the record is stored, and the final read of the whole "
        "partition lacks it.",
    ),
    "unseen": Meaning(
        "acknowledged record was never read",
        "acknowledged records were never read",
        "The producer was told that the record is stored, and no consumer was ever given it.",
    ),
    "duplicate": Meaning(
        "record is in the log more than once",
        "records are in the log more than once",
        "One send left the same record at two or more offsets of its partition.",
    ),
    "replica-divergence": Meaning(
        "stretch of offsets holds other records on another replica",
        "stretches of offsets hold other records on another replica",
        "Two brokers' logs, as they lie on disk, hold different batches below the high watermark.",
    ),
    "replica-gap": Meaning(
        "place in a replica's log where batches do not follow each other",
        "places in replicas' logs where batches do not follow each other",
        "A broker's log, as it lies on disk, skips offsets that another replica holds, or has "
        "offsets twice.",
    ),
    "epoch-disorder": Meaning(
        "batch has a leader epoch that it must not have",
        "batches have a leader epoch that they must not have",
        "Leader epochs fall along a log, contradict its checkpoint, or do not name one batch.",
    ),
    "inconsistent-offsets": Meaning(
        "offset was seen with different records",
        "offsets were seen with different records",
        "Clients were told of different records at one offset: the log was rewritten, or its "
        "replicas differ.",
    ),
    "phantom": Meaning(
        "record was read that nobody sent",
        "records were read that nobody sent",
        "A consumer was given a record that no producer of this run has on its books.",
    ),
    "corrupt-record": Meaning(
        "record came back, or lies on a disk, damaged",
        "records came back, or lie on a disk, damaged",
        "The checksum, the run or the topic inside the record is not what its producer put in, or "
        "the checksum of its batch on a broker's disk does not fit.",
    ),
    "acked-below-min-isr": Meaning(
        "send was acknowledged with too few replicas in sync",
        "sends were acknowledged with too few replicas in sync",
        "The producer was told that the record is stored, while the leader itself knew of fewer "
        "than min.insync.replicas in the ISR.",
    ),
    "read-beyond-hw": Meaning(
        "record was read before it was committed",
        "records were read before they were committed",
        "A consumer was given a record that lies at or above the high watermark that the leader "
        "told afterwards.",
    ),
    "hw-regression": Meaning(
        "high watermark went down",
        "high watermarks went down",
        "A leader told a lower high watermark than it had told before, in one leader epoch.",
    ),
    "unavailable": Meaning(
        "gap without an acknowledgement was longer than the scenario allows",
        "gaps without an acknowledgement were longer than the scenario allows",
        "No send of a partition was acknowledged, though the faults left enough brokers.",
    ),
    "G1a": Meaning(
        "record was read although its send had failed",
        "records were read although their sends had failed",
        "An aborted read: the producer was told that the record is certainly not stored, and a "
        "consumer was given it.",
    ),
    "torn-transaction": Meaning(
        "transaction is there in part only",
        "transactions are there in part only",
        "Of one transaction the final read has some records and lacks others.",
    ),
    "zombie-commit": Meaning(
        "transaction was committed by a client that had been fenced",
        "transactions were committed by clients that had been fenced",
        "Another client had taken over the transactional id, and the first one's commit was "
        "acknowledged all the same.",
    ),
    "precommitted-read": Meaning(
        "transaction was given a record of its own",
        "transactions were given records of their own",
        "A client polled, within a transaction, what it had sent in it and not yet committed.",
    ),
    "dirty-read": Meaning(
        "record was read and then vanished",
        "records were read and then vanished",
        "A consumer was given the record, and the final read of the whole partition lacks it.",
    ),
    "nonmonotonic-poll": Meaning(
        "poll went back in the log",
        "polls went back in the log",
        "A poll began at or before the place where the same consumer's last poll had ended.",
    ),
    "int-nonmonotonic-poll": Meaning(
        "step inside a poll went back in the log",
        "steps inside polls went back in the log",
        "Inside one poll, a record is followed by one at or before its own place in the log.",
    ),
    "poll-skip": Meaning(
        "poll skipped records",
        "polls skipped records",
        "A poll began beyond the record that comes after the end of the same consumer's last poll.",
    ),
    "int-poll-skip": Meaning(
        "step inside a poll skipped records",
        "steps inside polls skipped records",
        "Inside one poll, records of the log are missing between two neighbours.",
    ),
    "nonmonotonic-send": Meaning(
        "send was logged before an earlier one",
        "sends were logged before earlier ones",
        "The log has two records of one producer in the opposite order of their sends.",
    ),
    "lost-commit": Meaning(
        "acknowledged offset commit was lost",
        "acknowledged offset commits were lost",
        "A group was told of an earlier offset than the last one whose commit was acknowledged.",
    ),
    "consume-skip": Meaning(
        "record was passed over by a group",
        "records were passed over by a group",
        "The group committed an offset beyond the record, and none of its members processed it.",
    ),
    "consume-repeat": Meaning(
        "record was processed again by a group",
        "records were processed again by a group",
        "Members of one group processed the same record more than once.",
    ),
}


def told(name: str, count: int) -> str:
    """Return what was found, in words: 3 acknowledged records were lost."""
    meaning = MEANINGS.get(name)
    if meaning is None:
        return f"{units.visible(name)} occurred {units.counted(count, 'time')}"
    return f"{units.count(count)} {meaning.one if count == 1 else meaning.many}"


def gist(name: str) -> str:
    """Return what was observed, in one sentence; empty for an anomaly from out of this tree."""
    meaning = MEANINGS.get(name)
    return meaning.gist if meaning else ""
