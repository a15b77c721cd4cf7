"""Exit codes: what a shell, a cron job and a CI learn of a command (docs: README, exit codes).

Only the two ends are replaced: the cluster that would run, and the Spark job that would verify.
"""

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import Unmade
from harness.campaigns.claim_result import ClaimResult, without_run
from harness.campaigns.conduct import RunResult
from harness.core.errors import (
    ClusterBroken,
    EnvironmentBroken,
    HealFailed,
    HistoryUnreadable,
    KafkaChaosError,
    PreconditionUnmet,
    WaitTimeout,
)
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.lab.claim import find_claim
from harness.lab.claim_run import ClaimRun
from harness.lab.finding import Outcome
from harness.lab.variation import Variation
from harness.machine.doctor import Finding
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine, report
from tests.unit.report_fixture import valid
from verifiers.run_folder.result import Counts, Report

Execute = Callable[[Runner], None]
Ended = tuple[int, str, str]
__all__ = ["machine"]


def report_of(path: Path, verdict: Verdict) -> Report:
    reasons = () if verdict is Verdict.VALID else ("because",)
    return Report(
        run=path.name, scenario="mixed", seed=7, kafka="4.3.1", verdict=verdict, reasons=reasons,
        anomalies={}, counts=Counts(), faults=(), checkers={"lost-write": "ran"}, timing_s={},
    )  # fmt: skip


@pytest.fixture
def invoke(invoke_raw: Callable[..., Ended]) -> Callable[..., Ended]:
    """Run the command line; stderr comes as it was printed."""
    return invoke_raw


@pytest.fixture
def ends_as(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let every run do what it is told instead of starting a cluster, and end in a verdict."""

    def replace(verdict: Verdict | KafkaChaosError, execute: Execute = lambda _: None) -> None:
        def run_without_cluster(runner: Runner) -> RunDir:
            run_dir = RunDir.create(runner.store, scenario=runner.run.name, seed=runner.seed)
            valid(run_dir.path)
            execute(runner)
            return run_dir

        def verify_without_spark(paths: Sequence[Path], **_: Any) -> tuple[Any, ...]:
            if isinstance(verdict, KafkaChaosError):
                return tuple(verdict for _ in paths)
            return tuple(report_of(path, verdict) for path in paths)

        monkeypatch.setattr(Runner, "execute", run_without_cluster)
        monkeypatch.setattr("harness.campaigns.conduct.verify_all", verify_without_spark)
        monkeypatch.setattr("harness.machine.versions.reject_unknown_kafka", lambda *_, **__: None)

    return replace


VERDICTS = [(Verdict.VALID, 0), (Verdict.INVALID, 1), (Verdict.UNKNOWN, 3)]


@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_a_run_ends_as_its_verdict(
    invoke: Callable[..., Ended],
    ends_as: Callable[..., None],
    verdict: Verdict,
    code: int,
) -> None:
    ends_as(verdict)

    ended, out, err = invoke("run", "--json")

    assert ended == code, err
    assert json.loads(out)["verdict"] == verdict.name


def raising(error: BaseException) -> Execute:
    def execute(_: Runner) -> None:
        raise error

    return execute


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PreconditionUnmet("nothing was seen"), 3),
        (HistoryUnreadable("damaged"), 3),
        (EnvironmentBroken("no engine"), 4),
        (ClusterBroken("it did not start"), 4),
        (WaitTimeout("it took too long"), 4),
        (HealFailed("something may still be broken"), 5),
        (RuntimeError("a bug"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_run_that_fails_ends_as_its_error(
    invoke: Callable[..., Ended],
    ends_as: Callable[..., None],
    error: BaseException,
    code: int,
) -> None:
    ends_as(Verdict.VALID, raising(error))

    ended, out, err = invoke("run", "--json")

    assert ended == code, err
    assert out == ""


def test_a_run_that_is_interrupted_is_verified_and_ends_with_130(
    invoke: Callable[..., Ended], ends_as: Callable[..., None]
) -> None:
    def interrupt(runner: Runner) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        assert runner.stop.is_set()

    ends_as(Verdict.UNKNOWN, interrupt)

    code, out, err = invoke("run", "--json")

    assert code == 130
    assert json.loads(out)["verdict"] == "UNKNOWN"
    assert "everything healed" in err


@pytest.mark.parametrize(("verdict", "code"), [*VERDICTS, (HistoryUnreadable("damaged"), 3)])
def test_verifying_a_run_ends_as_its_verdict(
    invoke: Callable[..., Ended],
    ends_as: Callable[..., None],
    tmp_path: Path,
    verdict: Verdict | KafkaChaosError,
    code: int,
) -> None:
    folder = valid(tmp_path / "run")
    ends_as(verdict)

    ended, out, err = invoke("verify", str(folder), "--json")

    assert ended == code, err
    if isinstance(verdict, Verdict):
        assert json.loads(out)["verdict"] == verdict.name
        assert json.loads((folder / "verdict.json").read_text())["verdict"] == verdict.name


# -- campaigns -------------------------------------------------------------------------------------

CAMPAIGNS = {
    # A night begins with its control whatever the budget is, and this one ends after it.
    "nightly": ("nightly", "--budget", "1ms"),
    "matrix": ("matrix", "--acks", "all", "--min-isr", "2", "--idempotence", "on"),
}


@pytest.fixture
def any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every version of Kafka exist: nobody asks Maven Central."""
    for module in ("harness.machine.versions", "harness.machine.images"):
        monkeypatch.setattr(f"{module}.reject_unknown_kafka", lambda *_, **__: None)


@pytest.mark.usefixtures("any_version")
@pytest.mark.parametrize("command", CAMPAIGNS)
@pytest.mark.parametrize(("verdict", "code"), VERDICTS)
def test_a_campaign_ends_as_its_worst_run(
    invoke: Callable[..., Ended], machine: Machine, command: str, verdict: Verdict, code: int
) -> None:
    machine.report = lambda runner: report(runner, verdict, reasons=("because",))

    ended, out, err = invoke(*CAMPAIGNS[command], "--json")

    assert ended == code, err
    assert len(machine.made) == 1
    assert json.loads(out)["verdict"] == verdict.name


CLAIM = ("claims", "run", "acks1-loss-on-leader-kill")


@pytest.mark.usefixtures("any_version")
@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome.CONFIRMED, 0), (Outcome.REFUTED, 1), (Outcome.UNKNOWN, 3)]
)
def test_claims_end_as_their_worst_outcome(
    invoke: Callable[..., Ended],
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    code: int,
) -> None:
    def claim_result(
        result: RunResult, seconds: float, *, name: str, variation: Variation
    ) -> ClaimResult:
        run = ClaimRun(name=name, claim=find_claim(name)[1], kafka=result.report.kafka)
        concluded = without_run(run, Unmade(reason="Seen.", seconds=seconds))
        return replace(concluded, run=result.run_dir.name, outcome=outcome)

    monkeypatch.setattr("harness.campaigns.claims.claim_result", claim_result)

    ended, out, err = invoke(*CLAIM, "--json")

    assert ended == code, err
    assert json.loads(out)["outcomes"][outcome] == 1


