"""What ZooKeeper knows of a cluster that keeps its metadata there; the only user of kazoo."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from harness.core.errors import ClusterBroken
from harness.core.view import PartitionState
from harness.core.wait import wait_until

_SESSION_S = 6.0
_NO_ANSWER = (KazooException, KazooTimeoutError, OSError)
# A ZooKeeper that is cut off or dead is the daily bread here, not news.
_quiet = logging.getLogger(f"{__name__}.kazoo")
_quiet.setLevel(logging.CRITICAL)
log = logging.getLogger(__name__)


class ZooKeeper:
    """A client that outlives ZooKeeper's death; every question is bounded in time.

    It connects by itself, again and again, from `start` to `close`. What the znodes say is what
    the controller has decided; brokers may not have heard of it yet.

    Args:
        address: `host:port,…` as published, and the path of a chroot behind it.
    """

    def __init__(self, address: str) -> None:
        forever = KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_jitter=0, max_delay=0.5)
        self._client = KazooClient(
            hosts=address, timeout=_SESSION_S, connection_retry=forever, logger=_quiet
        )

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._client.start_async()

    def close(self) -> None:
        """End the session and its threads; harmless if it never began."""
        with contextlib.suppress(*_NO_ANSWER):
            self._client.stop()
        with contextlib.suppress(*_NO_ANSWER):
            self._client.close()

    # -- what it says ------------------------------------------------------------------------------

    def broker_ids(self, *, timeout_s: float = 3.0) -> set[int]:
        """Return the ids of the brokers that have a session; empty if ZooKeeper does not answer."""
        try:
            return {int(name) for name in self._children("/brokers/ids", timeout_s)}
        except _NO_ANSWER as error:
            log.debug("No answer from ZooKeeper: %r", error)
            return set()

    def controller_id(self, *, timeout_s: float = 3.0) -> int | None:
        """Return the id of the active controller; None if there is none, or no answer."""
        try:
            (found,) = self._read(["/controller"], timeout_s)
        except _NO_ANSWER as error:
            log.debug("No answer from ZooKeeper: %r", error)
            return None
        return int(found["brokerid"]) if found else None

    def partitions(
        self, topic: str | None = None, *, timeout_s: float = 3.0
    ) -> dict[tuple[str, int], PartitionState]:
        """Return the state of every partition, of one topic or of all.

        Returns:
            By topic and number; empty if ZooKeeper does not answer. A partition that has no
            state yet has neither leader nor ISR.
        """
        deadline = time.monotonic() + timeout_s
        try:
            names = [topic] if topic else self._children("/brokers/topics", timeout_s)
            entries = self._read([f"/brokers/topics/{name}" for name in names], _left(deadline))
            assigned = {
                (name, int(number)): tuple(replicas)
                for name, entry in zip(names, entries, strict=True)
                if entry
                for number, replicas in entry["partitions"].items()
            }
            paths = [f"/brokers/topics/{name}/partitions/{n}/state" for name, n in assigned]
            states = self._read_versions(paths, _left(deadline))
        except _NO_ANSWER as error:
            log.debug("No answer from ZooKeeper: %r", error)
            return {}
        return {
            key: _partition_state(state[0], assigned[key], version=state[1])
            if state
            else _partition_state({}, assigned[key])
            for key, state in zip(assigned, states, strict=True)
        }

    def topic_config(self, topic: str, *, timeout_s: float = 15.0) -> dict[str, str]:
        """Return what a topic sets for itself; empty if it has not been made yet.

        Raises:
            ClusterBroken: ZooKeeper does not answer.
        """
        with _answering(f"tell the config of {topic!r}"):
            (found,) = self._read([f"/config/topics/{topic}"], timeout_s)
        return {key: str(value) for key, value in (found or {}).get("config", {}).items()}

    # -- what it is told ---------------------------------------------------------------------------

    def alter_topic_config(
        self, topic: str, settings: Mapping[str, str], *, timeout_s: float = 15.0
    ) -> None:
        """Change settings of a topic, as Kafka's own tool did before 0.11.

        Raises:
            ClusterBroken: ZooKeeper does not answer.
        """
        wanted = self.topic_config(topic, timeout_s=timeout_s) | dict(settings)
        entry = _json({"version": 1, "config": wanted})
        change = _json({"version": 2, "entity_path": f"topics/{topic}"})
        with _answering(f"take the config of {topic!r}"):
            self._client.set_async(f"/config/topics/{topic}", entry).get(timeout=timeout_s)
            # Brokers watch for this notification, and then read the entry.
            self._client.create_async("/config/changes/config_change_", change, sequence=True).get(
                timeout=timeout_s
            )

    def elect_preferred_leader(self, topic: str, partition: int, *, timeout_s: float) -> None:
        """Ask the controller to give a partition to its preferred leader, and wait until it did.

        Raises:
            ClusterBroken: ZooKeeper or the controller does not answer.
        """
        path = "/admin/preferred_replica_election"
        wish = _json({"version": 1, "partitions": [{"topic": topic, "partition": partition}]})

        def is_taken() -> bool:
            try:
                self._client.create_async(path, wish).get(timeout=timeout_s)
            except NodeExistsError:
                return False
            return True

        with _answering("take the wish for an election"):
            wait_until(is_taken, timeout_s=timeout_s, what="an earlier election to end")
            # The controller removes the wish when it has acted on it.
            wait_until(
                lambda: self._client.exists_async(path).get(timeout=timeout_s) is None,
                timeout_s=timeout_s,
                what=f"the controller to elect a leader of {topic!r} {partition}",
            )

    def remove_controller(self, *, timeout_s: float = 3.0) -> None:
        """Have the controller elected anew among all brokers; harmless if there is none.

        Raises:
            ClusterBroken: ZooKeeper does not answer.
        """
        with _answering("remove the controller"), contextlib.suppress(NoNodeError):
            self._client.delete_async("/controller").get(timeout=timeout_s)

    # -- how it is asked ---------------------------------------------------------------------------

    def _children(self, path: str, timeout_s: float) -> list[str]:
        try:
            return sorted(self._client.get_children_async(path).get(timeout=timeout_s))
        except NoNodeError:
            return []

    def _read(self, paths: Sequence[str], timeout_s: float) -> list[dict[str, Any] | None]:
        """Return the JSON of each znode, None for one that does not exist; asked all at once."""
        return [found and found[0] for found in self._read_versions(paths, timeout_s)]

    def _read_versions(
        self, paths: Sequence[str], timeout_s: float
    ) -> list[tuple[dict[str, Any], int] | None]:
        """Return the JSON and the version of each znode, None for one that does not exist."""
        deadline = time.monotonic() + timeout_s
        answers = [self._client.get_async(path) for path in paths]
        found: list[tuple[dict[str, Any], int] | None] = []
        for answer in answers:
            try:
                content, stat = answer.get(timeout=_left(deadline))
            except NoNodeError:
                found.append(None)
            else:
                found.append((json.loads(content), int(stat.version)))
        return found


@contextlib.contextmanager
def _answering(request: str) -> Iterator[None]:
    """Say what ZooKeeper did not do, if it does not answer."""
    try:
        yield
    except _NO_ANSWER as error:
        raise ClusterBroken(f"ZooKeeper did not {request}.") from error


def _partition_state(
    state: Mapping[str, Any], replicas: tuple[int, ...], *, version: int | None = None
) -> PartitionState:
    leader = state.get("leader", -1)
    return PartitionState(
        leader=leader if leader >= 0 else None,
        isr=tuple(state.get("isr", ())),
        replicas=replicas,
        leader_epoch=state.get("leader_epoch"),
        version=version,
    )


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _left(deadline: float) -> float:
    return max(0.01, deadline - time.monotonic())
