"""The workload transactional: sends and polls in transactions, some aborted, some fenced."""

from dataclasses import dataclass, replace

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.version import FIRST_IDEMPOTENCE, numbers
from harness.core.workload import ClientSpec, workload
from workloads.client_config import Config, consumer_config, limits_s, producer_config
from workloads.load import Load
from workloads.send_poll import FIRST_CONSUMER, FIRST_PRODUCER, SendPoll

_MOST_CLIENTS = 50
_MOST_SENDS = 1000
_MOST_TIMEOUT_S = 900.0
"""`transaction.max.timeout.ms` of a broker, by default."""
_MOST_THINKING = 10
"""A transaction rests for at most so many times its timeout: it was aborted long ago by then."""
_LEFT_OPEN_S = 30.0


@workload("transactional")
@dataclass(frozen=True, slots=True, kw_only=True)
class Transactional(Load):
    """Send unique records in transactions that span partitions; commit, abort, or be fenced.

    All clients work on one topic. What a transaction does is drawn from the run's seed: most are
    committed, some aborted on purpose, and in some a second client takes over the transactional id
    before the commit is tried: the first one, a zombie from then on, must be refused.

    Attributes:
        producers: processes whose transactions send to several partitions.
        transformers: processes whose transactions also poll the topic, and commit the offsets they
            got to together with what they send.
        consumers: read_committed consumers that each take all partitions by themselves (assign).
        uncommitted: the same, read_uncommitted: they may see what is aborted.
        subscribers: read_committed members of one consumer group (subscribe).
        seek_s: each of the consumers (not the subscribers) goes back about every so many seconds;
            0: never.
        most_sends: a transaction sends 1 to so many records.
        abort_share: the share of transactions that is aborted on purpose, 0 to 1.
        takeover_share: the share in which another client takes over, 0 to 1.
        timeout_s: `transaction.timeout.ms`, in seconds: what a client leaves open, the coordinator
            aborts so long after it was begun, and nobody reads beyond it before.
        think_s: one transaction in ten rests for up to so many seconds in its middle; above
            `timeout_s`, some are aborted by their coordinator meanwhile. 0: none.
    """

    transformers: int = 1
    consumers: int = 1
    uncommitted: int = 1
    rate_per_s: float = 100
    seek_s: float = 0.0
    most_sends: int = 8
    abort_share: float = 0.1
    takeover_share: float = 0.05
    timeout_s: float = 60.0
    think_s: float = 0.0

    def __post_init__(self) -> None:
        """Reject what cannot be run.

        Raises:
            UsageError: with the number and its bounds.
        """
        # What both workloads have is bounded alike.
        self._plain()
        self.reject_beyond(
            producers=(1, _MOST_CLIENTS),
            transformers=(0, _MOST_CLIENTS),
            consumers=(0, _MOST_CLIENTS),
            uncommitted=(0, _MOST_CLIENTS),
            most_sends=(1, _MOST_SENDS),
        )
        shares = (self.abort_share, self.takeover_share)
        if min(shares) < 0 or sum(shares) > 1:
            raise UsageError(
                f"Of all transactions {self.abort_share:g} aborted and {self.takeover_share:g} "
                "taken over: shares from 0 to 1, and not more than 1 together."
            )
        if not 1 <= self.timeout_s <= _MOST_TIMEOUT_S:
            raise UsageError(
                f"A transaction timeout of {self.timeout_s:g} s: choose 1 to {_MOST_TIMEOUT_S:g} "
                "(what brokers allow)."
            )
        if not 0 <= self.think_s <= _MOST_THINKING * self.timeout_s:
            raise UsageError(
                f"Transactions that rest for up to {self.think_s:g} s: choose 0 to "
                f"{_MOST_THINKING * self.timeout_s:g}, {_MOST_THINKING} times their timeout."
            )

    def refuse(self, contract: Contract, *, kafka: str) -> None:
        """Refuse a contract or a version under which there are no transactions.

        Raises:
            UsageError: with what would do.
        """
        if numbers(kafka) and numbers(kafka) < FIRST_IDEMPOTENCE:
            raise UsageError(
                f"Kafka {kafka} knows no transactions, 0.11 was the first: "
                "choose another --workload or a younger --kafka."
            )
        if not contract.idempotent:
            raise UsageError(
                f"Transactions need an idempotent producer, and with acks={contract.acks} "
                "there is none here: set --acks all and leave --idempotence out, or choose "
                "another --workload."
            )

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        """The transactional ids of the producers, then of the transformers."""
        return tuple(f"transactor-{i}" for i in range(self.producers + self.transformers))

    def limits_s(self, contract: Contract) -> tuple[float, ...]:
        """Return the time limits of all clients, and that of a transaction, seconds."""
        return tuple(sorted({*limits_s(self.clients(contract)), self.timeout_s}))

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return producers, transformers, then consumers, uncommitted ones and subscribers."""
        workers = self.producers + self.transformers
        produce = {
            "topic": self.topic,
            "partitions": self.partitions,
            "rate_per_s": self.rate_per_s / workers,
            "record_size_bytes": self.record_size_bytes,
            "most_sends": self.most_sends,
            "abort_share": self.abort_share,
            "takeover_share": self.takeover_share,
            "timeout_s": self.timeout_s,
            "think_s": self.think_s,
            "config": self._producing(contract),
        }
        transactors = [
            ClientSpec(
                process=FIRST_PRODUCER + i,
                role="producer",
                module="workloads.transactor",
                settings={
                    **produce,
                    "transactional_id": transactional_id,
                    "consume": None if i < self.producers else consumer_config("read_committed"),
                },
            )
            for i, transactional_id in enumerate(self.transactional_ids)
        ]
        return (*transactors, *self._consumers())

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return up to two readers, read_committed, that share the partitions among them."""
        return self._plain().readers(contract)

    def _consumers(self) -> list[ClientSpec]:
        plain = self._plain()
        early = replace(
            plain, consumers=self.uncommitted, subscribers=0, isolation="read_uncommitted"
        )
        watchers = [*plain.watchers(), *early.watchers(first=FIRST_CONSUMER + _MOST_CLIENTS)]
        return sorted(watchers, key=lambda client: client.process)

    def _producing(self, contract: Contract) -> Config:
        # librdkafka refuses to hold a record for longer than its transaction may last.
        timeout_ms = min(contract.delivery_timeout_ms, int(self.timeout_s * 1000))
        config = producer_config(contract, compression=self.compression)
        return {**config, "delivery.timeout.ms": timeout_ms}

    def _plain(self) -> SendPoll:
        """Return the workload without transactions whose topic and final read are the same."""
        return SendPoll.like(
            self, isolation="read_committed", read_stall_s=self.timeout_s + _LEFT_OPEN_S
        )
