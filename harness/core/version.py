"""Kafka's version numbers, compared as numbers."""

import re
from dataclasses import dataclass

from harness.core.errors import UsageError

FIRST_IDEMPOTENCE = (0, 11)
"""Idempotent and transactional producers, record format v2, leader epochs, DescribeConfigs."""
FIRST_DELETIONS = (1, 0)
"""delete.topic.enable is true by default (KAFKA-5384)."""
FIRST_INCREMENTAL_CONFIGS = (2, 3)
"""IncrementalAlterConfigs (KIP-339)."""
FIRST_ELECTIONS = (2, 4)
"""ElectLeaders, unclean ones included (KIP-460)."""
FIRST_SCRAM_BY_ADMIN = (2, 7)
"""AlterUserScramCredentials (KIP-554)."""
FIRST_SCRAM_IN_KRAFT = (3, 5)
"""SCRAM without ZooKeeper (KIP-900)."""
FIRST_KRAFT = (3, 3)
"""KRaft is called ready for production (KIP-833)."""
FIRST_FEATURE_FLAGS = (3, 9)
"""The storage formatter takes --feature (KIP-1022)."""
FIRST_RENEWED_EPOCHS = (4,)
"""Brokers and the Java client give each transaction an epoch of its own (KIP-890, part 2)."""
FIRST_WITHOUT_ZOOKEEPER = (4,)
FIRST_WITH_LARGE_SEGMENTS = (4,)
"""No segment may be smaller than SMALLEST_SEGMENT (KIP-1030)."""
SMALLEST_SEGMENT = 1 << 20
"""Bytes."""


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, as (0, 10, 2, 2) of "0.10.2.2"; empty if it has none."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """A range of versions.

    Attributes:
        since: the first version of the range; empty: it has no beginning.
        before: the first version after the range; empty: it has no end.
    """

    since: str = ""
    before: str = ""

    def __post_init__(self) -> None:
        """Reject what is no range.

        Raises:
            UsageError: the end does not lie behind the beginning.
        """
        if self.since and self.before and numbers(self.since) >= numbers(self.before):
            raise UsageError(f"From {self.since} to before {self.before} there is no version.")

    def __contains__(self, version: object) -> bool:
        asked = numbers(str(version))
        return numbers(self.since) <= asked and (not self.before or asked < numbers(self.before))

    def __str__(self) -> str:
        if self.since and self.before:
            return f"{self.since} to before {self.before}"
        if self.before:
            return f"before {self.before}"
        return f"{self.since} and later" if self.since else "all"
