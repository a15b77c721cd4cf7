"""The workload send_poll: producers send, consumers poll, and a final read tells what is there."""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from harness.core.contract import Contract
from harness.core.errors import UsageError
from harness.core.workload import ClientSpec, workload
from workloads.client_config import (
    Compression,
    Isolation,
    consumer_config,
    limits_s,
    producer_config,
    subscriber_config,
)
from workloads.load import Load
from workloads.outcome import single_attempt
from workloads.record import HEADER_BYTES

FIRST_PRODUCER, FIRST_CONSUMER, FIRST_SUBSCRIBER, FIRST_READER = 0, 100, 200, 300
"""Where the process numbers of each kind of client begin."""

_MOST_CLIENTS = 100
_MOST_RECORD_BYTES = 900_000
_SHORTEST_LIFE_S = 1.0
_MOST_READERS = 2
_MOST_HEADERS = 100

Partitioning = Literal["turn", "hash", "sticky"]
"""Who chooses the partition of a record."""


@workload("send_poll")
@dataclass(frozen=True, slots=True, kw_only=True)
class SendPoll(Load):
    """Send unique records to every partition of one topic, poll them, and read all at the end.

    Attributes:
        own_partitions: each producer sends to partitions of its own instead of to all in turn, as
            far as there are enough: a broker answers the requests of a connection in their order,
            so that a partition that waits for its followers stops all sends of the same producer to
            that broker. Where the partitioner chooses, it chooses among all.
        keyed: let the client's partitioner choose by the record's key instead of going round.
        partitioning: who chooses the partition: "turn", each in turn; "hash", the partitioner by
            the record's key (as keyed); "sticky", the partitioner, one for a while.
        headers: so many headers a record.
        quiet_s: each partition in its turn is sent nothing for so long, seconds: an idle follower
            knows an old high watermark, and the first record after it finds whatever happened
            meanwhile. 0: never.
        producer_life_s: after so many seconds each producer is replaced by a new one of the same
            settings, with a session of its own. 0: never.
        seek_s: each of the consumers (not the subscribers) goes back about every so many seconds;
            0: never.
        isolation: `isolation.level` of everyone who reads.
        read_stall_s: the longest that it may go without progress, seconds.
    """

    own_partitions: bool = False
    keyed: bool = False
    partitioning: Partitioning = "turn"
    headers: int = 0
    quiet_s: float = 0.0
    producer_life_s: float = 0.0
    seek_s: float = 0.0
    isolation: Isolation = "read_committed"
    read_stall_s: float = 60.0

    def __post_init__(self) -> None:
        """Reject what cannot be run.

        Raises:
            UsageError: with the number and its bounds.
        """
        self.reject_beyond(
            partitions=(1, 1000),
            producers=(1, _MOST_CLIENTS),
            consumers=(0, _MOST_CLIENTS),
            subscribers=(0, _MOST_CLIENTS),
            headers=(0, _MOST_HEADERS),
        )
        self.reject_unlisted(partitioning=get_args(Partitioning), compression=get_args(Compression))
        if self.rate_per_s < 0:
            raise UsageError(
                f"A rate of {self.rate_per_s:g} records/s: choose 0 (as fast as possible) or more."
            )
        if not HEADER_BYTES <= self.record_size_bytes <= _MOST_RECORD_BYTES:
            raise UsageError(
                f"Records of {self.record_size_bytes} bytes: choose {HEADER_BYTES} (their own "
                f"description) to {_MOST_RECORD_BYTES} (below Kafka's max.message.bytes)."
            )
        if self.keyed and self.partitioning == "sticky":
            raise UsageError("A record with a key goes by its hash: choose keyed or sticky.")
        if self.quiet_s < 0:
            raise UsageError(f"Quiet for {self.quiet_s:g} s: choose 0 (never) or more.")
        if self.quiet_s and (self.keyed or self.partitioning != "turn"):
            raise UsageError(
                "Which partition is quiet, the producer decides: with quiet, partitioning is turn."
            )
        if self.producer_life_s and self.producer_life_s < _SHORTEST_LIFE_S:
            raise UsageError(
                f"Producers that live for {self.producer_life_s:g} s: choose 0 (all the run) or "
                f"{_SHORTEST_LIFE_S:g} or more."
            )
        if self.seek_s < 0:
            raise UsageError(f"A seek every {self.seek_s:g} s: choose 0 (never) or more.")
        if min(self.read_limit_s, self.read_stall_s) <= 0:
            raise UsageError("The limits of the final read must be above 0 seconds.")

    @classmethod
    def like(cls, other: object, **changes: Any) -> "SendPoll":  # noqa: ANN401 (any field's)
        """Return the plain workload whose topic, load and final read are those of another one.

        Args:
            other: the other workload; its fields that this one has too are taken over.
            changes: fields that are not.
        """
        shared = {
            field.name: getattr(other, field.name)
            for field in fields(cls)
            if hasattr(other, field.name)
        }
        return cls(**{**shared, **changes})

    def clients(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return producers, then consumers, then subscribers."""
        produce = {
            "topic": self.topic,
            "partitions": self.partitions,
            "keyed": self.keyed or self.partitioning == "hash",
            "sticky": self.partitioning == "sticky",
            "headers": self.headers,
            "quiet_s": self.quiet_s,
            "life_s": self.producer_life_s,
            "rate_per_s": self.rate_per_s / self.producers,
            "record_size_bytes": self.record_size_bytes,
            "single_attempt": single_attempt(contract),
            # Whatever is under way ends within the delivery timeout; the rest is for the reports.
            "flush_s": contract.delivery_timeout_ms / 1000 + 2.0,
            "config": producer_config(contract, compression=self.compression),
        }
        producers = [
            ClientSpec(
                process=FIRST_PRODUCER + i,
                role="producer",
                module="workloads.producer",
                settings=produce | self._partitions_of(i),
            )
            for i in range(self.producers)
        ]
        return (*producers, *self.watchers())

    def limits_s(self, contract: Contract) -> tuple[float, ...]:
        """Return the time limits of producers, consumers and subscribers, seconds."""
        return limits_s(self.clients(contract))

    def _partitions_of(self, producer: int) -> dict[str, int]:
        """Return the settings that say which partitions a producer sends to."""
        if not self.own_partitions or self.keyed or self.partitioning != "turn":
            return {}
        if self.producers > self.partitions:
            return {"first_partition": producer % self.partitions, "partitions": 1}
        first, end = (n * self.partitions // self.producers for n in (producer, producer + 1))
        return {"first_partition": first, "partitions": end - first}

    def watchers(self, *, first: int = FIRST_CONSUMER) -> list[ClientSpec]:
        """Return the consumers, their processes numbered from `first` on, then the subscribers."""
        assign = {
            "mode": "assign",
            "topic": self.topic,
            "partitions": list(range(self.partitions)),
            "seek_s": self.seek_s,
            "config": consumer_config(self.isolation),
        }
        subscribe = {
            "mode": "subscribe",
            "topic": self.topic,
            "config": subscriber_config(self.isolation, group=f"{self.topic}-subscribers"),
        }
        kinds = (
            (first, self.consumers, assign),
            (FIRST_SUBSCRIBER, self.subscribers, subscribe),
        )
        return [
            ClientSpec(
                process=start + i, role="consumer", module="workloads.consumer", settings=settings
            )
            for start, count, settings in kinds
            for i in range(count)
        ]

    def readers(self, contract: Contract) -> tuple[ClientSpec, ...]:
        """Return up to two readers that share the partitions among them."""
        del contract  # whatever was promised, everything is read
        count = min(_MOST_READERS, self.partitions)
        return tuple(
            ClientSpec(
                process=FIRST_READER + i,
                role="reader",
                module="workloads.reader",
                settings={
                    "topic": self.topic,
                    "partitions": list(range(i, self.partitions, count)),
                    "limit_s": self.read_limit_s,
                    "stall_s": self.read_stall_s,
                    "config": consumer_config(self.isolation),
                },
            )
            for i in range(count)
        )
