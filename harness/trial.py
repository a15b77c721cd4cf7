"""Trials: one claim on one version, from its run to its outcome."""

from dataclasses import asdict, dataclass, field
from typing import Any

from harness.claim import Claim, Expectation, Finding, Outcome
from harness.claim_run import ClaimRun
from harness.experiment import conduct
from harness.run_dir import SCHEMA, RunDir, canonical_json, write_atomically
from harness.runner import Runner
from harness.seen import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one claim on one version.

    Attributes:
        claim: its name.
        number: its number in the catalogue.
        sentence: what is claimed.
        kafka: version of the brokers.
        expected: what is expected of this version, in words.
        outcome: CONFIRMED, REFUTED or UNKNOWN.
        words: what was seen.
        run: name of the run's folder; None if there was no run.
        started_utc: when the run began.
        seconds: how long it took, verification included.
        lost: how many acknowledged records were lost.
        located: of those, how many were found on a broker's disk, or their cut in a log.
    """

    claim: str
    number: int
    sentence: str
    kafka: str
    expected: str
    outcome: Outcome
    words: str
    run: str | None
    started_utc: str
    seconds: float
    anomalies: dict[str, int] = field(default_factory=dict)
    replicas: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the trial as JSON."""
        return {"schema": SCHEMA, **asdict(self)}


def conduct_trial(
    runner: Runner, run: ClaimRun, *, master: str | None = None
) -> tuple[RunDir, Finding]:
    """Run a claim, verify what was recorded, judge it, and write claim.json and the report.

    Raises:
        KafkaChaosError: the run could not be made.
    """
    outcome = conduct(runner, master=master)
    finding = judge_claim(outcome.run_dir, run.claim, run.name)
    return outcome.run_dir, finding


def judge_claim(run_dir: RunDir, claim: Claim, name: str) -> Finding:
    """Return what a verified run says of a claim, and write it down as claim.json."""
    seen = Seen(run_dir)
    expectation = claim.expectation(seen.kafka)
    finding = _judge(seen, expectation)
    write_atomically(
        run_dir.path / "claim.json",
        canonical_json(
            {
                "schema": SCHEMA,
                "claim": name,
                "number": claim.number,
                "sentence": claim.sentence,
                "source": claim.source,
                "kafka": seen.kafka,
                "expected": expectation.words if expectation else None,
                "outcome": finding.outcome,
                "words": finding.words,
            }
        ),
    )
    return finding


def _judge(seen: Seen, expectation: Expectation | None) -> Finding:
    if expectation is None:
        return Finding(
            outcome=Outcome.UNKNOWN, words=f"The claim does not speak of Kafka {seen.kafka}."
        )
    if seen.unmet:
        words = "; ".join(seen.unmet)
        return Finding(outcome=Outcome.UNKNOWN, words=f"A precondition was not met: {words}.")
    return expectation.test(seen)
