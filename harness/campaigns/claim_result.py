"""What came of a claim on one version of Kafka."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.campaigns.campaign import Unmade
from harness.campaigns.conduct import RunResult
from harness.campaigns.field_values import read_dataclass
from harness.core.run_dir import SCHEMA, RunDir, canonical_json, read_lines, write_atomically
from harness.lab.claim import CLAIMS, Claim
from harness.lab.claim_run import ClaimRun
from harness.lab.finding import Finding, Outcome, unknown
from harness.lab.recorded import RecordedRun
from harness.lab.variation import Variation
from verifiers.report import write_report

CLAIM_FILE = "claim.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """What came of one claim on one version; claim.json in the folder of its run.

    Attributes:
        claim: its name.
        number: its number in the catalogue.
        sentence: what is claimed.
        source: where that is written.
        kafka: version of the brokers.
        expected: what is expected of this version, in words; None if the claim does not speak of
            it.
        outcome: CONFIRMED, REFUTED or UNKNOWN.
        words: what the run showed.
        metadata: where the cluster keeps its metadata, "kraft" or "zookeeper"; empty if there was
            no run.
        run: name of the run's folder; empty if there was no run.
        started_utc: when the run began; empty if there was no run.
        seconds: how long it took, verification included.
        anomalies: how many of each were found.
        located: lost records located on the brokers' disks and in their logs, see run-folder.md.
        facts: what the script noted, by name.
        varied: in what the experiment differed from the claim's, by setting; empty if in nothing.
            What was claimed is not put to the test by such a run.
    """

    claim: str
    number: int
    sentence: str
    source: str
    kafka: str
    expected: str | None
    outcome: Outcome
    words: str
    metadata: str = ""
    run: str = ""
    started_utc: str = ""
    seconds: float = 0.0
    anomalies: Mapping[str, int] = field(default_factory=dict)
    located: Any = None
    facts: Mapping[str, list[Any]] = field(default_factory=dict)
    varied: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.words}"

    @property
    def settings(self) -> dict[str, Any]:
        """What tells it from the other results of a matrix."""
        return {"claim": self.claim, "kafka": self.kafka}

    def document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "ClaimResult":
        """Return the result in a JSON object.

        Raises:
            HistoryUnreadable: it holds none.
        """
        return read_dataclass(cls, document)


def claim_result(
    result: RunResult,
    seconds: float,
    *,
    name: str,
    claim: Claim | None = None,
    variation: Variation | None = None,
) -> ClaimResult:
    """Return what a judged run says of a claim, and write it down as claim.json.

    Args:
        result: the judged run.
        seconds: how long it took, verification included.
        name: of the claim.
        claim: the claim; None: the registered one of this name.
        variation: in what the experiment differed from it.
    """
    run_dir = result.run_dir
    run = RecordedRun(run_dir, result.report.to_json())
    claimed = (claim or CLAIMS[name]()).varied(variation or Variation())
    claim_run = ClaimRun(name=name, claim=claimed, kafka=run.kafka)
    concluded = replace(
        _result(claim_run, _conclude(run, claim_run), seconds),
        metadata=str(run.meta["cluster"]["metadata"]),
        run=run_dir.name,
        started_utc=str(run.meta["started_utc"]),
        anomalies={kind: found["count"] for kind, found in run.verdict["anomalies"].items()},
        located=run.verdict["replicas"].get("located"),
        facts=run.all_facts,
    )
    write_atomically(run_dir.path / CLAIM_FILE, canonical_json(concluded.document()))
    write_report(run_dir.path, report=result.report)  # once more: it begins with the claim
    return concluded


def without_run(run: ClaimRun, unmade: Unmade) -> ClaimResult:
    """Return the result of a run that could not be made, or not be judged, and why."""
    return _result(run, unknown(unmade.reason), unmade.seconds)


def _result(run: ClaimRun, finding: Finding, seconds: float) -> ClaimResult:
    expectation = run.claim.expectation(run.kafka)
    return ClaimResult(
        claim=run.name,
        number=run.claim.number,
        sentence=run.claim.sentence,
        source=run.claim.source,
        kafka=run.kafka,
        expected=expectation.words if expectation else None,
        outcome=finding.outcome,
        words=finding.words,
        seconds=round(seconds, 1),
        varied=run.claim.variation.words(),
    )


def _conclude(run: RecordedRun, claim_run: ClaimRun) -> Finding:
    expectation = claim_run.claim.expectation(run.kafka)
    if expectation is not None and not run.unmet:
        return expectation.test(run)
    words = f"The claim does not speak of Kafka {run.kafka}."
    if expectation is not None:
        words = f"A precondition was not met: {'; '.join(run.unmet)}."
    return unknown(words)


def results_in(store: Path) -> Iterator[ClaimResult]:
    """Yield the results in the run folders of a store, the oldest first.

    Raises:
        HistoryUnreadable: one of them is damaged.
    """
    for file in sorted(store.glob(f"*/{CLAIM_FILE}")):
        if not file.parent.is_symlink():
            yield ClaimResult.read(RunDir(file.parent).read_json(CLAIM_FILE))


def merge_results(store: Path, measured: Path | None) -> list[ClaimResult]:
    """Return the results of a store and of a file of JSON lines, each run once, by time.

    Those of varied experiments are left out: they say nothing of what is claimed.

    Raises:
        HistoryUnreadable: the file holds something else.
    """
    earlier = () if measured is None else map(ClaimResult.read, read_lines(measured))
    everything = (result for results in (earlier, results_in(store)) for result in results)
    by_run = {result.run: result for result in everything if not result.varied}
    return sorted(by_run.values(), key=lambda result: (result.started_utc, result.run))
