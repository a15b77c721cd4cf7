"""Chapters on what clients were told, and on those that gave up."""

from verifiers.frames.answers import FAMILIES, SERVER, SERVER_AT_REST
from verifiers.oracle import reasons
from verifiers.oracle.circumstances import (
    EARLY_IDEMPOTENCE,
    FORGETS_PRODUCERS,
    LAST_REPLICA_DESTROYED,
)
from verifiers.oracle.row import chapter, forbidden, permitted, undecided

_ENDS = (
    "fenced", "own", "timed-out", "destroyed", "partly-destroyed", "sequence", "refused", "state",
    "unbegun", "fatal", "crashed", "killed", "ended",
)  # fmt: skip

CLIENTS = (
    chapter(
        "client-gave-up",
        "A client gave up, or died, though nothing in the run asked it to.",
        permitted(
            "A transaction that takes longer than transaction.timeout.ms is aborted by its "
            "coordinator, which fences its producer.",
            "timed-out",
            source="KIP-98; KIP-588 lets later producers recover",
            by="transaction.timeout.ms",
        ),
        undecided(
            "An earlier request of the same process for its transactional id was not answered in "
            "time: carried out late, it fences its own successor.",
            "own",
            source="KIP-98, fencing of zombies",
        ),
        permitted(
            "The client aborts a transaction of which its coordinator has not heard yet, and "
            "takes the refusal for fatal: there was nothing to end.",
            "unbegun",
            source="librdkafka issue 4849; KIP-98, EndTxnRequest",
            by="abort_transaction",
        ),
        undecided(
            "A coordinator that another one has replaced, or that was asked again for want of an "
            "answer, finds the transaction in another state than the client does: its records "
            "tell what became of it.",
            "state",
            source="KIP-98, EndTxnRequest; Kafka protocol, error code 48",
        ),
        undecided(
            "The cluster does not let this client in: whether it is meant to, its ACLs and "
            "listeners say.",
            "refused",
            source="Kafka protocol, error codes 29, 30, 31, 35, 53 and 58",
        ),
        undecided(
            "A signal ended the client that neither the run nor the client itself had sent: "
            "somebody did, or the kernel for want of memory.",
            "killed",
            source="signal(7)",
        ),
        undecided(
            "The program of the client met an error that it does not know, and ended: its log in "
            "clients/ says whether Kafka gave cause.",
            "ended",
            source="exit code in clients.jsonl",
        ),
        forbidden(
            "A client library must not end its process, whatever a broker answers.",
            "crashed",
            source="librdkafka, as in its issues 4605 and 4849",
        ),
        reasons.unclean_election("sequence"),
        reasons.copies_destroyed("sequence", "destroyed"),
        forbidden(reasons.LAST_REPLICA_STANDING, "partly-destroyed", given=LAST_REPLICA_DESTROYED),
        forbidden(
            "The contract forbids it, though brokers of 0.11 remember the last batch of an "
            "idempotent producer only.",
            "sequence",
            source="KAFKA-5494, five since 1.0",
            given=EARLY_IDEMPOTENCE,
        ),
        forbidden(
            "The contract forbids it, though Kafka up to 2.4 is known for it: a broker forgets a "
            "producer whose records are gone, and does not know it when it comes back.",
            "sequence",
            source="KIP-360, mended in 2.5",
            given=FORGETS_PRODUCERS,
        ),
        forbidden(
            "A leader that has all acknowledged batches of an idempotent producer takes the next "
            "one.",
            "sequence",
            source="KIP-98, KIP-360; librdkafka, INTRODUCTION.md, idempotent producer",
        ),
        forbidden(
            "Only a later client of the same transactional id fences a producer, or the "
            "coordinator that aborts its transaction: there was neither.",
            "fenced",
            "destroyed",
            "partly-destroyed",
            source="KIP-98",
        ),
        forbidden(
            "What brokers, leaders and coordinators owe a client through faults is an error that "
            "it can retry.",
            source="librdkafka, INTRODUCTION.md, fatal errors; KIP-98, KIP-848",
        ),
        kinds=_ENDS,
    ),
    chapter(
        "unexplained-answer",
        "A client was given an error that no fault of the run explains.",
        undecided(
            "A broker met an error that it does not know while a fault was in force or soon "
            "after: its server.log says whether the damage accounts for it.",
            SERVER,
            source="Kafka protocol, error code -1 (UNKNOWN_SERVER_ERROR)",
        ),
        undecided(
            "The brokers' disks are the machine's, and no fault of this run touched them: a full "
            "or failing disk is no fault of Kafka's, a log that Kafka closed too early is. The "
            "brokers' server.log says which.",
            "storage",
            source="KIP-112, error code 56 (KAFKA_STORAGE_ERROR)",
        ),
        undecided(
            "Whoever set the cluster up may have asked for this refusal: compare its limits, "
            "policies and ACLs with what the workload sends.",
            "settings",
            source="Kafka protocol, error codes; message.max.bytes, message.timestamp.*, ACLs",
        ),
        undecided(
            "A broker that was not told of a topic yet answers so too, and nothing disturbed it: "
            "whether somebody deleted the topic is not known.",
            "topic",
            source="Kafka protocol, error codes 3 and 100",
        ),
        forbidden(
            "Batches carry checksums, and nothing in this run can have changed their bytes.",
            "bytes",
            source="KIP-98, record batches; Kafka protocol, error code 2 (CORRUPT_MESSAGE)",
        ),
        forbidden(
            "All records and requests of a client are made alike, so a broker that takes one must "
            "take the next.",
            "record",
            source="KIP-467, error code 87 (INVALID_RECORD); Kafka protocol, error code 42",
        ),
        forbidden(
            "Nothing was broken, and a broker met an error that it does not know.",
            source="Kafka protocol, error code -1 (UNKNOWN_SERVER_ERROR)",
        ),
        kinds=(*(family.name for family in FAMILIES), SERVER_AT_REST),
    ),
)
