"""How long from the decision until a fault is in force, and until it is healed.

Each figure is the time of the whole call, so an upper bound: the effect comes before the answer.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from faults.witness import await_answers
from harness.cluster.docker_cluster import DockerCluster
from harness.cluster.launch import launch
from harness.core.cluster import Broker, ClusterSpec, Lease
from harness.core.wait import wait_until
from tests.bench._goals import Goal, exit_code

WANTED_S = 0.3
GC_WANTED_S = 1.0
READY = "kafka-chaos-ready"


def main(arguments: list[str]) -> int:
    """Print median and largest time of each kind; return 1 if a median is over its bound."""
    parser = argparse.ArgumentParser(prog="kafka-chaos bench faults")
    parser.add_argument("--rounds", type=int, default=10, help="how often each is measured")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        cluster = launch(ClusterSpec(), run="bench-faults", folder=Path(folder), say=lambda _: None)
        try:
            return exit_code(_measure(cluster, options.rounds))
        finally:
            cluster.shut_down()


def _measure(cluster: DockerCluster, rounds: int) -> list[Goal]:
    victim, *rest = cluster.brokers
    pairs = [(victim, other) for other in rest]
    leases = iter(range(10**6))

    def leased() -> DockerCluster:
        lease = Lease(fault_id=f"b{next(leases)}", hold_s=3, limit_s=60)
        there = cluster.leased(lease)
        assert isinstance(there, DockerCluster)
        return there

    times: dict[str, list[float]] = {}
    goals: list[Goal] = []

    def timed(name: str, call: Callable[[], object]) -> None:
        begin = time.monotonic()
        call()
        times.setdefault(name, []).append(time.monotonic() - begin)

    for _ in range(rounds):
        there = leased()
        timed("pause in force", lambda there=there: there.signal(victim, "SIGSTOP"))  # type: ignore[misc]
        timed("pause healed", lambda there=there: there.signal(victim, "SIGCONT"))  # type: ignore[misc]
        there = leased()
        timed("partition in force", lambda there=there: there.cut(pairs, listener="all"))  # type: ignore[misc]
        timed("partition healed", there.mend)
    goals += _report(times, WANTED_S)
    times.clear()
    for _ in range(max(1, rounds // 3)):
        there = leased()
        timed("kill in force", lambda there=there: there.signal(victim, "SIGKILL"))  # type: ignore[misc]
        there.start(victim)
        await_answers(there, [victim], timeout_s=90)
    goals += _report(times, WANTED_S)
    times.clear()
    cluster.await_full_isr([READY], timeout_s=90)
    for _ in range(max(1, rounds // 3)):
        timed("first GC pause logged", lambda: _storm(leased(), victim))
    goals += _report(times, GC_WANTED_S)
    return goals


def _storm(there: DockerCluster, victim: Broker) -> None:
    there.collect_garbage(victim, duration_s=1.0)
    wait_until(
        lambda: there.gc_pauses_s(victim), timeout_s=10, interval_s=0.02, what="a first pause"
    )


def _report(times: dict[str, list[float]], wanted_s: float) -> list[Goal]:
    goals = []
    for name, seconds in times.items():
        median_s, worst_s = statistics.median(seconds), max(seconds)
        goals.append(Goal(name=f"{name}, median, s", measured=median_s, at_most=wanted_s))
        print(  # noqa: T201
            f"{name:<22} median {median_s * 1000:4.0f} ms, worst {worst_s * 1000:4.0f} ms of "
            f"{len(seconds)}; ratio to the bound of {wanted_s * 1000:.0f} ms: "
            f"{median_s / wanted_s:.2f} (worst {worst_s / wanted_s:.2f})",
            flush=True,
        )
    return goals
