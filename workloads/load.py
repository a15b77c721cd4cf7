"""What all workloads on one topic have: the topic, its clients, and how much they send."""

from dataclasses import dataclass

from harness.core.cluster import TopicSpec
from harness.core.contract import Contract
from harness.core.errors import UsageError
from workloads.client_config import Compression


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A topic, and the clients of it.

    Attributes:
        topic: the topic's name.
        partitions: how many partitions.
        producers: processes that send.
        consumers: processes that each take all partitions by themselves (assign): several
            independent witnesses of what the log shows.
        subscribers: members of one consumer group (subscribe).
        rate_per_s: records a second that are sent by all together; 0 is as fast as they can.
        record_size_bytes: length of a record's value.
        compression: `compression.type` of all who send.
        read_limit_s: the longest that the final read may take, seconds.
    """

    topic: str = "orders"
    partitions: int = 3
    producers: int = 2
    consumers: int = 2
    subscribers: int = 1
    rate_per_s: float = 1000
    record_size_bytes: int = 100
    compression: Compression = "none"
    read_limit_s: float = 300.0

    def reject_beyond(self, **bounds: tuple[int, int]) -> None:
        """Reject a field whose number lies beyond its bounds, the least and the most.

        Raises:
            UsageError: with the number and its bounds.
        """
        for name, (least, most) in bounds.items():
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{getattr(self, name)} {name}: choose {least} to {most}.")

    def reject_unlisted(self, **choices: tuple[str, ...]) -> None:
        """Reject a field whose word is none of its choices.

        Raises:
            UsageError: with the word and the choices.
        """
        for name, words in choices.items():
            if getattr(self, name) not in words:
                raise UsageError(f"{name} {getattr(self, name)!r} is none of {', '.join(words)}.")

    def topics(self, contract: Contract) -> tuple[TopicSpec, ...]:
        """Return the one topic, from which nothing may disappear by design."""
        config = {
            "min.insync.replicas": str(contract.min_isr),
            "unclean.leader.election.enable": str(contract.unclean_election).lower(),
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
        }
        spec = TopicSpec(
            name=self.topic,
            partitions=self.partitions,
            replication_factor=contract.replication_factor,
            config=tuple(config.items()),
        )
        return (spec,)
