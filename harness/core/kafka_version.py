"""Versions of Kafka: how they compare, and what came and went with which."""

import re

FIRST_IDEMPOTENCE = (0, 11)
"""Idempotent and transactional producers, record format v2, leader epochs, DescribeConfigs."""
FIRST_INCREMENTAL_CONFIGS = (2, 3)
"""IncrementalAlterConfigs (KIP-339)."""
FIRST_ELECTIONS = (2, 4)
"""ElectLeaders, unclean ones included (KIP-460)."""
FIRST_KRAFT = (3, 3)
"""KRaft is called ready for production (KIP-833)."""
FIRST_WITHOUT_ZOOKEEPER = (4,)


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, so that versions compare; none for "unknown"."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
