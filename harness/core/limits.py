"""The time limits by which a cluster notices that a broker is gone or behind."""

from collections.abc import Mapping

from harness.core.cluster import ClusterSpec
from harness.core.version import numbers

_SESSION = {"kraft": "broker.session.timeout.ms", "zookeeper": "zookeeper.session.timeout.ms"}
_LAG = "replica.lag.time.max.ms"
_KRAFT_SESSION_MS = 9_000
_ZOOKEEPER_SESSIONS_MS = (((2, 5), 18_000), ((0,), 6_000))
_LAGS_MS = (((2, 5), 30_000), ((0,), 10_000))


def noticed_within_s(spec: ClusterSpec) -> tuple[float, float]:
    """Return how long a broker may be silent, and how long behind, until the cluster has acted.

    After so long without a sign of life a broker is fenced (KRaft), or its session with ZooKeeper
    ends. A follower that has not caught up for its limit leaves the ISR, after 1.5 times as long
    at the latest. Both count in seconds, as configured, else as the version's defaults are. Of a
    user's own Compose file nothing is known before its brokers run; KRaft's defaults are assumed.

    Source: the documentation of the three properties; KIP-537 (2.5) raised two defaults.
    """
    config, version = dict(spec.config), numbers(spec.kafka) or (99,)
    if spec.mode == "kraft":
        session_ms = _KRAFT_SESSION_MS
    else:
        session_ms = _default(_ZOOKEEPER_SESSIONS_MS, version)
    lag_s = int(config.get(_LAG, _default(_LAGS_MS, version))) / 1000
    return int(config.get(_SESSION[spec.mode], session_ms)) / 1000, 1.5 * lag_s


def session_timeout(spec: ClusterSpec, seconds: float) -> dict[str, str]:
    """Return the property that sets the session timeout of brokers, ZooKeeper's or KRaft's."""
    return {_SESSION[spec.mode]: str(int(seconds * 1000))}


def lag_and_session(kafka: str, *, lag_s: float, session_s: float) -> dict[str, str]:
    """Return the properties under which a follower, and a session, may be silent for so long."""
    lag_ms = {"replica.lag.time.max.ms": str(int(lag_s * 1000))}
    return lag_ms | session_timeout(ClusterSpec(kafka=kafka), session_s)


def short_limits(spec: ClusterSpec) -> Mapping[str, str]:
    """Return broker properties by which a minute is long enough to pass every limit.

    ZooKeeper grants no session shorter than two of its ticks.
    """
    if spec.mode == "zookeeper":
        session = session_timeout(spec, 4)
    else:
        session = {**session_timeout(spec, 3), "broker.heartbeat.interval.ms": "500"}
    return {
        **session,
        _LAG: "3000",
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "10",
    }


def _default(values: tuple[tuple[tuple[int, ...], int], ...], version: tuple[int, ...]) -> int:
    return next(value for since, value in values if version >= since)
