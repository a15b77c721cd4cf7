"""The contract: what producers are promised; it decides which anomalies are permitted."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.core.errors import UsageError
from harness.core.version import FIRST_IDEMPOTENCE, numbers

Acks = Literal["0", "1", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Settings of topic and producer that decide which anomalies are permitted.

    Attributes:
        acks: what a producer waits for: nothing, the leader, or the whole ISR.
        min_isr: `min.insync.replicas` of the topic.
        replication_factor: replicas of each partition.
        idempotence: `enable.idempotence`; None means on exactly if acks is all, as in Kafka.
        retries: `retries` of the producer; None means the client's default (practically endless).
        max_in_flight: `max.in.flight.requests.per.connection`.
        linger_ms: `linger.ms`, milliseconds.
        batch_size_bytes: `batch.size`, bytes.
        delivery_timeout_ms: `delivery.timeout.ms`, milliseconds; Kafka's default. A shorter one
            that runs out makes librdkafka's idempotent producer repeat records: docs/findings.md.
        request_timeout_ms: `request.timeout.ms` of the producer, milliseconds; None means a quarter
            of the delivery timeout, 5 s at most, so that a record is tried at several leaders
            before it is given up.
        unclean_election: `unclean.leader.election.enable` of the topic.
    """

    acks: Acks = "all"
    min_isr: int = 2
    replication_factor: int = 3
    idempotence: bool | None = None
    retries: int | None = None
    max_in_flight: int = 5
    linger_ms: float = 5.0
    batch_size_bytes: int = 1_000_000
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int | None = None
    unclean_election: bool = False

    def __post_init__(self) -> None:
        """Reject what Kafka would refuse later, or silently change.

        Raises:
            UsageError: naming the setting, its value and the values that are allowed.
        """
        if self.acks not in ("0", "1", "all"):
            raise UsageError(f"acks={self.acks!r} is none of 0, 1, all.")
        if self.replication_factor < 1:
            raise UsageError(f"A replication factor of {self.replication_factor} keeps no data.")
        if not 1 <= self.min_isr <= self.replication_factor:
            raise UsageError(
                f"min.insync.replicas={self.min_isr} with replication factor "
                f"{self.replication_factor} can never be met: choose 1 to "
                f"{self.replication_factor}, or a higher --replication-factor."
            )
        if self.idempotence and self.acks != "all":
            raise UsageError(
                f"Idempotence needs acks=all, not acks={self.acks}: "
                "leave --idempotence out or set --acks all."
            )
        if self.idempotence and self.max_in_flight > 5:
            raise UsageError("Idempotence allows at most 5 requests in flight.")
        if (self.retries or 0) < 0 or self.linger_ms < 0:
            raise UsageError("Retries and linger.ms of a producer cannot be below 0.")
        timeouts_ms = self.delivery_timeout_ms, self.effective_request_timeout_ms
        if min(self.batch_size_bytes, *timeouts_ms) < 1:
            raise UsageError(
                "batch.size, delivery.timeout.ms and request.timeout.ms of a producer are at "
                "least 1."
            )
        if self.max_in_flight < 1:
            raise UsageError(f"{self.max_in_flight} requests in flight send nothing: at least 1.")
        if self.delivery_timeout_ms < self.linger_ms + self.effective_request_timeout_ms:
            raise UsageError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is less than linger.ms="
                f"{self.linger_ms:g} and request.timeout.ms={self.effective_request_timeout_ms} "
                "together, which Kafka's producer refuses: choose a longer --delivery-timeout."
            )

    @property
    def idempotent(self) -> bool:
        """Whether the producer is idempotent, the default resolved."""
        return self.acks == "all" if self.idempotence is None else self.idempotence

    @property
    def effective_request_timeout_ms(self) -> int:
        """How long a producer waits for the answer to a request, the default resolved, ms."""
        if self.request_timeout_ms is not None:
            return self.request_timeout_ms
        return max(1, min(5_000, self.delivery_timeout_ms // 4))

    @property
    def survivable_losses(self) -> int | None:
        """On how many brokers data may be destroyed at a time without an acknowledged record lost.

        None: the contract promises nothing that such a loss could break.
        """
        if self.acks != "all" or self.min_isr == 1 or self.unclean_election:
            return None
        return self.min_isr - 1

    def kept_by(self, kafka: str) -> "Contract":
        """Return the contract as brokers of this version can keep it.

        Raises:
            UsageError: idempotence was asked for, and they do not know it (KIP-98).
        """
        if not numbers(kafka) or numbers(kafka) >= FIRST_IDEMPOTENCE:
            return self
        if self.idempotence:
            raise UsageError(
                f"Kafka {kafka} knows no idempotent producers, 0.11 was the first: "
                "leave --idempotence out."
            )
        return replace(self, idempotence=False)

    def __str__(self) -> str:
        return (
            f"acks={self.acks} · min.insync.replicas={self.min_isr} · "
            f"replication {self.replication_factor} · "
            f"idempotence {'on' if self.idempotent else 'off'} · "
            f"unclean election {'on' if self.unclean_election else 'off'}"
        )
