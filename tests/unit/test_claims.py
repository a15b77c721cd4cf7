"""The catalogue of claims, and how a claim's run becomes an outcome."""

import importlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.claim_result import Trial, judge_claim
from harness.campaigns.claims import Matrix, run_matrix
from harness.campaigns.judging_queue import Backlog
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, UsageError
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.version import Versions
from harness.lab.claim import CLAIMS, Claim, Expectation, Outcome, find_claim
from harness.lab.claim_run import ClaimRun
from harness.lab.expectations import keeps_all, loses
from harness.run.runner import Runner
from tests.unit.lab_fixture import WITNESSED, batch, lost, recorded_run

PUBLISHED = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.1", "4.3.1")


def made(name: str) -> Claim:
    return CLAIMS[name]()


def test_numbers_are_names_so_none_is_given_twice() -> None:
    numbers = [make().number for make in CLAIMS.values()]

    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("name", list(CLAIMS))
def test_a_claim_is_a_sentence_with_its_source_in_a_file_of_its_name(name: str) -> None:
    claim = made(name)

    assert claim.sentence.endswith(".")
    assert claim.source
    assert CLAIMS[name].__module__ == f"harness.claims.{name.translate(str.maketrans('-.', '__'))}"
    assert importlib.import_module(CLAIMS[name].__module__).__doc__


@pytest.mark.parametrize("name", list(CLAIMS))
def test_a_claim_can_be_run_on_every_version_that_it_speaks_of(name: str) -> None:
    claim = made(name)
    spoken_of = [kafka for kafka in PUBLISHED if claim.expectation(kafka)]

    assert spoken_of
    for kafka in spoken_of:
        run = ClaimRun(name=name, claim=claim, kafka=kafka)
        (topic,) = run.topics()
        assert topic.name == name
        assert run.cluster.brokers >= max(map(max, claim.assignment))
        assert run.contract.idempotent is False or Versions(since="0.11").__contains__(kafka)
        assert json.loads(run.plan_json(1))["claim"]["expected"]


def test_a_claim_is_found_by_name_and_by_number() -> None:
    assert find_claim("18")[0] == "acks1-loss-on-leader-kill"
    assert find_claim("acks1-loss-on-leader-kill")[1].number == 18
    with pytest.raises(UsageError, match="no claim number 999"):
        find_claim("999")
    with pytest.raises(UsageError, match="Did you mean 'acks1-loss-on-leader-kill'"):
        find_claim("acks1-loss-on-leader-kil")


def test_replicas_that_are_not_there_are_refused() -> None:
    with pytest.raises(UsageError, match="not all among"):
        simple(assignment=((1, 2, 4),))
    with pytest.raises(UsageError, match="are not the 3"):
        simple(assignment=((1, 2),))


# -- from a run to an outcome ----------------------------------------------------------------------


def simple(**changes: Any) -> Claim:
    given: dict[str, Any] = {
        "number": 900,
        "sentence": "Nothing is lost.",
        "source": "a test",
        "contract": Contract(min_isr=1),
        "script": lambda _: None,
        "expects": (
            Expectation(
                versions=Versions(since="0.11", before="4.0"), words="loses it", test=loses("x")
            ),
            Expectation(versions=Versions(since="4.0"), words="keeps it", test=keeps_all()),
        ),
    }
    return Claim(**given | changes)


def judged(folder: Path, **what: Any) -> Trial:
    recorded_run(folder, **{"lines": [batch("x", 0, 10)], **what})
    return judge_claim(RunDir(folder), simple(), "simple", seconds=1.0)


def test_each_version_has_its_own_expectation(tmp_path: Path) -> None:
    gone = lost(range(10))

    assert judged(tmp_path / "a", kafka="4.3.1").outcome is Outcome.CONFIRMED
    assert judged(tmp_path / "b", kafka="4.3.1", anomalies=gone).outcome is Outcome.REFUTED
    assert judged(tmp_path / "c", kafka="3.9.1", anomalies=gone).outcome is Outcome.CONFIRMED
    assert judged(tmp_path / "d", kafka="3.9.1").outcome is Outcome.REFUTED
    silent = judged(tmp_path / "e", kafka="0.10.2.2")
    assert silent.outcome is Outcome.UNKNOWN
    assert silent.expected is None


def test_a_precondition_that_was_not_met_is_never_a_pass(tmp_path: Path) -> None:
    lines = [batch("x", 0, 10), {"event": "unmet", "what": "the ISR was {A}"}]
    trial = judged(tmp_path, lines=lines)

    assert trial.outcome is Outcome.UNKNOWN
    assert trial.words == "A precondition was not met: the ISR was {A}."


def test_a_fault_without_a_witness_is_never_a_pass(tmp_path: Path) -> None:
    unseen = {**WITNESSED, "evidence": {"inject": {"observed": False}}}

    trial = judged(tmp_path, faults=[unseen])

    assert trial.outcome is Outcome.UNKNOWN
    assert "broker_kill, has no witness" in trial.words


def test_a_run_that_did_not_end_is_never_a_pass(tmp_path: Path) -> None:
    trial = judged(tmp_path, state="aborted", reasons=["The run was interrupted."])

    assert trial.outcome is Outcome.UNKNOWN


def test_the_outcome_lies_in_the_folder_and_reads_back_the_same(tmp_path: Path) -> None:
    trial = judged(tmp_path)

    document = json.loads((tmp_path / "claim.json").read_text())
    assert Trial.read(document) == trial
    assert document["outcome"] == "CONFIRMED"