@pytest.mark.usefixtures("any_version")
@pytest.mark.parametrize("words", [*CAMPAIGNS.values(), CLAIM], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HealFailed("something may still be broken"), 5),
        (RuntimeError("a bug"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_campaign_is_its_exit_code(
    invoke: Callable[..., Ended],
    machine: Machine,
    words: tuple[str, ...],
    error: BaseException,
    code: int,
) -> None:
    machine.during = raising(error)

    ended, out, err = invoke(*words, "--json")

    assert (ended, out) == (code, ""), err


@pytest.mark.usefixtures("any_version")
@pytest.mark.parametrize("words", [*CAMPAIGNS.values(), CLAIM], ids=lambda words: words[0])
def test_a_campaign_that_is_interrupted_ends_with_130(
    invoke: Callable[..., Ended], machine: Machine, words: tuple[str, ...]
) -> None:
    machine.during = lambda _: os.kill(os.getpid(), signal.SIGINT)

    assert invoke(*words)[0] == 130
    assert machine.made == []


# -- the machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("works", "code"), [((True, True), 0), ((True, False), 4)])
def test_a_machine_that_lacks_something_is_exit_4(
    invoke: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    works: tuple[bool, ...],
    code: int,
) -> None:
    findings = [
        Finding(name=f"part {number}", ok=ok, detail="seen", cost="much", remedy="get it")
        for number, ok in enumerate(works)
    ]
    monkeypatch.setattr("harness.machine.doctor.diagnose", lambda **_: findings)

    ended, out, _ = invoke("doctor", "--json")

    assert ended == code
    assert [finding["ok"] for finding in json.loads(out)] == list(works)


@pytest.mark.parametrize("command", ["heal", "clean"])
def test_what_could_not_be_healed_is_exit_5(
    invoke: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def fail(**_: Any) -> None:
        raise HealFailed("The agent of run x did not answer.")

    monkeypatch.setattr(f"harness.cluster.cleanup.{command}", fail)

    code, _, err = invoke(command)

    assert code == 5
    assert "did not answer" in err
