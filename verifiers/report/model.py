"""A run as the report shows it: typed values from its folder, on one time axis.

All times are seconds since `origin_ns` of run.json unless a name ends in `_ns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.op import producer_of, sequence_of
from harness.core.verdict import Verdict
from verifiers.report import fields, units

Partition = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of the run, by the names in docs/run-folder.md."""

    name: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """The evidence of an injection or a healing; `observed` is None if none was recorded."""

    observed: bool | None
    details: Mapping[str, Any]
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """One fault of the journal; id, name, parameters and target are as in faults.jsonl.

    Attributes:
        victims: node ids.
        decided_s: when it was decided; None if only the verdict knows the fault.
        injected_s: when the injection had returned; None if it never did.
        healed_s: when the healing had returned; None if it never did.
        proven: whether witnesses saw both the effect and its end.
        inject: the evidence of the injection, `heal` that of the healing.
        error: why it failed, if it did.
        proof: what witnesses must see before it counts.
        felt: "felt", "unfelt" or "unproven"; empty if the verdict does not say.
        signs: what Kafka and its clients showed of it, in sentences.
    """

    id: str
    name: str
    parameters: Mapping[str, Any]
    target: str | None
    victims: tuple[int, ...]
    decided_s: float | None
    injected_s: float | None
    healed_s: float | None
    proven: bool
    inject: Witnessed
    heal: Witnessed
    error: str | None
    proof: str
    felt: str = ""
    signs: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The fault and its victims: partition 2, 3."""
        return f"{self.name} {', '.join(map(str, self.victims))}".strip()

    @property
    def from_s(self) -> float | None:
        """When it was in force: injected, or decided if the injection never returned."""
        return self.decided_s if self.injected_s is None else self.injected_s

    def in_force(self, at_s: float) -> bool:
        """Return whether it was in force; a fault without a healing lasts to the end."""
        start = self.decided_s if self.decided_s is not None else self.injected_s
        if start is None or (self.error is not None and self.injected_s is None):
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
class Example:
    """One offence: its place, process and time, and the checker's detail."""

    topic: str | None
    partition: int | None
    offset: int | None
    value: int | None
    process: int | None
    at_s: float | None
    kind: str | None
    detail: Mapping[str, Any]

    @property
    def producer(self) -> int | None:
        """The producer that wrote the value."""
        return None if self.value is None else producer_of(self.value)

    @property
    def sequence(self) -> int | None:
        """The sequence number that its producer gave the value."""
        return None if self.value is None else sequence_of(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """All occurrences of one anomaly: `AnomalyFinding` of verifiers/run_folder/result.py.

    Texts that the verdict does not have are empty. The first of them all happened at `from_s`, the
    last at `to_s`; None if the verdict does not say.
    """

    name: str
    count: int
    permitted: bool
    why: str
    permits: str
    examples: tuple[Example, ...]
    severity: int = 9
    phrase: str = ""
    means: str = ""
    from_s: float | None = None
    to_s: float | None = None
    undecided: bool = False

    @property
    def ruling(self) -> str:
        """What the oracle says of it, in a word: permitted, forbidden, or unknown."""
        return "permitted" if self.permitted else "unknown" if self.undecided else "forbidden"

    @property
    def summary(self) -> str:
        """What was found, in words: 3 acknowledged records were lost."""
        if self.phrase:
            return f"{units.count(self.count)} {self.phrase}"
        return f"{self.name} occurred {units.counted(self.count, 'time')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """verdict.json, without the faults: `Report` of verifiers/run_folder/result.py.

    What it does not have is empty, and the verdict is UNKNOWN if the run was never verified. Of the
    anomalies the forbidden come first, those that leave the verdict UNKNOWN next, and of each the
    worst first.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    anomalies: tuple[Anomaly, ...]
    counts: Mapping[str, int]
    checkers: Mapping[str, str]
    replicas: Mapping[str, Any]
    timing_s: Mapping[str, float]
    timeline: Mapping[str, Any]
    liveness: Mapping[str, Any]
    metrics: Mapping[str, Any]

    def ruled(self, ruling: str) -> tuple[Anomaly, ...]:
        """Return the anomalies that are permitted, forbidden, or unknown."""
        return tuple(a for a in self.anomalies if a.ruling == ruling)


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
        judgement: what the verifier concluded.
        faults: in the order of time.
        timeline: leaders and ISRs of each partition; empty if the folder has none.
        lanes: what the clients saw over time; None if the folder has no lanes.json.
        effective: configuration of each node, read back from it; `given` is what it was started
            with.
        plan: plan.json; None if there is none.
        claim: claim.json; None if the run tested none.
        client: the library that was asked for of the clients; empty: the harness's own.
        group: what verdict.json says of the group whose members came and went; empty if none did.
        situations: what verdict.json says of each situation, by name; empty if it says nothing.
        adequacy: what became of each rule of adequacy, by name; empty if verdict.json says nothing.
        missing: a sentence for each part that the folder lacks.
    """

    folder: Path
    run: str
    scenario: str
    seed: str
    kafka: str
    command: str
    started_utc: str
    contract: Mapping[str, Any]
    cluster: Mapping[str, Any]
    provokes: tuple[str, ...]
    phases: tuple[Phase, ...]
    versions: Mapping[str, str]
    state: str
    run_reasons: tuple[str, ...]
    judgement: Judgement
    faults: tuple[FaultRecord, ...]
    timeline: Mapping[Partition, tuple[Leadership, ...]]
    lanes: Lanes | None
    effective: Mapping[str, Mapping[str, str]]
    given: Mapping[str, Mapping[str, str]]
    plan: Any
    claim: ClaimRecord | None
    group: Mapping[str, Any]
    situations: Mapping[str, Mapping[str, Any]]
    adequacy: Mapping[str, Mapping[str, Any]]
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
        ids.update(*(fault.victims for fault in self.faults))
        spans = [span for spans in self.timeline.values() for span in spans]
        ids.update(*(span.isr for span in spans))
        ids.update(span.leader for span in spans if span.leader is not None)
        return tuple(sorted(ids))

    def leadership_at(self, partition: Partition, at_s: float) -> Leadership | None:
        """Return who led and who was in the ISR then, or None if nothing is known."""
        begun = [span for span in self.timeline.get(partition, ()) if span.from_s <= at_s]
        return begun[-1] if begun else None
