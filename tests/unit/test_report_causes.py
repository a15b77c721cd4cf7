"""Why outcomes are unknown, as the report says it."""

from pathlib import Path

from tests.unit import report_fixture
from verifiers.report import sentences
from verifiers.report.page import render
from verifiers.report.record_reading import read_record


def told(folder: Path, metrics: object) -> list[str]:
    document = report_fixture.verdict_document(metrics=metrics)
    return sentences.unknown_causes(read_record(report_fixture.build(folder, verdict=document)))


def test_each_error_is_a_line_with_what_met_it(tmp_path: Path) -> None:
    found = [
        {"error": "_MSG_TIMED_OUT", "sends": 357, "txns": 1},
        {"error": None, "sends": 0, "txns": 2},
    ]
    metrics = {"info-txn-causes": {"distinct": 14, "causes": found}}

    assert told(tmp_path, metrics) == [
        "_MSG_TIMED_OUT: 357 sends, 1 transaction",
        "no error was recorded: 2 transactions",
        "12 more errors: see verdict.json",
    ]
    page = render(read_record(tmp_path))
    assert "<h2>Why outcomes are unknown</h2>" in page
    assert "<li>_MSG_TIMED_OUT: 357 sends, 1 transaction</li>" in page


def test_a_run_without_unknown_outcomes_says_nothing_of_them(tmp_path: Path) -> None:
    assert told(tmp_path / "none", {"info-txn-causes": {"distinct": 0, "causes": []}}) == []
    assert told(tmp_path / "old", {}) == []
    assert told(tmp_path / "odd", {"info-txn-causes": {"causes": ["x", {"error": 3}]}}) != []
    assert "Why outcomes are unknown" not in render(read_record(tmp_path / "none"))
