"""Every error that the harness raises on purpose, and the exit code that each one means.

KafkaChaosError            70   any other error of the harness
├── UsageError              2   the request cannot be met: nothing was started
├── HistoryUnreadable       3   a recorded history is damaged: nothing can be concluded
├── EnvironmentBroken       4   the machine lacks something that a run needs
│   └── ClusterBroken       4   the cluster did not come up, or did not obey
├── WaitTimeout             4   a bounded wait ended without its condition
├── PreconditionUnmet       3   what an experiment needs was not observed: it shows nothing
└── HealFailed              5   a fault could not be healed: something may still be broken
"""

from typing import ClassVar


class KafkaChaosError(Exception):
    """An error whose message says what happened, where, and what to do."""

    exit_code: ClassVar[int] = 70


class UsageError(KafkaChaosError):
    """The request cannot be met; raised before anything is started."""

    exit_code = 2


class HistoryUnreadable(KafkaChaosError):
    """A recorded history, or a part of it, cannot be read; its verdict is UNKNOWN."""

    exit_code = 3


class EnvironmentBroken(KafkaChaosError):
    """The machine lacks something: an engine, an image, Java, a port."""

    exit_code = 4


class ClusterBroken(EnvironmentBroken):
    """The cluster did not start, fell ill outside any fault, or ignored its configuration."""


class SparkEnded(EnvironmentBroken):
    """The JVM of a local Spark session ended; its process can start no other."""


class WaitTimeout(KafkaChaosError):
    """A bounded wait ended before its condition held; the message shows the last state seen."""

    exit_code = 4


class PreconditionUnmet(KafkaChaosError):
    """A precondition of a scripted experiment was not observed; its outcome is UNKNOWN."""

    exit_code = 3


class HealFailed(KafkaChaosError):
    """A fault could not be healed; `kafka-chaos heal` may still manage it."""

    exit_code = 5
