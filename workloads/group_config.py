"""How the members of a group are configured: how they commit, and who shares the partitions out."""

from typing import Literal

from harness.core.version import numbers
from workloads.client_config import Config, Isolation, subscriber_config

Commits = Literal["auto-delivered", "auto-stored", "before-processing", "after-processing"]
"""How a group commits; see `workloads.group_member`."""

Assignor = Literal["range", "roundrobin", "cooperative-sticky", "consumer"]
"""Who shares a topic's partitions out among the members of a group.

range               the leader of the group, in stretches; every rebalance takes all partitions away
roundrobin          the leader, in turn; the same
cooperative-sticky  the leader; only partitions that move are taken away (KIP-429)
consumer            the broker: the protocol of KIP-848

librdkafka has no `sticky` that is not cooperative: Java's StickyAssignor cannot be asked for.
"""

FIRST_CONSUMER_PROTOCOL = (4, 0)
"""The first version that serves the protocol of KIP-848 without being asked to."""

SESSION_MS = 6000
"""The session of members, ms: so long a dead one is waited for. The least that brokers allow."""


def short_sessions(kafka: str) -> dict[str, str]:
    """Return the properties of brokers under which members of any protocol have `SESSION_MS`.

    A session is what one waits for most when a member dies, and its length proves nothing.
    """
    if numbers(kafka) < FIRST_CONSUMER_PROTOCOL:
        return {}
    # Under the new protocol (KIP-848) the broker decides, and allows no less than 45 s by default.
    return {
        "group.consumer.min.session.timeout.ms": str(SESSION_MS),
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
    }


def stuck_after_s(config: Config) -> float:
    """Return after how many seconds without a commit a group with live members must be stuck.

    Whoever is gone is noticed after its session; a rebalance waits for those who do not come to it
    no longer than they may take between two polls; and what a broker does not answer is asked again
    after the socket's time limit. After all three the members that are there have every partition.

    Args:
        config: librdkafka's settings of a member.

    Source: KIP-62 (rebalances wait for `max.poll.interval.ms`) and KIP-848 (so do revocations);
    librdkafka, CONFIGURATION.md, `socket.timeout.ms`.
    """
    names = ("session.timeout.ms", "max.poll.interval.ms", "socket.timeout.ms")
    limits = {"session.timeout.ms": SESSION_MS, **config}
    return sum(float(limits[name]) for name in names) / 1000


def member_config(group: str, config: Config, *, isolation: Isolation) -> Config:
    """Return librdkafka's settings of a member.

    Args:
        group: its group.
        config: settings beyond those of every subscriber; they win.
        isolation: its `isolation.level`.
    """
    settings = subscriber_config(isolation, group=group) | {
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": 1000,
        "auto.commit.interval.ms": 200,
    }
    if config.get("group.protocol") == "consumer":
        # The broker decides these (KIP-848).
        del settings["session.timeout.ms"], settings["heartbeat.interval.ms"]
    return settings | config


def assignor_config(assignor: Assignor) -> Config:
    """Return the settings under which a group's partitions are shared out so."""
    if assignor == "consumer":
        return {"group.protocol": "consumer"}
    return {"partition.assignment.strategy": assignor}
