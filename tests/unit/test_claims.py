"""The catalogue of claims, and how a claim's run becomes an outcome."""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import Session, Unmade
from harness.campaigns.claim_result import ClaimResult, claim_result, merge_results, without_run
from harness.campaigns.claims import ClaimMatrix, run_claims
from harness.campaigns.conduct import RunResult
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, UsageError
from harness.core.run_dir import RunDir
from harness.core.version import Versions
from harness.lab.claim import CLAIMS, Claim, Expectation, find_claim
from harness.lab.claim_run import ClaimRun
from harness.lab.expectations import keeps_all, loses
from harness.lab.finding import Outcome
from harness.lab.variation import Variation
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine
from tests.unit.lab_fixture import WITNESSED, batch, lost, recorded_run
from verifiers.run_folder.result import read_verdict

__all__ = ["machine"]

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


def judged(folder: Path, **what: Any) -> ClaimResult:
    recorded_run(folder, **{"lines": [batch("x", 0, 10)], **what})
    result = RunResult(run_dir=RunDir(folder), report=read_verdict(RunDir(folder)))
    return claim_result(result, 1.0, name="simple", claim=simple())


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
    result = judged(tmp_path, lines=lines)

    assert result.outcome is Outcome.UNKNOWN
    assert result.words == "A precondition was not met: the ISR was {A}."


def test_a_fault_without_a_witness_is_never_a_pass(tmp_path: Path) -> None:
    unseen = {**WITNESSED, "evidence": {"inject": {"observed": False}}}

    result = judged(tmp_path, faults=[unseen])

    assert result.outcome is Outcome.UNKNOWN
    assert "broker_kill, has no witness" in result.words


def test_a_run_that_did_not_end_is_never_a_pass(tmp_path: Path) -> None:
    result = judged(tmp_path, state="aborted", reasons=["The run was interrupted."])

    assert result.outcome is Outcome.UNKNOWN


def test_the_outcome_lies_in_the_folder_and_reads_back_the_same(tmp_path: Path) -> None:
    result = judged(tmp_path)

    document = json.loads((tmp_path / "claim.json").read_text())
    assert ClaimResult.read(document) == result
    assert document["outcome"] == "CONFIRMED"


# -- the matrix ------------------------------------------------------------------------------------


