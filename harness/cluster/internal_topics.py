"""The topics that Kafka makes for itself, made by us where it would place them wrongly."""

from harness.cluster.topology import OFFSETS_PARTITIONS, TRANSACTIONS_PARTITIONS
from harness.core.cluster import ClusterSpec, TopicSpec
from harness.core.version import FIRST_IDEMPOTENCE, numbers

# As GroupCoordinator and TransactionStateManager make them in every version.
_OFFSETS = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
_TRANSACTIONS = {**_OFFSETS, "unclean.leader.election.enable": "false"}


def internal_topics(spec: ClusterSpec) -> tuple[TopicSpec, ...]:
    """Return the internal topics of a cluster, as the coordinators would ask for them."""
    copies = min(3, spec.brokers)
    offsets = TopicSpec(
        name="__consumer_offsets",
        partitions=OFFSETS_PARTITIONS,
        replication_factor=copies,
        config=tuple(_OFFSETS.items()),
    )
    if numbers(spec.kafka) < FIRST_IDEMPOTENCE:
        return (offsets,)
    settings = {**_TRANSACTIONS, "min.insync.replicas": str(max(1, copies - 1))}
    transactions = TopicSpec(
        name="__transaction_state",
        partitions=TRANSACTIONS_PARTITIONS,
        replication_factor=copies,
        config=tuple(settings.items()),
    )
    return (offsets, transactions)
