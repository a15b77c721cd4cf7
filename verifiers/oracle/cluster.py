"""Chapters on faults of the cluster: processes, ISRs, controllers, and transactions that hang."""

from verifiers.oracle import reasons
from verifiers.oracle.circumstances import (
    ADDS_LATE,
    ENDS_AHEAD_OF_ITS_LEADER,
    LAST_REPLICA_DESTROYED,
)
from verifiers.oracle.row import chapter, forbidden, undecided

CLUSTER = (
    chapter(
        "hanging-transaction",
        "A partition holds records of a transaction without the marker that ends it, and its "
        "coordinator will never write one, or ought to have.",
        reasons.unclean_election(),
        reasons.copies_destroyed(),
        forbidden(reasons.LAST_REPLICA_STANDING, given=LAST_REPLICA_DESTROYED),
        forbidden(
            "The contract forbids it, though Kafka up to 3.9 is known for it: a late request may "
            "add records to a transaction that has ended.",
            "ended",
            "not-added",
            "forgotten",
            source="KAFKA-12671; KAFKA-14402 and KIP-890, in 4.0",
            given=ADDS_LATE,
        ),
        forbidden(
            "A transaction is over once its coordinator has decided, or its time has run out, and "
            "then every partition of it gets a marker; until then nobody reads beyond it under "
            "read_committed.",
            source="KIP-98; KIP-664; transaction.timeout.ms",
        ),
        kinds=("ended", "not-added", "forgotten", "overdue", "unmarked"),
    ),
    chapter(
        "broker-ended",
        "A node's process ended, and no fault of the journal ended it.",
        undecided(
            "SIGKILL comes from outside of the process: from the kernel when memory is short, or "
            "from somebody whom the journal does not know; what the run shows is not what was "
            "planned.",
            "killed",
            source="signal(7); the kernel's log has its own kills",
        ),
        undecided(
            "The process was asked to end by somebody whom the journal does not know, and what "
            "the run shows is not what was planned.",
            "terminated",
            source="signal(7)",
        ),
        undecided(
            "A broker whose last log directory cannot be written ends itself: the disk was full, "
            "which is no fault of Kafka's nor one of the plan.",
            "no-space",
            source="KIP-112",
        ),
        undecided(
            "The container ended with all that ran in it: the engine, or somebody whom the "
            "journal does not know, ended it.",
            "container",
            source="the engine's State of a container",
        ),
        undecided(
            "Nobody could be asked how the node's process ended, or whether it runs.",
            "unasked",
            source="cluster/processes.json of the run",
        ),
        forbidden(
            "The contract forbids it, though Kafka up to 2.0 is known for it: a follower whose "
            "leader has lost what it holds ends the broker, rather than cut its log.",
            "exited",
            source="KAFKA-7414, mended in 2.1",
            given=ENDS_AHEAD_OF_ITS_LEADER,
        ),
        forbidden(
            "A node ends when it is told to, or when it can no longer write: what faults of "
            "links, pauses and other nodes do to it, it must survive.",
            source="KIP-112, log directory failure; Kafka documentation, replication design",
        ),
        kinds=("exited", "crashed", "killed", "terminated", "no-space", "container", "unasked"),
    ),
    chapter(
        "isr-not-whole",
        "When the bound after the last healing had run out, a replica was not in the ISR, a "
        "partition had no leader, or a broker was not registered.",
        undecided(
            "How long a follower copies what it lacks, or a broker recovers its logs, depends on "
            "the machine: Kafka sets no bound, and the run shows that its own was too short or "
            "that the cluster hangs.",
            "behind",
            "leaderless",
            "unregistered",
            "unanswered",
            source="full_isr_within_s of the scenario; Kafka documentation, replication design",
        ),
        forbidden(
            "A leader puts a follower that holds all it holds back into the ISR.",
            source="Kafka documentation, replication design and replica.lag.time.max.ms; KIP-497",
        ),
        kinds=("caught-up", "behind", "leaderless", "unregistered", "unanswered"),
    ),
    chapter(
        "two-controllers",
        "Two nodes were the active controller in one epoch.",
        forbidden(
            "An epoch has one active controller: a voter of the quorum votes once in it, and "
            "under ZooKeeper the znode of the epoch is raised by a conditional update. No "
            "contract permits otherwise.",
            source="KIP-595; KIP-500; KAFKA-6082",
        ),
    ),
)