@pytest.fixture
def judged_as(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> dict[str, Outcome]:
    """The outcomes of claims by version, CONFIRMED where there is none."""
    outcomes: dict[str, Outcome] = {}

    def claim_result(
        result: RunResult, seconds: float, *, name: str, variation: Variation
    ) -> ClaimResult:
        kafka = result.report.kafka
        run = ClaimRun(name=name, claim=simple(), kafka=kafka)
        concluded = without_run(run, Unmade(reason="Seen.", seconds=seconds))
        return replace(
            concluded, metadata="kraft", run=result.run_dir.name,
            outcome=outcomes.get(kafka, Outcome.CONFIRMED), started_utc="2026-11-21T10:00:00Z",
        )  # fmt: skip

    monkeypatch.setattr("harness.campaigns.claims.claim_result", claim_result)
    return outcomes


def test_each_claim_is_run_on_each_version_and_shown_in_the_page(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    versions = ("4.3.1", "3.9.1", "0.11.0.3", "0.10.2.2")

    folder, matrix = run_claims({"simple": simple()}, versions, Session(store=tmp_path))

    assert [r.run.cluster.kafka for r in machine.runners] == ["0.11.0.3", "3.9.1", "4.3.1"]
    assert all(runner.pool.keeps for runner in machine.runners)
    assert (len(matrix.results), matrix.exit_code) == (3, 0)
    assert matrix.document(folder)["outcomes"] == {"CONFIRMED": 3, "REFUTED": 0, "UNKNOWN": 0}
    page = (folder / "matrix.html").read_text()
    assert page.count("CONFIRMED</b>") == 3
    assert f'<a href="../{matrix.results[2].run}/report.html">' in page
    assert "| 900 | `simple` |" in (folder / "matrix.md").read_text()


def test_the_exit_code_says_what_was_refuted_and_what_is_not_known(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    def exit_code(name: str, **outcomes: Outcome) -> int:
        judged_as.update({f"{version[1:]}.9.1": each for version, each in outcomes.items()})
        session = Session(store=tmp_path / name)
        return run_claims({"simple": simple()}, ["3.9.1", "2.9.1"], session)[1].exit_code

    assert exit_code("a") == 0
    assert exit_code("b", v3=Outcome.UNKNOWN) == 3
    assert exit_code("c", v2=Outcome.REFUTED) == 1


def test_a_matrix_that_is_not_done_is_not_known(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    session = Session(store=tmp_path)
    machine.during = lambda _: session.stop.set()

    _, matrix = run_claims({"simple": simple()}, ["4.3.1"], session)

    assert (len(matrix.results), matrix.exit_code) == (0, 3)


def test_a_claim_whose_cluster_does_not_start_is_unknown_with_the_reason(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    def fail(_: Runner) -> None:
        raise ClusterBroken("Broker 2 did not register.")

    machine.during = fail

    folder, matrix = run_claims({"simple": simple()}, ["4.3.1"], Session(store=tmp_path))

    (result,) = matrix.results
    assert (result.outcome, result.expected) == (Outcome.UNKNOWN, "keeps it")
    assert result.words == "The run could not be made: Broker 2 did not register."
    assert "keeps it" in (folder / "matrix.html").read_text()


def test_a_claim_that_needs_a_fresh_cluster_gets_one(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    claims = {"simple": simple(needs_fresh_cluster=True)}

    run_claims(claims, ["4.3.1"], Session(store=tmp_path))

    assert not machine.runners[0].pool.keeps


def test_the_page_says_what_changed_between_versions_that_did_what_was_expected(
    machine: Machine, judged_as: dict[str, Outcome], tmp_path: Path
) -> None:
    def changes(name: str, **outcomes: Outcome) -> list[tuple[str, str, str | None, str | None]]:
        judged_as.clear()
        judged_as.update({f"{version[1:]}.9.1": each for version, each in outcomes.items()})
        session = Session(store=tmp_path / name)
        versions = ["4.9.1", "3.9.1", "2.9.1"]
        matrix = run_claims({"simple": simple()}, versions, session)[1]
        found = [(c.before, c.since, c.was.expected, c.now.expected) for c in matrix.changes]
        assert ("What changed" in matrix.markdown()) is bool(found)
        return found

    assert changes("a") == [("3.9.1 kraft", "4.9.1", "loses it", "keeps it")]
    assert changes("b", v3=Outcome.UNKNOWN) == [("2.9.1", "4.9.1", "loses it", "keeps it")]
    assert changes("c", v4=Outcome.REFUTED) == []


def test_the_page_goes_by_subject_and_leaves_no_claim_out() -> None:
    docs = Path(__file__).parents[2] / "docs"
    matrix = ClaimMatrix(merge_results(docs, docs / "claims.jsonl"))
    gone = replace(matrix.results[0], claim="a-claim-that-was-taken-out", number=9000)

    subjects = ClaimMatrix([*matrix.results, gone]).subjects

    assert list(subjects)[-1] == "something else"
    (row,) = subjects.pop("something else")
    assert [cell[-1].claim for cell in row.values()] == ["a-claim-that-was-taken-out"]
    assert len(subjects) == 7
    named = [next(iter(row.values()))[-1].claim for rows in subjects.values() for row in rows]
    assert sorted(named) == sorted(CLAIMS)


def test_a_matrix_without_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"None of these claims speaks of Kafka 0\.10\.2\.2"):
        run_claims({"simple": simple()}, ["0.10.2.2"], Session(store=tmp_path))


def test_the_page_of_the_catalogue_is_what_was_measured() -> None:
    docs = Path(__file__).parents[2] / "docs"

    results = merge_results(docs, docs / "claims.jsonl")

    assert ClaimMatrix(results).markdown() == (docs / "claims.md").read_text(encoding="utf-8")
