"""Coordinators: which partition of an internal topic a group or a transactional id belongs to."""

OFFSETS_TOPIC = "__consumer_offsets"
"""Its leaders coordinate consumer groups."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""Its leaders coordinate transactions."""


def coordinating_partition(name: str, partitions: int) -> int:
    """Return the partition whose leader coordinates a group or a transactional id.

    Args:
        name: of the group, or the transactional id.
        partitions: how many the internal topic has, 1 or more.

    Source: partitionFor of GroupMetadataManager and of TransactionStateManager: Java's hash of the
    name, by the number of partitions.
    """
    code = 0
    for unit in memoryview(name.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    # Kafka's Utils.abs is Math.abs, and makes 0 of the one number whose amount does not fit.
    signed = code - (1 << 32) if code >> 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
