"""A cluster in memory for tests of faults and nemesis: it believes what it is told.

It can be told to ignore damage, which is how each fault's negative control is made: a fault whose
injection does nothing must not be called proven.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass
class FakeCluster:
    ignores_damage: bool = False
    is_idle: bool = False
    fails_to_heal: bool = False
    spec: ClusterSpec = field(default_factory=ClusterSpec)
    bootstrap: str = "fake:9092"
    leader: int | None = 1
    isr: tuple[int, ...] = (1, 2, 3)
    active_controller: int | None = 2
    log: list[str] = field(default_factory=list)
    current_lease: Lease | None = None
    processes: dict[int, ProcessState | None] = field(default_factory=dict)
    controllers: tuple[int, ...] = ()
    cuts: set[frozenset[int]] = field(default_factory=set)
    pauses: dict[int, list[float]] = field(default_factory=dict)
    exits: dict[int, list[int]] = field(default_factory=dict)
    deaf: set[int] = field(default_factory=set)
    passes_short: bool = False
    sizes: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in range(1, self.spec.brokers + 1):
            self.processes[node] = ProcessState(pid=100 + node, start_ticks=7, state="S")
            self.sizes[node] = {("orders", 0): 1000}

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return tuple(Broker(node, f"broker-{node}") for node in sorted(self.processes))

    @property
    def nodes(self) -> tuple[Broker, ...]:
        others = [Broker(node, f"controller-{node}") for node in self.controllers]
        return (*self.brokers, *others)

    @property
    def lease(self) -> Lease:
        if self.current_lease is None:
            raise ClusterBroken("no lease")
        return self.current_lease

    def leased(self, lease: Lease) -> Cluster:
        self.current_lease = lease
        return self

    def leader_of(self, topic: str, partition: int) -> Broker | None:
        return self._broker(self.leader)

    def isr_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        return tuple(b for b in self.brokers if b.node_id in self.isr)

    def replicas_of(self, topic: str, partition: int) -> tuple[Broker, ...]:
        return self.brokers

    def controller(self) -> Broker | None:
        return self._broker(self.active_controller)

    def _broker(self, node: int | None) -> Broker | None:
        return next((b for b in self.brokers if b.node_id == node), None)

    def process_of(self, broker: Broker) -> ProcessState | None:
        return self.processes[broker.node_id]

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
        if self.processes[broker.node_id] is None:
            self.processes[broker.node_id] = ProcessState(pid=900, start_ticks=9, state="S")

    def hold_down(self, broker: Broker) -> None:
        self.log.append(f"hold_down {broker.node_id}")

    def await_serving(self, broker: Broker, *, timeout_s: float) -> None:
        if self.fails_to_heal:
            raise ClusterBroken(f"node {broker.node_id} does not answer")

    def exit_statuses(self, broker: Broker) -> tuple[int, ...]:
        return tuple(self.exits.get(broker.node_id, []))

    def is_shut_down_cleanly(self, broker: Broker) -> bool:
        return self.exits.get(broker.node_id, [])[-1:] == [143]

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

    def cut_clients(self, brokers: Sequence[Broker], *, direction: ClientDirection) -> None:
        self.log.append(f"cut_clients {[b.node_id for b in brokers]} {direction}")
        if not self.ignores_damage:
            self.deaf |= {broker.node_id for broker in brokers}

    def probe_from_outside(
        self, brokers: Sequence[Broker], *, timeout_s: float
    ) -> dict[int, Answer]:
        return {
            b.node_id: Answer.SILENT if b.node_id in self.deaf else self._answer(b, b)
            for b in brokers
        }

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
        key = ("orders", 0)
        self.sizes[broker.node_id][key] -= cut
        return (
            CutLog(topic="orders", partition=0, recovery_point=0, end_before=7,
                   end_after=0 if cut else 7, bytes_cut=cut),
        )  # fmt: skip

    def log_sizes(self, broker: Broker) -> dict[tuple[str, int], int]:
        return dict(self.sizes[broker.node_id])

    def mend(self) -> None:
        self.log.append("mend")
        if not self.fails_to_heal:
            self.cuts.clear()
            self.deaf.clear()

    def dropped_packets(self) -> int:
        return 0 if self.is_idle else 10 * len(self.cuts) + 10 * len(self.deaf)

    def probe(
        self, pairs: Sequence[tuple[Broker, Broker]], *, timeout_s: float
    ) -> dict[tuple[int, int], Answer]:
        return {(a.node_id, b.node_id): self._answer(a, b) for a, b in pairs}

    def _answer(self, source: Broker, target: Broker) -> Answer:
        is_cut = frozenset((source.node_id, target.node_id)) in self.cuts
        if is_cut and not self.passes_short:
            return Answer.UNREACHABLE
        process = self.processes[target.node_id]
        if process is None:
            return Answer.REFUSED
        return Answer.SILENT if process.state == "T" else Answer.ANSWERED

    def collect_garbage(self, broker: Broker, *, duration_s: float, nodes: int = 0) -> None:
        self.log.append(f"collect {broker.node_id} {duration_s:g}")
        share = 0.0 if self.ignores_damage else 0.95
        self.pauses[broker.node_id] = [self.lease.hold_s * share / 2] * 2 if share else []

    def end_collections(self, broker: Broker) -> None:
        self.log.append(f"end {broker.node_id}")

    def gc_pauses_s(self, broker: Broker) -> list[float]:
        return self.pauses[broker.node_id]