# -- the matrix ------------------------------------------------------------------------------------


def trial_of(cell: ClaimRun, outcome: Outcome = Outcome.CONFIRMED) -> Trial:
    expectation = cell.claim.expectation(cell.kafka)
    return Trial(
        claim=cell.name, number=cell.claim.number, sentence=cell.claim.sentence, source="a test",
        kafka=cell.kafka, metadata="kraft", expected=expectation.words if expectation else None,
        outcome=outcome, words="Seen.", run=f"run-{cell.name}-{cell.kafka}",
        started_utc="2026-11-21T10:00:00Z", seconds=2.0,
    )  # fmt: skip


class JudgedAtOnce:
    """A backlog that has judged every run as soon as it is told of it."""

    outcome = Outcome.CONFIRMED

    def __init__(self, master: str | None) -> None:
        assert master is None
        self._trials: list[Trial] = []

    def add(self, cell: ClaimRun, run_dir: RunDir, *, seconds: float) -> None:
        assert seconds >= 0
        self._trials.append(replace(trial_of(cell, self.outcome), run=run_dir.name))

    def finished(self, *, wait: bool = False) -> Iterator[Trial]:
        del wait
        while self._trials:
            yield self._trials.pop(0)

    def close(self) -> None:
        assert not self._trials


def run_of(runner: Runner) -> RunDir:
    cell = runner.run
    assert isinstance(cell, ClaimRun)
    return RunDir(runner.store / f"run-{cell.name}-{cell.kafka}")


def test_a_matrix_goes_on_where_it_was_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    progress, stop = Progress(), threading.Event()

    def run(runner: Runner) -> RunDir:
        tried.append(runner.run.cluster.kafka)
        if len(tried) == 2:
            stop.set()  # Ctrl-C in the middle of a run
        return run_of(runner)

    monkeypatch.setattr("harness.campaigns.claims.run_experiment", run)
    monkeypatch.setattr("harness.campaigns.claims.Backlog", JudgedAtOnce)
    matrix = Matrix(
        claims={"simple": simple()}, versions=("4.3.1", "3.9.1", "0.11.0.3"), store=tmp_path
    )

    first = run_matrix(matrix, resume=False, progress=progress, stop=stop)
    stop.clear()
    again = run_matrix(matrix, resume=True, progress=progress, stop=stop)

    assert tried == ["0.11.0.3", "3.9.1", "3.9.1", "4.3.1"]
    assert (len(first.trials), first.exit_code) == (1, 3)
    assert (len(again.trials), again.exit_code) == (3, 0)
    assert first.folder == again.folder
    page = (again.folder / "matrix.html").read_text()
    assert page.count("CONFIRMED</b>") == 3
    assert '<a href="../run-simple-4.3.1/report.html">' in page
    assert "| 900 | `simple` |" in (again.folder / "matrix.md").read_text()


def test_a_cluster_that_does_not_start_costs_one_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(runner: Runner) -> RunDir:
        if runner.run.cluster.kafka == "3.9.1":
            raise ClusterBroken("Broker 2 did not register.")
        return run_of(runner)

    monkeypatch.setattr("harness.campaigns.claims.run_experiment", run)
    monkeypatch.setattr("harness.campaigns.claims.Backlog", JudgedAtOnce)
    monkeypatch.setattr(JudgedAtOnce, "outcome", Outcome.REFUTED)
    matrix = Matrix(claims={"simple": simple()}, versions=("3.9.1", "4.3.1"), store=tmp_path)

    tally = run_matrix(matrix, resume=False, progress=Progress(), stop=threading.Event())

    assert [trial.outcome for trial in tally.trials] == [Outcome.UNKNOWN, Outcome.REFUTED]
    assert tally.exit_code == 1
    assert "Broker 2 did not register" in tally.trials[0].words


def test_a_run_that_cannot_be_judged_costs_one_cell_and_keeps_its_place(tmp_path: Path) -> None:
    backlog = Backlog()
    try:
        for kafka in ("3.9.1", "4.3.1"):
            cell = ClaimRun(name="acks0-loss", claim=simple(), kafka=kafka)
            backlog.add(cell, RunDir(tmp_path / kafka), seconds=7.0)
        trials = list(backlog.finished(wait=True))
    finally:
        backlog.close()

    assert [(trial.kafka, trial.outcome) for trial in trials] == [
        ("3.9.1", Outcome.UNKNOWN),
        ("4.3.1", Outcome.UNKNOWN),
    ]
    assert "could not be judged: There is no run folder" in trials[0].words
    assert trials[0].seconds == 7.0


def test_a_matrix_without_cells_or_without_a_beginning_is_refused(tmp_path: Path) -> None:
    stop = threading.Event()
    nothing = Matrix(claims={"simple": simple()}, versions=("0.10.2.2",), store=tmp_path)
    with pytest.raises(UsageError, match=r"None of these claims speaks of Kafka 0\.10\.2\.2"):
        run_matrix(nothing, resume=False, progress=Progress(), stop=stop)
    some = Matrix(claims={"simple": simple()}, versions=("4.3.1",), store=tmp_path)
    with pytest.raises(UsageError, match="leave out --resume"):
        run_matrix(some, resume=True, progress=Progress(), stop=stop)
