"""The result of a verification: the report of a run, and the file `verdict.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import SCHEMA, RunDir, canonical_json, write_atomically
from harness.core.verdict import Verdict

VERDICT = "verdict.json"
"""Name of the file in the folder of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffenceExample:
    """One offence, with the columns of ANOMALY_SCHEMA.

    Attributes:
        topic: where.
        partition: where; None if unknown.
        offset: in records; None if unknown.
        value: which record, `producer << 40 | sequence`; None if unknown.
        process: which client.
        time_ns: when, on our monotonic clock.
        kind: refines the anomaly.
        detail: further facts by name.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    value: int | None = None
    process: int | None = None
    time_ns: int | None = None
    kind: str | None = None
    detail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyFinding:
    """All offences of one anomaly.

    Attributes:
        count: how many.
        permitted: whether the contract permits every one of them.
        why: why, or why not; one sentence for each reason.
        kinds: how many of each kind.
        severity: how bad the anomaly is; 1 is the worst.
        phrase: what a sentence says of them, as in "acknowledged records were lost".
        means: what the anomaly is, in one sentence; empty if its checker does not say.
        permits: what of the contract permits it, as in "acks=1"; empty if it is forbidden.
        undecided: whether it is neither permitted nor forbidden, and leaves the verdict UNKNOWN.
        examples: at most 32, the lowest places first.
        first_ns: when the first of them all happened, on our monotonic clock; None if unknown.
        last_ns: when the last did.
        forbidden_kinds: those of the kinds that the contract forbids; "" stands for no kind.
    """

    count: int
    permitted: bool = False
    why: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[OffenceExample, ...] = ()
    severity: int = 9
    phrase: str = ""
    means: str = ""
    permits: str = ""
    first_ns: int | None = None
    last_ns: int | None = None
    undecided: bool = False
    forbidden_kinds: tuple[str, ...] = ()

    @property
    def ruling(self) -> str:
        """What the contract says of them, in a word: permitted, forbidden, or unknown."""
        return "permitted" if self.permitted else "unknown" if self.undecided else "forbidden"

    @property
    def forbidden(self) -> bool:
        """Whether some of them the contract forbids."""
        return self.ruling == "forbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The numbers of operations.

    Attributes:
        sends: completed sends that were invoked.
        acked: of these, acknowledged.
        failed: of these, certainly not written.
        indeterminate: of these, nobody knows.
        reserved: sequence numbers that a killed producer had reserved and may have used.
        read: records that consumers were given.
        final: records of the final read.
    """

    sends: int = 0
    acked: int = 0
    failed: int = 0
    indeterminate: int = 0
    reserved: int = 0
    read: int = 0
    final: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFault:
    """One fault as the journal records it, with the judgement whether it is proven.

    Attributes:
        id: its number in the journal.
        name: the fault.
        target: who was to be hit.
        victims: node ids that were.
        injected_at_s: seconds after the run's zero; None if it never was.
        healed_at_s: the same, of the healing.
        proven: whether independent witnesses saw both.
        evidence: what they saw, by phase.
        error: what went wrong, if something did.
        destroys_data: whether it may take data away that a broker had on its disk.
        felt: "felt", "unfelt" or "unproven"; empty as long as nobody has judged that.
        signs: what Kafka and its clients showed of it, in sentences.
    """

    id: str
    name: str
    target: str
    victims: tuple[int, ...]
    injected_at_s: float | None
    healed_at_s: float | None
    proven: bool
    evidence: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    destroys_data: bool = False
    felt: str = ""
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The verdict on a run, and everything that supports it.

    Attributes:
        run: name of the run's folder.
        scenario: what was run.
        seed: of its schedule.
        kafka: version of the brokers.
        verdict: VALID, INVALID or UNKNOWN.
        reasons: why it is not VALID; empty if it is. What is forbidden comes first.
        anomalies: what was found, by name; only what was.
        counts: how many operations there were.
        faults: in the order of their numbers.
        situations: by name, how often the run has reached each, by which faults, and when first.
        checkers: "ran", "skipped", "could not run" or "crashed", by name.
        adequacy: what became of each rule of adequacy, by name: `state`, `reasons` and `figures`.
        timing_s: seconds by phase, the verification's own included.
        replicas: what was seen on the brokers' disks.
        timeline: how fast the cluster came to terms with each fault, and what was sampled.
        liveness: whether it could be written as soon as the scenario asks, a verdict of its own.
        metrics: what was measured, and is no part of the verdict.
        group: who came and went in the consumer group whose members do; empty if there is none.
    """

    run: str = ""
    scenario: str = ""
    seed: int | None = None
    kafka: str = ""
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    anomalies: Mapping[str, AnomalyFinding] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    faults: tuple[JudgedFault, ...] = ()
    checkers: Mapping[str, str] = field(default_factory=dict)
    timing_s: Mapping[str, float] = field(default_factory=dict)
    adequacy: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    replicas: Mapping[str, Any] = field(default_factory=dict)
    timeline: Mapping[str, Any] = field(default_factory=dict)
    liveness: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    group: Mapping[str, Any] = field(default_factory=dict)
    situations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the document of verdict.json (docs/run-folder.md)."""
        document = {"schema": SCHEMA, **asdict(self), "verdict": self.verdict.name}
        if not self.group:
            del document["group"]
        return document

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Report":
        """Return the report whose document this is: what `to_json` has made, or verdict.json.

        Raises:
            HistoryUnreadable: it is no report.
        """
        # Only who reads a report again needs pydantic, and it takes a tenth of a second to import.
        from pydantic import ValidationError

        if document.get("schema") != SCHEMA:
            raise HistoryUnreadable(
                f"A report has the schema {SCHEMA}, this has {document.get('schema')!r}."
            )
        named = str(document.get("verdict"))
        if named not in Verdict.__members__:
            known = ", ".join(Verdict.__members__)
            raise HistoryUnreadable(f"Its verdict is {named!r}, which is none of {known}.")
        try:
            report: Report = _adapter().validate_python({**document, "verdict": Verdict[named]})
        except ValidationError as error:
            raise HistoryUnreadable(f"This is no report: {error}") from error
        return report


@cache
def _adapter() -> Any:  # noqa: ANN401 (pydantic is imported where it is needed)
    from pydantic import TypeAdapter

    return TypeAdapter(Report)


def write_verdict(run_dir: Path, report: Report) -> Path:
    """Write verdict.json into the run's folder, atomically, and return its path."""
    path = run_dir / VERDICT
    write_atomically(path, canonical_json(report.to_json()))
    return path


def read_verdict(run_dir: RunDir) -> Report:
    """Return the report in the verdict.json of a run that was judged; Spark is not needed.

    Raises:
        UsageError: the run has no verdict yet.
        HistoryUnreadable: verdict.json is damaged.
    """
    if not (run_dir.path / VERDICT).is_file():
        raise UsageError(
            f"{run_dir.path} has no verdict yet: `kafka-chaos verify {run_dir.path}` gives it one."
        )
    document = run_dir.read_json(VERDICT)
    try:
        return Report.read(document)
    except HistoryUnreadable as error:
        raise HistoryUnreadable(
            f"{run_dir.path / VERDICT} cannot be read ({error}): `kafka-chaos verify "
            f"{run_dir.path}` writes it again."
        ) from error
