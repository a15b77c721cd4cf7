"""Trials: one claim on one version, from its run to its outcome."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from harness.campaigns.conduct import conduct, judge
from harness.core.errors import HistoryUnreadable, KafkaChaosError
from harness.core.run_dir import SCHEMA, RunDir, canonical_json, write_atomically
from harness.lab.claim import Claim, Expectation, Finding, Outcome, find_claim
from harness.lab.claim_run import ClaimRun
from harness.lab.recorded import RecordedRun
from harness.run.runner import Runner
from verifiers.report import write_report

TRIAL_FILE = "claim.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one claim on one version; claim.json in the folder of its run.

    Attributes:
        claim: its name.
        number: its number in the catalogue.
        sentence: what is claimed.
        source: where that is written.
        kafka: version of the brokers.
        expected: what is expected of this version, in words; None if the claim is silent on it.
        outcome: CONFIRMED, REFUTED or UNKNOWN.
        words: what was seen.
        metadata: where the cluster keeps its metadata, "kraft" or "zookeeper"; empty if there was
            no run.
        run: name of the run's folder; empty if there was no run.
        started_utc: when the run began; empty if there was no run.
        seconds: how long it took, verification included.
        anomalies: how many of each were found.
        located: lost records located on the brokers' disks and in their logs, see run-folder.md.
        facts: what the script noted, by name.
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

    def document(self) -> dict[str, Any]:
        """Return the trial as a JSON object."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Trial":
        """Return the trial in a JSON object.

        Raises:
            HistoryUnreadable: it holds none.
        """
        known = {entry.name for entry in fields(cls)}
        try:
            given = {key: value for key, value in document.items() if key in known}
            return cls(**{**given, "outcome": Outcome(given["outcome"])})
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryUnreadable(f"{document} is no trial of a claim ({error!r}).") from error


def conduct_trial(runner: Runner, run: ClaimRun, *, master: str | None = None) -> Trial:
    """Run a claim, verify what was run, and judge it.

    A run that could not be made is UNKNOWN, with its error for words.

    Raises:
        UsageError: what was asked for cannot be; nothing was started.
        HealFailed: something may still be broken.
    """
    begin = time.monotonic()
    outcome = conduct(runner, master=master)
    return judge_claim(outcome.run_dir, run.claim, run.name, seconds=time.monotonic() - begin)


def judge_trial(folder: Path, name: str, *, seconds: float, master: str | None = None) -> Trial:
    """Verify the run of a claim, and judge it.

    Args:
        folder: of the run.
        name: of the claim.
        seconds: how long the run took.
        master: Spark master.

    Raises:
        HistoryUnreadable: what was recorded is damaged.
        EnvironmentBroken: there is no Java, or Spark did not start.
    """
    begin = time.monotonic()
    run_dir = RunDir(folder)
    judge(run_dir, master=master)
    _, claim = find_claim(name)
    return judge_claim(run_dir, claim, name, seconds=seconds + time.monotonic() - begin)


def failed_trial(
    run: ClaimRun, error: KafkaChaosError, *, seconds: float, was_run: bool = False
) -> Trial:
    """Return the trial of a run that could not be made, or, if it was, not be judged."""
    missing = "judged" if was_run else "made"
    finding = Finding(outcome=Outcome.UNKNOWN, words=f"The run could not be {missing}: {error}")
    return _trial(run.name, run.claim, run.kafka, finding, seconds)


def judge_claim(run_dir: RunDir, claim: Claim, name: str, *, seconds: float) -> Trial:
    """Return what a verified run says of a claim, and write it down as claim.json."""
    run = RecordedRun(run_dir)
    finding = _judge(run, claim.expectation(run.kafka))
    trial = replace(
        _trial(name, claim, run.kafka, finding, seconds),
        metadata=str(run.meta["cluster"]["metadata"]),
        run=run_dir.name,
        started_utc=str(run.meta["started_utc"]),
        anomalies={name: found["count"] for name, found in run.verdict["anomalies"].items()},
        located=(run.verdict.get("replicas") or {}).get("located"),
        facts=run.all_facts,
    )
    write_atomically(run_dir.path / TRIAL_FILE, canonical_json(trial.document()))
    write_report(run_dir.path)  # once more: it begins with the claim
    return trial


def _trial(name: str, claim: Claim, kafka: str, finding: Finding, seconds: float) -> Trial:
    expectation = claim.expectation(kafka)
    return Trial(
        claim=name,
        number=claim.number,
        sentence=claim.sentence,
        source=claim.source,
        kafka=kafka,
        expected=expectation.words if expectation else None,
        outcome=finding.outcome,
        words=finding.words,
        seconds=round(seconds, 1),
    )


def _judge(run: RecordedRun, expectation: Expectation | None) -> Finding:
    if expectation is None:
        return Finding(
            outcome=Outcome.UNKNOWN, words=f"The claim does not speak of Kafka {run.kafka}."
        )
    if run.unmet:
        words = "; ".join(run.unmet)
        return Finding(outcome=Outcome.UNKNOWN, words=f"A precondition was not met: {words}.")
    return expectation.test(run)


def trials_in(store: Path) -> Iterator[Trial]:
    """Yield the trials of every run folder in a store, the oldest first."""
    for file in sorted(store.glob(f"*/{TRIAL_FILE}")):
        if not file.parent.is_symlink():
            yield Trial.read(json.loads(file.read_text(encoding="utf-8")))


def merged(store: Path, measured: Path | None) -> list[Trial]:
    """Return the trials of a store and those of a file of JSON lines, each run once, by time.

    Raises:
        HistoryUnreadable: the file holds something else.
    """
    known: dict[str, Trial] = {}
    if measured is not None and measured.exists():
        for line in measured.read_text(encoding="utf-8").splitlines():
            trial = Trial.read(json.loads(line))
            known[trial.run] = trial
    for trial in trials_in(store):
        known[trial.run] = trial
    return sorted(known.values(), key=lambda trial: (trial.started_utc, trial.run))
