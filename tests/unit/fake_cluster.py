"""A cluster in memory for tests of faults and of the nemesis.

Damage happens as it is told, unless the cluster is to ignore it. `lie` makes one witness say that
nothing has changed since, while everything else shows the truth: the negative control of each
witness of each fault.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from harness.core.cluster import (
    Answer,
    Broker,
    ClientDirection,
    Cluster,
    ClusterSpec,
    CutLog,
    Direction,
    Lease,
    Listener,
    ProcessState,
)
from harness.core.errors import ClusterBroken

P = ParamSpec("P")
R = TypeVar("R")

_LOG = ("orders", 0)


def witness(
    method: Callable[Concatenate["FakeCluster", P], R],
) -> Callable[Concatenate["FakeCluster", P], R]:
    """Let a method answer for the cluster as it was before, if it is to lie."""

    def answer(self: "FakeCluster", /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.asked.add(method.__name__)
        before = self.lies.get(method.__name__)
        return method(before or self, *args, **kwargs)

    return answer


@dataclass
class FakeCluster:
    ignores_damage: bool = False
    is_idle: bool = False
    fails_to_heal: bool = False
    writes_gc_log: bool = True
    spec: ClusterSpec = field(default_factory=ClusterSpec)
    bootstrap: str = "fake:9092"
    leader: int | None = 1
    isr: tuple[int, ...] = (1, 2, 3)
    leaders: Mapping[tuple[str, int], int] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    active_controller: int | None = 2
    log: list[str] = field(default_factory=list)
    current_lease: Lease | None = None
    processes: dict[int, ProcessState | None] = field(default_factory=dict)
    controllers: tuple[int, ...] = ()
    cuts: set[frozenset[int]] = field(default_factory=set)
    pauses: dict[int, list[float]] = field(default_factory=dict)
    pauses_wanted_s: dict[int, float] = field(default_factory=dict)
    exits: dict[int, list[int]] = field(default_factory=dict)
    deaf: set[int] = field(default_factory=set)
    shutting_down: set[int] = field(default_factory=set)
    passes_short: bool = False
    sizes: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    answers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lies: dict[str, "FakeCluster"] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in range(1, self.spec.brokers + 1):
            self.processes[node] = ProcessState(pid=100 + node, start_ticks=7, state="S")
            self.sizes[node] = {_LOG: 1000}

    def lie(self, name: str) -> None:
        """Let a witness say from now on what it would say now."""
        self.lies[name] = deepcopy(self)

    # -- what is asked -----------------------------------------------------------------------------

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return tuple(Broker(node, f"broker-{node}") for node in sorted(self.processes))

    @property
    def nodes(self) -> tuple[Broker, ...]:
        others = [Broker(node, f"controller-{node}") for node in self.controllers]
        return (*self.brokers, *others)

    def partition_count(self, topic: str) -> int:
        return self.partition_counts.get(topic, 0)

    def leader_of(self, topic: str, partition: int) -> Broker | None:
        return self._broker(self.leaders.get((topic, partition), self.leader))

    def isr_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        return tuple(b for b in self.brokers if b.node_id in self.isr)

    def replicas_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        return self.brokers

    def controller(self) -> Broker | None:
        return self._broker(self.active_controller)

    def _broker(self, node: int | None) -> Broker | None:
        return next((b for b in self.brokers if b.node_id == node), None)

    @witness
    def process_of(self, broker: Broker) -> ProcessState | None:
        return self.processes[broker.node_id]

    def running(self) -> tuple[Broker, ...]:
        return tuple(broker for broker in self.brokers if self.process_of(broker) is not None)

    def ending(self, running: Sequence[Broker]) -> tuple[Broker, ...]:
        return tuple(broker for broker in running if broker.node_id in self.shutting_down)

    @witness
    def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
        return tuple(self.exits.get(broker.node_id, []))

    @witness
    def is_shut_down_cleanly(self, broker: Broker) -> bool:
        return self.exits.get(broker.node_id, [])[-1:] == [143]

    @witness
    def log_sizes(self, broker: Broker) -> dict[tuple[str, int], int]:
        return dict(self.sizes[broker.node_id])

    @witness
    def dropped_packets(self) -> int:
        return 0 if self.is_idle else 10 * len(self.cuts) + 10 * len(self.deaf)

    @witness
    def gc_pauses_s(self, broker: Broker) -> list[float]:
        return self.pauses.get(broker.node_id, [])

    @witness
    def probe(
        self, pairs: Sequence[tuple[Broker, Broker]], *, timeout_s: float
    ) -> dict[tuple[int, int], Answer]:
        return {(a.node_id, b.node_id): self._answer(a, b) for a, b in pairs}

    @witness
    def probe_from_outside(
        self, brokers: Sequence[Broker], *, timeout_s: float
    ) -> dict[int, Answer]:
        return {
            b.node_id: Answer.SILENT if b.node_id in self.deaf else self._answer(b, b)
            for b in brokers
        }

    def _answer(self, source: Broker, target: Broker) -> Answer:
        is_cut = frozenset((source.node_id, target.node_id)) in self.cuts
        if is_cut and not self.passes_short:
            return Answer.UNREACHABLE
        process = self.processes[target.node_id]
        if process is None:
            return Answer.REFUSED
        return Answer.SILENT if process.state == "T" else Answer.ANSWERED

    # -- what is done ------------------------------------------------------------------------------

    @property
    def lease(self) -> Lease:
        if self.current_lease is None:
            raise ClusterBroken("no lease")
        return self.current_lease

    def leased(self, lease: Lease) -> Cluster:
        self.current_lease = lease
        return self

    def ask_agent(self, broker: Broker, verb: str, **arguments: Any) -> Mapping[str, Any]:
        self.log.append(f"{verb} {broker.node_id} {arguments}")
        return self.answers[verb]

    def signal(self, broker: Broker, signal: str) -> None:
        self.log.append(f"{signal} {broker.node_id}")
        process = self.processes[broker.node_id]
        if self.ignores_damage or process is None:
            return
        if signal in ("SIGKILL", "SIGTERM"):
            self.processes[broker.node_id] = None
            self.exits.setdefault(broker.node_id, []).append(137 if signal == "SIGKILL" else 143)
        else:
            state = "T" if signal == "SIGSTOP" else "S"
            self.processes[broker.node_id] = ProcessState(
                pid=process.pid, start_ticks=process.start_ticks, state=state
            )

    def start(self, broker: Broker) -> None:
        self.log.append(f"start {broker.node_id}")
        if self.processes[broker.node_id] is None and not self.fails_to_heal:
            self.processes[broker.node_id] = ProcessState(pid=900, start_ticks=9, state="S")

    def hold_down(self, broker: Broker) -> None:
        self.log.append(f"hold_down {broker.node_id}")

    def cut(
        self,
        pairs: Sequence[tuple[Broker, Broker]],
        *,
        listener: Listener,
        direction: Direction = "both",
        longer_than: int = 0,
    ) -> None:
        words = f"{listener} {direction} {longer_than}"
        self.log.append(f"cut {[(a.node_id, b.node_id) for a, b in pairs]} {words}")
        if not self.ignores_damage:
            self.cuts |= {frozenset((a.node_id, b.node_id)) for a, b in pairs}
            self.passes_short = longer_than > 0

    def stall_fetches(self, pairs: Sequence[tuple[Broker, Broker]]) -> None:
        self.log.append(f"stall_fetches {[(a.node_id, b.node_id) for a, b in pairs]}")
        if not self.ignores_damage:
            self.cuts |= {frozenset((a.node_id, b.node_id)) for a, b in pairs}
            self.passes_short = True

    def cut_clients(self, brokers: Sequence[Broker], *, direction: ClientDirection) -> None:
        self.log.append(f"cut_clients {[b.node_id for b in brokers]} {direction}")
        if not self.ignores_damage:
            self.deaf |= {broker.node_id for broker in brokers}

    def mend(self) -> None:
        self.log.append("mend")
        if not self.fails_to_heal:
            self.cuts.clear()
            self.deaf.clear()

    def cut_tail(
        self,
        broker: Broker,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> tuple[CutLog, ...]:
        self.log.append(f"cut_tail {broker.node_id} {topic} {partition} {offset}")
        cut = 0 if self.ignores_damage or self.is_idle else 700
        self.sizes[broker.node_id][_LOG] -= cut
        self.asked.add("cut_tail")
        seen = 0 if "cut_tail" in self.lies else cut
        return (
            CutLog(topic=_LOG[0], partition=_LOG[1], recovery_point=0, end_before=7,
                   end_after=0 if seen else 7, bytes_cut=seen),
        )  # fmt: skip

    def collect_garbage(
        self, broker: Broker, *, duration_s: float, nodes: int = 0, pauses_s: float = 0.0
    ) -> None:
        if not self.writes_gc_log:
            raise ClusterBroken(f"Node {broker.node_id} writes no GC log that is known.")
        self.log.append(f"collect {broker.node_id} {duration_s:g}")
        self.pauses_wanted_s[broker.node_id] = pauses_s
        share = 0.0 if self.ignores_damage else 0.95
        self.pauses[broker.node_id] = [self.lease.hold_s * share / 2] * 2 if share else []

    def end_collections(self, broker: Broker) -> None:
        self.log.append(f"end {broker.node_id}")
