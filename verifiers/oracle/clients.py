"""Chapters on what clients were told, and on those that gave up."""

from verifiers.frames.answers import FAMILIES, SERVER, SERVER_AT_REST
from verifiers.oracle import reasons
from verifiers.oracle.circumstances import EARLY_IDEMPOTENCE, FORGETS_PRODUCERS
from verifiers.oracle.row import Chapter, Reason, forbidden, permitted, undecided

CLIENTS = (
    Chapter(
        anomaly="client-gave-up",
        means="A client gave up, or died, though nothing in the run asked it to.",
        kinds=(
            "fenced",
            "own",
            "timed-out",
            "sequence",
            "refused",
            "state",
            "fatal",
            "crashed",
            "killed",
            "ended",
        ),
        rows=(
            permitted(
                Reason(
                    "A transaction that takes longer than transaction.timeout.ms is aborted by its "
                    "coordinator, which fences its producer.",
                    "KIP-98; KIP-588 lets later producers recover",
                ),
                "timed-out",
                by="transaction.timeout.ms",
            ),
            undecided(
                Reason(
                    "An earlier request of the same process for its transactional id was not "
                    "answered in time: carried out late, it fences its own successor.",
                    "KIP-98, fencing of zombies",
                ),
                "own",
            ),
            undecided(
                Reason(
                    "A coordinator that another one has replaced, or that was asked again for want "
                    "of an answer, finds the transaction in another state than the client does: "
                    "its records tell what became of it.",
                    "KIP-98, EndTxnRequest; Kafka protocol, error code 48",
                ),
                "state",
            ),
            undecided(
                Reason(
                    "The cluster does not let this client in: whether it is meant to, its ACLs and "
                    "listeners say.",
                    "Kafka protocol, error codes 29, 30, 31, 35, 53 and 58",
                ),
                "refused",
            ),
            undecided(
                Reason(
                    "A signal ended the client that neither the run nor the client itself had "
                    "sent: somebody did, or the kernel for want of memory.",
                    "signal(7)",
                ),
                "killed",
            ),
            undecided(
                Reason(
                    "The program of the client met an error that it does not know, and ended: its "
                    "log in clients/ says whether Kafka gave cause.",
                    "exit code in clients.jsonl",
                ),
                "ended",
            ),
            forbidden(
                Reason(
                    "A client library must not end its process, whatever a broker answers.",
                    "librdkafka, as in its issues 4605 and 4849",
                ),
                "crashed",
            ),
            reasons.unclean_election("sequence"),
            reasons.single_copy("sequence"),
            forbidden(
                Reason(
                    "The contract forbids it, though brokers of 0.11 remember the last batch of an "
                    "idempotent producer only.",
                    "KAFKA-5494, five since 1.0",
                ),
                "sequence",
                given=EARLY_IDEMPOTENCE,
            ),
            forbidden(
                Reason(
                    "The contract forbids it, though Kafka up to 2.4 is known for it: a broker "
                    "forgets a producer whose records are gone, and does not know it when it "
                    "comes back.",
                    "KIP-360, mended in 2.5",
                ),
                "sequence",
                given=FORGETS_PRODUCERS,
            ),
            forbidden(
                Reason(
                    "A leader that has all acknowledged batches of an idempotent producer takes "
                    "the next one.",
                    "KIP-98, KIP-360; librdkafka, INTRODUCTION.md, idempotent producer",
                ),
                "sequence",
            ),
            forbidden(
                Reason(
                    "Only a later client of the same transactional id fences a producer, or the "
                    "coordinator that aborts its transaction: there was neither.",
                    "KIP-98",
                ),
                "fenced",
            ),
            forbidden(
                Reason(
                    "What brokers, leaders and coordinators owe a client through faults is an "
                    "error that it can retry.",
                    "librdkafka, INTRODUCTION.md, fatal errors; KIP-98, KIP-848",
                )
            ),
        ),
    ),
    Chapter(
        anomaly="unexplained-answer",
        means="A client was given an error that no fault of the run explains.",
        kinds=(*(family.name for family in FAMILIES), SERVER_AT_REST),
        rows=(
            undecided(
                Reason(
                    "A broker met an error that it does not know while a fault was in force or "
                    "soon after: its server.log says whether the damage accounts for it.",
                    "Kafka protocol, error code -1 (UNKNOWN_SERVER_ERROR)",
                ),
                SERVER,
            ),
            undecided(
                Reason(
                    "The brokers' disks are the machine's, and no fault of this run touched them: "
                    "a full or failing disk is no fault of Kafka's, a log that Kafka closed too "
                    "early is. The brokers' server.log says which.",
                    "KIP-112, error code 56 (KAFKA_STORAGE_ERROR)",
                ),
                "storage",
            ),
            undecided(
                Reason(
                    "Whoever set the cluster up may have asked for this refusal: compare its "
                    "limits, policies and ACLs with what the workload sends.",
                    "Kafka protocol, error codes; message.max.bytes, message.timestamp.*, ACLs",
                ),
                "settings",
            ),
            undecided(
                Reason(
                    "A broker that was not told of a topic yet answers so too, and nothing "
                    "disturbed it: whether somebody deleted the topic is not known.",
                    "Kafka protocol, error codes 3 and 100",
                ),
                "topic",
            ),
            forbidden(
                Reason(
                    "Batches carry checksums, and nothing in this run can have changed their "
                    "bytes.",
                    "KIP-98, record batches; Kafka protocol, error code 2 (CORRUPT_MESSAGE)",
                ),
                "bytes",
            ),
            forbidden(
                Reason(
                    "All records and requests of a client are made alike, so a broker that takes "
                    "one must take the next.",
                    "KIP-467, error code 87 (INVALID_RECORD); Kafka protocol, error code 42",
                ),
                "record",
            ),
            forbidden(
                Reason(
                    "Nothing was broken, and a broker met an error that it does not know.",
                    "Kafka protocol, error code -1 (UNKNOWN_SERVER_ERROR)",
                )
            ),
        ),
    ),
)
"""What is ruled of clients."""
