"""Known bugs of Kafka and of its clients, as data: what an unscripted search has to find."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from harness.core.errors import UsageError

Side = Literal["affected", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What is searched.

    Attributes:
        kafka: version of the brokers; None is the newest that we know.
        client: of the clients, as `--client` takes it; None is the one that is installed.
    """

    kafka: str | None = None
    client: str | None = None

    @property
    def arguments(self) -> list[str]:
        """The flags of a search of it."""
        kafka = ["--kafka", self.kafka] if self.kafka else []
        return [*kafka, *(["--client", self.client] if self.client else [])]

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.kafka, self.client)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A bug that is known.

    Attributes:
        id: its name here.
        meaning: what goes wrong, in a phrase.
        anomalies: as which it counts as found, where the contract forbids them; as `--stop-at` has
            them, one of a kind with its kind.
        affected: has it.
        fixed: the nearest that does not.
        workload: what the clients do.
        flags: of a search; they belong to the contract, the workload or the client, and never say
            what is broken, when, or which broker properties are drawn.
        goal_min: within how many minutes the median search has to find it; None: it is one of
            those of which some single one has to be found within `OTHERS_GOAL_MIN`.
    """

    id: str
    meaning: str
    anomalies: tuple[str, ...]
    affected: Version
    fixed: Version
    workload: str = "send_poll"
    flags: tuple[str, ...] = ()
    goal_min: float | None = None

    def version(self, side: Side) -> Version:
        """Return what is searched on a side."""
        return self.affected if side == "affected" else self.fixed

    def arguments(self, side: Side) -> list[str]:
        """Return the flags of a search on a side: what is the same for all of its goes."""
        return [
            *self.version(side).arguments,
            *("--workload", self.workload),
            *self.flags,
            *("--stop-at", ",".join(self.anomalies)),
        ]


OTHERS_GOAL_MIN = 60.0
"""Of the bugs without a goal of their own the median search has to find one within an hour."""

_CLEAN = ("--unclean-election", "off")
"""What an unclean election loses, or lets a group skip, no contract forbids."""

_BEFORE_KIP101, _SINCE_KIP101 = Version(kafka="0.10.2.2"), Version(kafka="0.11.0.3")

_ALL = (
    Bug(
        id="kip101-loss",
        meaning="a follower cuts acknowledged records by its stale high watermark",
        # Where a fault had destroyed a copy the record may be lost on any version.
        anomalies=("lost-write(explained)",),
        affected=_BEFORE_KIP101,
        fixed=_SINCE_KIP101,
        flags=_CLEAN,
        goal_min=10,
    ),
    Bug(
        id="kip101-divergence",
        meaning="a leader keeps what lay above the high watermark",
        anomalies=("replica-divergence",),
        affected=_BEFORE_KIP101,
        fixed=_SINCE_KIP101,
        goal_min=15,
    ),
    Bug(
        id="kip279",
        meaning="the wrong answer to an unknown leader epoch (KAFKA-6361)",
        anomalies=("replica-divergence(in-sync)",),
        affected=Version(kafka="1.1.1"),
        fixed=Version(kafka="2.0.1"),
        # The contract under which the bug can be: one of two replicas leads alone, and the other
        # one after it.
        flags=(
            *("--replication-factor", "2"),
            *("--min-isr", "1"),
            *("--unclean-election", "on"),
        ),
        goal_min=15,
    ),
    Bug(
        id="kip966",
        meaning="the last replica standing leads although it lost its tail",
        anomalies=("lost-write", "inconsistent-offsets", "dirty-read"),
        affected=Version(kafka="3.9.1"),
        fixed=Version(kafka="4.1.2"),
        # With min.insync.replicas=1 the last replica is a member of the ISR like any other.
        flags=("--replication-factor", "3", "--min-isr", "2", *_CLEAN),
        goal_min=15,
    ),
    Bug(
        id="kafka5600",
        meaning="a new coordinator loads only the first part of the offsets",
        anomalies=("lost-commit(in-sync)", "consume-repeat(committed)"),
        affected=Version(kafka="0.11.0.0"),
        fixed=Version(kafka="0.11.0.3"),
        workload="consumer_group",
        flags=_CLEAN,
        goal_min=15,
    ),
    Bug(
        id="kafka17754",
        meaning="a late EndTxn decides the next transaction",
        anomalies=("G1a(read_committed)", "lost-write(aborted)", "torn-transaction(decided)"),
        affected=Version(kafka="3.8.0"),
        # Brokers from 4.0 on are safe only with a client that speaks transaction version 2, and
        # librdkafka does not.
        fixed=Version(kafka="4.1.2", client="java:4.1.2"),
        workload="transactional",
        flags=_CLEAN,
    ),
    Bug(
        id="kafka10706",
        meaning="conflicting leader epochs, and a truncation that never ends",
        anomalies=("isr-not-whole",),
        affected=Version(kafka="2.6.0"),
        fixed=Version(kafka="2.6.1"),
    ),
    Bug(
        id="kafka12890",
        meaning="a group stays in CompletingRebalance",
        anomalies=("group-stuck",),
        affected=Version(kafka="2.8.0"),
        fixed=Version(kafka="2.8.1"),
        workload="consumer_group",
    ),
    Bug(
        id="kafka19012",
        meaning="the Java producer gives back a buffer that is still being sent",
        # Whole, another batch in its place is read elsewhere; in part, its checksum does not fit.
        anomalies=("corrupt-batch", "corrupt-record", "phantom"),
        affected=Version(client="java:3.9.1"),
        fixed=Version(client="java:3.9.2"),
        # Records that have waited 0.2 s for their request expire while it is under way, and what is
        # under way is more than what the engine's proxy takes in for a broker that is frozen.
        flags=(
            *("--delivery-timeout", "3200ms"),
            *("--request-timeout", "3s"),
            *("--idempotence", "off"),
            *("--rate", "0"),
            *("--record-size", "20000"),
            *("--batch-size", "524288"),
            *("--topic-partitions", "9"),
            *("--producers", "2"),
        ),
    ),
    Bug(
        id="rdk4844",
        meaning="librdkafka's batch consume() moves the position by two at the end of a partition",
        anomalies=("consume-skip(after-processing)",),
        affected=Version(client="librdkafka:2.13.0"),
        fixed=Version(client="librdkafka:2.13.2"),
        workload="consumer_group",
        flags=_CLEAN,
        goal_min=15,
    ),
)

BUGS: Mapping[str, Bug] = {bug.id: bug for bug in _ALL}


def bugs_of(ids: list[str]) -> list[Bug]:
    """Return the bugs of these names, all of them if there is none.

    Raises:
        UsageError: there is no such bug.
    """
    unknown = sorted(set(ids) - BUGS.keys())
    if unknown:
        raise UsageError(f"There is no bug {', '.join(unknown)}; known: {', '.join(BUGS)}.")
    return [BUGS[name] for name in dict.fromkeys(ids)] if ids else list(BUGS.values())
