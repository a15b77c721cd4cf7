"""What a contract neither permits nor forbids: it is found, and leaves the verdict UNKNOWN."""

import json
from pathlib import Path

import pytest

from harness.core.contract import Contract
from harness.core.verdict import Verdict
from tests.unit import report_fixture as fixture
from verifiers.checking.checker import CHECKERS, checker
from verifiers.checking.contracts import in_a_line
from verifiers.checking.execution import Found
from verifiers.judging.judgement import judge_findings, verdict_of, why_not_valid
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.row import Chapter, Reason, forbidden, permitted, undecided
from verifiers.report import write_report
from verifiers.report.record_reading import read_record
from verifiers.run_folder.folder import RunInput, read_run

KINDS = Chapter(
    anomaly="odd-client",
    means="A client is odd.",
    kinds=("harmless", "doubtful", "bad"),
    rows=(
        permitted(Reason("It may be.", "the tests"), "harmless", by="the contract"),
        undecided(Reason("Nobody can tell.", "the tests"), "doubtful"),
        forbidden(Reason("It must not be.", "the tests")),
    ),
)
DOUBTFUL = Chapter(
    anomaly="odd-client", means="It is odd.", rows=(undecided(Reason("Who knows.", "the tests")),)
)


@pytest.fixture(autouse=True)
def odd_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that some contract neither permits nor forbids; gone after the test."""
    CHECKERS.load()
    monkeypatch.setattr(CHECKERS, "_entries", dict(CHECKERS._entries))
    checker("odd-client", one="client is odd", many="clients are odd", chapter=KINDS)(
        lambda events: events
    )


@pytest.fixture
def run(tmp_path: Path) -> RunInput:
    """A run without anything."""
    contract = {"acks": "all", "min_isr": 2, "replication_factor": 3}
    meta = {"schema": 1, "run": "r", "origin_ns": 0, "kafka": "4.3.1", "contract": contract}
    (tmp_path / "run.json").write_text(json.dumps(meta), encoding="utf-8")
    return read_run(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "verdict", "why"),
    [
        (("harmless",), Verdict.VALID, "It may be"),
        (("harmless", "doubtful"), Verdict.UNKNOWN, "Nobody can tell"),
        (("harmless", "doubtful", "bad"), Verdict.INVALID, "It must not be"),
    ],
)
def test_the_worst_kind_decides(
    kinds: tuple[str, ...], verdict: Verdict, why: str, run: RunInput
) -> None:
    found = Found(counts={("odd-client", kind): 1 for kind in kinds}, examples={})

    findings = judge_findings(run, found)
    reasons = why_not_valid(run, findings, {}, {})
    told = [reason for reason in reasons if reason.startswith("odd-client")]

    assert findings["odd-client"].why == f"{why} (the tests)."
    assert verdict_of(findings, told) is verdict
    assert bool(told) is (verdict is not Verdict.VALID)


def test_what_leaves_a_verdict_unknown_is_said_in_one_line() -> None:
    assert in_a_line(DOUBTFUL) == "It is odd. No offence: it leaves the verdict UNKNOWN."
    ruling = DOUBTFUL.rule(None, Circumstances(contract=Contract(), kafka="4.3.1"))
    assert (ruling.permitted, ruling.undecided) == (False, True)


def test_a_report_calls_it_neither_permitted_nor_forbidden(tmp_path: Path) -> None:
    anomaly = fixture.lost_write(2) | {"undecided": True, "phrase": "clients are odd"}
    verdict = fixture.verdict_document("UNKNOWN", anomalies={"odd-client": anomaly})

    folder = fixture.build(tmp_path / "run", verdict=verdict)
    record = read_record(folder)

    assert record.ruled("forbidden") == []
    assert record.ruled("permitted") == []
    assert [name for name, _ in record.ruled("unknown")] == ["odd-client"]
    summary = write_report(folder)
    assert any("odd-client ×2  UNKNOWN: 2 clients are odd" in line for line in summary)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Neither permitted nor forbidden" in page
    assert '<span class="tag">unknown</span>' in page
