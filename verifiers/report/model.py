"""A run as the report shows it: typed values from its folder, on one time axis.

All times are seconds since `origin_ns` of run.json unless a name ends in `_ns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from verifiers.report import fields
from verifiers.run_folder.result import AnomalyFinding, JudgedFault, Report

Partition = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of the run, by the names in docs/run-folder.md."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """One fault as it was judged, and what the journal says of it besides.

    Attributes:
        judged: its victims, its evidence, and whether it is proven and was felt.
        parameters: as in faults.jsonl, without those that say nothing.
        decided_s: when it was decided; None if only the verdict knows the fault.
        injected_s: when the injection had returned; None if it never did.
        healed_s: when the healing had returned; None if it never did.
        proof: what witnesses must see before it counts.
    """

    judged: JudgedFault
    parameters: Mapping[str, Any]
    decided_s: float | None
    injected_s: float | None
    healed_s: float | None
    proof: str

    def seen(self, phase: str) -> dict[str, Any]:
        """Return the evidence of a phase, "inject" or "heal"; empty if none was written."""
        return fields.mapping(self.judged.evidence, phase)

    def details(self, phase: str) -> dict[str, Any]:
        """Return what was seen in a phase, by witness."""
        return fields.mapping(self.seen(phase), "details")

    @property
    def title(self) -> str:
        """The fault and its victims: partition 2, 3."""
        return f"{self.judged.name} {', '.join(map(str, self.judged.victims))}".strip()

    @property
    def from_s(self) -> float | None:
        """When it was in force: injected, or decided if the injection never returned."""
        return self.decided_s if self.injected_s is None else self.injected_s

    def in_force(self, at_s: float) -> bool:
        """Return whether it was in force; a fault without a healing lasts to the end."""
        start = self.decided_s if self.decided_s is not None else self.injected_s
        if start is None or (self.judged.error is not None and self.injected_s is None):
            return False
        return start <= at_s and (self.healed_s is None or at_s <= self.healed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A partition's leader and ISR, until the next change of its metadata; if none came, to inf."""

    from_s: float
    to_s: float
    leader: int | None
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSample:
    """How far a broker's copy of a partition went at some moment, as the broker itself said."""

    at_s: float
    log_end: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a broker's log.

    Attributes:
        at_s: when it was written, by the broker's clock as far as we know it.
        node: whose log it is.
        text: the line without its time.
        times: how many lines around that fault differ from it in numbers alone; it is the first.
    """

    at_s: float
    node: int
    text: str
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A stop of a node's JVM for its garbage collector."""

    node: int
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A consumer group as its coordinator told it, until it told something else.

    Attributes:
        state: STABLE, PREPARING_REBALANCING, …
        members: the partitions that each member has, by its name.
    """

    from_s: float
    to_s: float
    state: str
    members: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How many records a reader was behind the high watermarks, at times in seconds."""

    reader: str
    records: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStep:
    """Something that the script of a claim did.

    Attributes:
        kind: a batch of records that was sent, a wait, or a fact that was observed.
        words: the batch's name, what was waited for, the fact.
        from_s: when it began.
        to_s: when it was over; of a fact the same.
        title: the same, and how it ended.
    """

    kind: Literal["batch", "wait", "fact"]
    words: str
    from_s: float
    to_s: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The sends and reads in one slice of time that begins at `t_s`; latencies in ms or None."""

    t_s: float
    ok: int
    info: int
    fail: int
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    polled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The widest stretch in which no send to a partition was acknowledged."""

    topic: str
    partition: int
    from_s: float
    to_s: float

    @property
    def width_s(self) -> float:
        """Its length in seconds."""
        return self.to_s - self.from_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """lanes.json: counts a bin, and the widest gaps, the widest first."""

    bin_s: float
    bins: tuple[Bin, ...]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """The claim that a run tested, what was expected of this version, and what was seen.

    The number is that of the catalogue, the outcome CONFIRMED, REFUTED or UNKNOWN.
    """

    number: int
    sentence: str
    expected: str
    outcome: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything that the report shows of one run; what is not explained here is as in run.json.

    Attributes:
        folder: the run folder.
        phases: in the order of time.
        run_reasons: what the runner saw that makes a pass impossible.
        report: what the verifier concluded, the forbidden anomalies first, those that leave the
            verdict UNKNOWN next, and of each the worst first; checkers by name.
        verified: whether it concluded anything; else the report is UNKNOWN and says so.
        faults: in the order of time.
        timeline: leaders and ISRs of each partition; empty if the folder has none.
        lanes: what the clients saw over time; None if the folder has no lanes.json.
        logs: how far each copy of a partition went over time, by broker; empty if nobody asked.
        pauses: of the nodes' JVMs, in the order of time; empty if they wrote no GC log.
        group: states of the workload's consumer group; empty if it has none.
        lags: of consumers; empty if there were none, or very many records.
        logged: what brokers logged around each fault, by its id.
        script: what the script of a claim did, in the order of time; empty if there was none.
        effective: configuration of each node, read back from it; `given` is what it was started
            with.
        plan: plan.json; None if there is none.
        claim: claim.json; None if the run tested none.
        client: the library that was asked for of the clients; empty: the harness's own.
        missing: a sentence for each part that the folder lacks.
    """

    folder: Path
    run: str
    scenario: str
    seed: str
    kafka: str
    command: str
    started_utc: str
    origin_ns: int
    contract: Mapping[str, Any]
    cluster: Mapping[str, Any]
    provokes: tuple[str, ...]
    phases: tuple[Phase, ...]
    versions: Mapping[str, str]
    state: str
    run_reasons: tuple[str, ...]
    report: Report
    verified: bool
    faults: tuple[FaultRecord, ...]
    timeline: Mapping[Partition, tuple[Leadership, ...]]
    lanes: Lanes | None
    logs: Mapping[Partition, Mapping[int, tuple[LogSample, ...]]]
    pauses: tuple[Pause, ...]
    group: tuple[GroupState, ...]
    lags: tuple[Lag, ...]
    logged: Mapping[str, tuple[LogLine, ...]]
    script: tuple[ScriptStep, ...]
    effective: Mapping[str, Mapping[str, str]]
    given: Mapping[str, Mapping[str, str]]
    plan: Any
    claim: ClaimRecord | None
    missing: tuple[str, ...]
    client: str = ""

    @property
    def what(self) -> str:
        """What was run, in a line: scenario, versions and seed."""
        client = f" · {self.client}" if self.client else ""
        return f"{self.scenario} · Kafka {self.kafka}{client} · seed {self.seed}"

    @property
    def min_isr(self) -> int | None:
        """`min.insync.replicas` of the topic, if the run says it."""
        return fields.integer(self.contract, "min_isr")

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Every broker that the run, its faults or its timeline name, in order."""
        ids = set(range(1, (fields.integer(self.cluster, "brokers") or 0) + 1))
        ids.update(*(fault.judged.victims for fault in self.faults))
        spans = [span for spans in self.timeline.values() for span in spans]
        ids.update(*(span.isr for span in spans))
        ids.update(span.leader for span in spans if span.leader is not None)
        return tuple(sorted(ids))

    def ruled(self, ruling: str) -> list[tuple[str, AnomalyFinding]]:
        """Return the anomalies that are permitted, forbidden, or unknown, with their names."""
        return [named for named in self.report.anomalies.items() if named[1].ruling == ruling]

    def at_s(self, time_ns: int | None) -> float | None:
        """Return a time of our monotonic clock on the time axis; None if there is none."""
        return None if time_ns is None else (time_ns - self.origin_ns) / 1e9

    def leadership_at(self, partition: Partition, at_s: float) -> Leadership | None:
        """Return who led and who was in the ISR then, or None if nothing is known."""
        begun = [span for span in self.timeline.get(partition, ()) if span.from_s <= at_s]
        return begun[-1] if begun else None
