"""From a contract to librdkafka's settings, with time limits that suit a cluster being broken.

librdkafka's defaults are made for a cluster in which a silent broker is rare: 30 s to connect, 60 s
until a request to a cut-off host is given up. Under chaos they would turn every partition into a
minute of silence, in which nothing about the cluster is learnt.
"""

from collections.abc import Iterable
from typing import Literal

from harness.core.contract import Contract
from harness.core.workload import ClientSpec

ConfigValue = str | int | float | bool
Config = dict[str, ConfigValue]

Isolation = Literal["read_committed", "read_uncommitted"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_COMMON: Config = {
    # A host that swallows packets must be given up while the fault still lasts.
    "socket.connection.setup.timeout.ms": 3_000,
    "socket.timeout.ms": 10_000,
    # A broker that is back must be found at once, or recovery looks slower than it is.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
    # A new leader is learnt from metadata; the default asks every five minutes.
    "topic.metadata.refresh.interval.ms": 5_000,
    "topic.metadata.refresh.fast.interval.ms": 100,
}

PRODUCER_NICENESS = 10
"""A producer leaves nine tenths of a busy processor to the brokers beside it.

With five requests unanswered and more records to send, librdkafka's threads ask for an answer
without a pause: a core for each broker that is slow, which the brokers would lack, and be slower
(docs/findings.md).
"""

_LIMITS = (
    "delivery.timeout.ms",
    "request.timeout.ms",
    "session.timeout.ms",
    "socket.timeout.ms",
)
"""Settings by which a client, or a broker for it, gives something up.

`request.timeout.ms` is how long a leader waits for its followers; how long librdkafka waits for an
answer is `socket.timeout.ms` (librdkafka, CONFIGURATION.md).
"""


def limits_s(clients: Iterable[ClientSpec]) -> tuple[float, ...]:
    """Return the time limits of some clients, each once, the shortest first, seconds.

    What producers wait for changes none of them: runs that differ in acks alone can be compared.
    """
    configs: Iterable[Config] = (client.settings.get("config", {}) for client in clients)
    found = {float(config[name]) for config in configs for name in _LIMITS if name in config}
    return tuple(sorted(limit_ms / 1000 for limit_ms in found))


def producer_config(contract: Contract, *, compression: Compression = "none") -> Config:
    """Return the producer's settings, all but `bootstrap.servers` and `client.id`."""
    config: Config = _COMMON | {
        "acks": contract.acks,
        "enable.idempotence": contract.idempotent,
        "max.in.flight.requests.per.connection": contract.max_in_flight,
        "linger.ms": contract.linger_ms,
        "batch.size": contract.batch_size_bytes,
        "delivery.timeout.ms": contract.delivery_timeout_ms,
        "request.timeout.ms": contract.effective_request_timeout_ms,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 500,
        "compression.type": compression,
    }
    if contract.retries is not None:
        config["retries"] = contract.retries
    return config


def consumer_config(isolation: Isolation) -> Config:
    """Return what all consumers share, all but `bootstrap.servers`, `client.id` and `group.id`.

    `check.crcs` is on, so that a batch damaged on its way or on disk is an error and not a record.
    An offset out of range is an error to be handled (and recorded), never a silent reset.
    """
    return _COMMON | {
        "isolation.level": isolation,
        "check.crcs": True,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        # librdkafka reads ahead without need: 64 MiB a partition by default.
        "queued.max.messages.kbytes": 16_384,
    }


def subscriber_config(isolation: Isolation, *, group: str) -> Config:
    """Return the settings of a member of a consumer group.

    Offsets are committed automatically every second, as most consumers in the field have it:
    librdkafka stores an offset when it hands the record out, so a record may be given out again
    after a rebalance and is never skipped. The session timeout is the least that a broker allows.
    """
    return consumer_config(isolation) | {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "enable.auto.offset.store": True,
        "auto.commit.interval.ms": 1_000,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_500,
        "max.poll.interval.ms": 60_000,
    }
