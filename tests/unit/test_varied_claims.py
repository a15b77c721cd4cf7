"""Claims with one thing other than they say: what differs, what is told, and what it counts for."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.campaigns.campaign import Session, asked_in
from harness.campaigns.claim_result import claim_result, merge_results, results_in
from harness.campaigns.claims import ClaimMatrix, run_claims
from harness.campaigns.conduct import RunResult
from harness.cli import main as cli
from harness.core.cluster import Broker
from harness.core.contract import Contract
from harness.core.run_dir import RunDir
from harness.lab.claim_run import ClaimRun
from harness.lab.finding import Outcome
from harness.lab.lab import Lab
from harness.lab.variation import Variation
from tests.unit.campaign_fixture import Machine, machine
from tests.unit.lab_fixture import batch, recorded_run
from tests.unit.test_claims import judged_as, simple
from verifiers.run_folder.result import read_verdict

__all__ = ["judged_as", "machine"]

ACKS_1 = Variation(contract={"acks": "1"}, config={"replica.lag.time.max.ms": "3000"})


def test_a_varied_claim_runs_with_what_was_asked_for_and_keeps_the_rest() -> None:
    config = {"replica.lag.time.max.ms": "60000", "replica.fetch.wait.max.ms": "15000"}
    claim = simple(config=lambda _: config)

    run = ClaimRun(name="simple", claim=claim.varied(ACKS_1), kafka="4.3.1")

    assert (run.contract.acks, run.contract.min_isr) == ("1", 1)
    assert dict(run.cluster.config) == config | {"replica.lag.time.max.ms": "3000"}
    assert run.described()["varied"] == {"acks": "1", "replica.lag.time.max.ms": "3000"}
    assert run.again(Path("runs/x"), 7) == (
        "kafka-chaos claims run simple --kafka 4.3.1 --seed 7 --acks 1 "
        "--set replica.lag.time.max.ms=3000"
    )
    assert ClaimRun(name="simple", claim=claim, kafka="4.3.1").described()["varied"] == {}


def test_a_script_cannot_go_back_on_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []

    def start_client(*given: Any) -> SimpleNamespace:
        started.append(given[-1]["config"])
        return SimpleNamespace(order=lambda _: 1)

    monkeypatch.setattr("harness.lab.lab.start_client", start_client)
    lab = Lab.__new__(Lab)
    lab._context = cast("Any", SimpleNamespace(topics=("orders",)))
    lab._contract, lab._always = Contract(acks="1"), {"acks": "1"}
    lab._producers, lab._before = {}, cast("Any", str)

    lab.producer(acks="all")

    assert [config["acks"] for config in started] == ["1"]


def test_what_a_varied_run_shows_is_told_and_counts_for_nothing(tmp_path: Path) -> None:
    recorded_run(tmp_path / "r", lines=[batch("x", 0, 10)], kafka="1.1.1")
    report = read_verdict(RunDir(tmp_path / "r"))
    judged = RunResult(run_dir=RunDir(tmp_path / "r"), report=report)

    got = claim_result(judged, 1.0, name="simple", claim=simple(), variation=ACKS_1)

    assert got.varied == {"acks": "1", "replica.lag.time.max.ms": "3000"}
    assert str(got.outcome) == "REFUTED"
    assert ClaimMatrix([got]).exit_code == 0
    assert list(results_in(tmp_path)) == [got]
    assert merge_results(tmp_path, None) == []


def test_a_matrix_says_what_was_varied(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    varied = {"simple": simple().varied(ACKS_1)}

    folder, _ = run_claims(varied, ["4.3.1"], Session(store=tmp_path))

    assert asked_in(folder)["varied"] == {
        "simple": {"acks": "1", "replica.lag.time.max.ms": "3000"}
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--all", "--acks", "1"], "Name the claims whose experiment is to be varied by acks=1"),
        (["18", "--set", "replica.lag"], "--set 'replica.lag' is not KEY=VALUE"),
        (["18", "--step"], "run it in a terminal"),
        (["18", "--min-isr", "4"], "can never be met"),
        (["18", "--acks", "2"], "'2' is not one of '0', '1', 'all'"),
    ],
)
def test_what_cannot_be_varied_is_refused(
    words: list[str], sentence: str, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)

    monkeypatch.setattr(sys, "argv", ["kafka-chaos", "claims", "run", *words])

    with pytest.raises(SystemExit) as refused:
        cli.main()

    said = " ".join(capfd.readouterr().err.replace("│", " ").split())
    assert refused.value.code == 2
    assert sentence in said


def test_a_step_shows_the_partition_and_what_comes_next(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from harness.cli.claims import _wait_for_key

    a, b = Broker(1, "one"), Broker(2, "two")
    lab = Lab.__new__(Lab)
    cluster = SimpleNamespace(
        metadata=lambda: SimpleNamespace(partitions=lambda topic: {(topic, 0): None}),
        leader_of=lambda *_: b,
        isr_of=lambda *_: [a, b],
        admin=SimpleNamespace(end_offset=lambda *_: 10),
    )
    lab._context = cast("Any", SimpleNamespace(cluster=cluster, topics=("orders",)))
    asked: list[str] = []

    def read() -> str:
        asked.append("key")
        return "\n"

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(readline=read))

    _wait_for_key(lab, "broker kill: B")

    said = capfd.readouterr().err
    assert "partition 0: leader B · ISR {A, B} · high watermark 10" in said
    assert "next: broker kill: B" in said
    assert asked == ["key"]
