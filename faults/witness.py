"""Witnesses that faults share: whether a broker answers, and whether a link carries packets."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from harness.core.cluster import Answer, Broker, Links, Nodes, Processes, ProcessState
from harness.core.errors import WaitTimeout
from harness.core.fault import Evidence
from harness.core.wait import wait_until

PROBE_S = 1.0
"""Longer than a JVM on a busy machine needs to answer, seconds."""
_DEATH_S = 10.0
_RESTART_S = 180.0
_GIVES_UP_S = 20.0
"""Longer than a JVM needs to write that it starts, after which its log tells how it is, seconds."""
_TRAFFIC_S = 10.0
_MENDED_S = 60.0
"""A broker that is just being started accepts nothing while its JVM loads, seconds."""


def answers(
    cluster: Nodes, victims: Sequence[Broker], *, timeout_s: float = PROBE_S
) -> dict[int, Answer]:
    """Return what each victim's replication listener answers, by node id.

    Each is asked from its own network: the question is whether the process lives, and a
    partition that is in force at the same time must not answer in its place.
    """
    probes = cluster.probe([(victim, victim) for victim in victims], timeout_s=timeout_s)
    return {target: answer for (_, target), answer in probes.items()}


def await_answers(cluster: Nodes, victims: Sequence[Broker], *, timeout_s: float) -> None:
    """Wait until every victim answers, asked from its own network.

    Raises:
        WaitTimeout: one did not, within so many seconds for each.
    """
    _await_each(victims, partial(_has_answered, cluster), timeout_s=timeout_s)


def _await_each(
    victims: Sequence[Broker], has_answered: Callable[[Broker], bool], *, timeout_s: float
) -> None:
    silent = set(victims)

    def has_answered_once(broker: Broker) -> bool:
        # All are asked side by side: one that gives up at once answers for less than a second.
        silent.difference_update(
            [each for each in victims if each in silent and has_answered(each)]
        )
        return broker not in silent

    for broker in victims:
        wait_until(
            partial(has_answered_once, broker),
            timeout_s=timeout_s,
            what=f"node {broker.node_id} to answer",
        )


def _has_answered(cluster: Nodes, broker: Broker) -> bool:
    return set(answers(cluster, [broker]).values()) == {Answer.ANSWERED}


def why_unseen(listeners: Mapping[int, Answer], *, answered: str = "") -> str:
    """Return the question that listeners' answers raise, where they do not prove a fault.

    Args:
        listeners: what `answers` returned.
        answered: the question if a listener answered.
    """
    if Answer.UNREACHABLE in listeners.values():
        return "did a partition hide the broker from its witness?"
    return answered if Answer.ANSWERED in listeners.values() else ""


def killed(cluster: Processes, victims: Sequence[Broker]) -> dict[int, ProcessState | None]:
    """Kill the JVMs, wait until the kernel has none of them, and return what it had, by node id.

    Raises:
        WaitTimeout: a JVM is still there.
    """
    before = {broker.node_id: cluster.process_of(broker) for broker in victims}
    for broker in victims:
        cluster.hold_down(broker)
        cluster.signal(broker, "SIGKILL")
    for broker in victims:
        wait_until(
            lambda broker=broker: cluster.process_of(broker) is None,  # type: ignore[misc]  # a default hides the type
            timeout_s=_DEATH_S,
            what=f"the death of broker {broker.node_id}",
            interval_s=0.05,
        )
    return before


def restarted(
    cluster: Processes, victims: Sequence[Broker], *, hung: Sequence[Broker] = ()
) -> Evidence:
    """Start the JVMs, again where one does not stay; each must have a process again that answers.

    One that gives up before it has answered, and never comes to the end of its shutdown
    (KAFKA-4039), is killed, named as `killed`, and started again.

    Args:
        cluster: theirs.
        victims: who is started.
        hung: those of them that were killed already, since they hung.

    Raises:
        WaitTimeout: a victim does not answer.
    """
    restart = _Restart(cluster, [broker.node_id for broker in hung])
    for broker in victims:
        restart.start(broker)
    _await_each(victims, restart.has_answered, timeout_s=_RESTART_S)
    return Evidence(
        "heal",
        observed=all(restart.processes.values()),
        details={
            "process": {n: p and asdict(p) for n, p in restart.processes.items()},
            **({"killed": restart.killed} if restart.killed else {}),
        },
    )


@dataclass(slots=True)
class _Restart:
    """Starts JVMs until they answer.

    Attributes:
        killed: node ids of those that hung in a shutdown of their own.
        processes: of those that have answered, by node id; they may have given up since.
    """

    cluster: Processes
    killed: list[int]
    processes: dict[int, ProcessState | None] = field(default_factory=dict)
    _looked_s: dict[int, float] = field(default_factory=dict)

    def start(self, broker: Broker) -> None:
        """Start a JVM; it is given a while before anybody asks whether it gave up."""
        self.cluster.start(broker)
        self._looked_s[broker.node_id] = time.monotonic()

    def has_answered(self, broker: Broker) -> bool:
        """Return whether a broker answers; start it if it has ended, or never comes to its end."""
        # A start is lost on a supervisor whose JVM is still dying, and a broker whose place in
        # ZooKeeper is still taken ends at once: told only once, either would stay down for ever.
        process = self.cluster.process_of(broker)
        if process is None:
            self.start(broker)
        if _has_answered(self.cluster, broker):
            self.processes[broker.node_id] = process or self.cluster.process_of(broker)
            return True
        if time.monotonic() - self._looked_s[broker.node_id] > _GIVES_UP_S:
            self._kill_if_it_hangs(broker)
        return False

    def _kill_if_it_hangs(self, broker: Broker) -> None:
        self._looked_s[broker.node_id] = time.monotonic()
        if self.cluster.ending([broker]):
            killed(self.cluster, [broker])
            self.killed.append(broker.node_id)
            self.start(broker)


def swallowed(cluster: Links) -> int:
    """Return how many packets the rules of the lease have dropped, once there are some.

    Call it before our own probes, so that what was dropped is the traffic of others. 0 means that
    nobody sent anything for ten seconds.
    """
    try:
        return wait_until(cluster.dropped_packets, timeout_s=_TRAFFIC_S, what="traffic to swallow")
    except WaitTimeout:
        return 0


def mended(cluster: Links, pairs: Sequence[tuple[Broker, Broker]], *, probe_s: float) -> Evidence:
    """Mend the cuts of the lease; both ends of every link must reach each other again.

    A refusal will do: it says that packets pass, and the process may be dead of another fault.
    """
    dropped = cluster.dropped_packets()
    cluster.mend()
    both_ways = [*pairs, *((second, first) for first, second in pairs)]
    probes: dict[tuple[int, int], Answer] = {}

    def all_links_carry() -> bool:
        probes.update(cluster.probe(both_ways, timeout_s=probe_s))
        return Answer.UNREACHABLE not in probes.values()

    try:
        carry = wait_until(all_links_carry, timeout_s=_MENDED_S, what="the links to carry")
    except WaitTimeout:
        carry = False
    return Evidence(
        "heal",
        observed=carry,
        details={"dropped_packets": dropped, "probes": by_link(probes)},
    )


def by_link(probes: Mapping[tuple[int, int], Answer]) -> dict[str, Answer]:
    """Return answers as evidence holds them: "1→2": "answered"."""
    return {f"{source}→{target}": answer for (source, target), answer in probes.items()}
