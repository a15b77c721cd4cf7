"""The circumstances of a run that the oracle considers, and the conditions of its rows."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.core.contract import Contract
from harness.core.version import FIRST_RENEWED_EPOCHS, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Everything that the oracle considers.

    Attributes:
        contract: what the workload was promised.
        kafka: version of the brokers, as on Maven Central; one without numbers (brokers of a
            user's own that do not tell) counts as the newest.
        destroyed: whether a fault took away data that a broker had on its disk.
        copies_destroyed: whether faults did so on every replica in the ISR of a partition, and on
            min.insync.replicas of them or more.
        last_known_led: whether a partition without an ISR was given a leader that was no eligible
            leader replica: the last known leader (KIP-966).
        clients_renew_epochs: whether clients take a new epoch for each transaction from brokers
            that give one, as those since 4.0 do (KIP-890, part 2).
    """

    contract: Contract
    kafka: str
    destroyed: bool = False
    copies_destroyed: bool = False
    last_known_led: bool = False
    clients_renew_epochs: bool = False

    @classmethod
    def planned(cls, contract: Contract, kafka: str, *, destroys: bool) -> "Circumstances":
        """Return what faults may bring about: one that destroys data may hit a lonely leader."""
        return cls(
            contract=contract,
            kafka=kafka,
            destroyed=destroys,
            copies_destroyed=destroys and contract.min_isr == 1,
        )

    def is_before(self, *version: int) -> bool:
        """Whether the brokers are older than a version."""
        known = numbers(self.kafka)
        return bool(known) and known < version

    @property
    def others_may_lead(self) -> bool:
        """Whether another replica can become the leader."""
        return self.contract.replication_factor > 1

    @property
    def idempotent(self) -> bool:
        """Whether producers are idempotent; brokers before 0.11 do not support it."""
        return self.contract.idempotent and not self.is_before(0, 11)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a row, in words and as a test.

    Attributes:
        words: as it stands in docs/contracts.md; empty if it always holds.
        holds: whether it holds.
    """

    words: str
    holds: Callable[[Circumstances], bool]


ALWAYS = Condition("", lambda _: True)

ACKS_0 = Condition("acks=0", lambda at: at.contract.acks == "0")
ACKS_1 = Condition(
    "acks=1, and more than one replica",
    lambda at: at.contract.acks == "1" and at.others_may_lead,
)
UNCLEAN = Condition(
    "unclean election on, and more than one replica",
    lambda at: at.contract.unclean_election and at.others_may_lead,
)
COPIES_DESTROYED = Condition(
    "faults destroyed data on every replica in the ISR, min.insync.replicas or more",
    lambda at: at.copies_destroyed,
)
SHOWN_ALONE_AND_DESTROYED = Condition(
    "Kafka before 3.7, and a fault destroyed data on disk",
    lambda at: at.is_before(3, 7) and at.destroyed,
)
LAST_REPLICA_DESTROYED = Condition(
    "Kafka before 4.1, and a fault destroyed data on disk",
    lambda at: at.is_before(4, 1) and at.destroyed,
)
LAST_KNOWN_DESTROYED = Condition(
    "a last known leader led that was neither in the ISR nor eligible, and a fault destroyed data "
    "on disk",
    lambda at: at.last_known_led and at.destroyed,
)
MAY_LOSE = Condition(
    "the contract permits lost-write",
    lambda at: any(
        condition.holds(at) for condition in (ACKS_0, ACKS_1, UNCLEAN, COPIES_DESTROYED)
    ),
)
MAY_REPEAT = Condition(
    "idempotence off (as before 0.11), and retries",
    lambda at: not at.idempotent and at.contract.retries != 0,
)
MAY_REORDER = Condition(
    "idempotence off (as before 0.11), retries, and more than one request in flight",
    lambda at: MAY_REPEAT.holds(at) and at.contract.max_in_flight > 1,
)
EARLY_IDEMPOTENCE = Condition(
    "idempotence on, Kafka 0.11, and more than one request in flight",
    lambda at: at.idempotent and at.is_before(1, 0) and at.contract.max_in_flight > 1,
)
CUTS_BY_HIGH_WATERMARK = Condition("Kafka before 0.11", lambda at: at.is_before(0, 11))
ENDS_AHEAD_OF_ITS_LEADER = Condition(
    "Kafka before 2.1, and a fault destroyed data on disk",
    lambda at: at.is_before(2, 1) and at.destroyed,
)
UNKNOWN_EPOCHS_UNANSWERED = Condition("Kafka before 2.0", lambda at: at.is_before(2))
READS_RACE_APPENDS = Condition("Kafka before 2.5.1", lambda at: at.is_before(2, 5, 1))
FORGETS_PRODUCERS = Condition("Kafka before 2.5", lambda at: at.is_before(2, 5))
ADDS_LATE = Condition("Kafka before 4.0", lambda at: at.is_before(4, 0))
DECIDES_LATE = Condition(
    "Kafka before 4.0, or a client that is not Java's since 4.0",
    lambda at: at.is_before(*FIRST_RENEWED_EPOCHS) or not at.clients_renew_epochs,
)
