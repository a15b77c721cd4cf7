"""The verdict on liveness, and how fast the cluster was, in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.configure import Overrides, configure
from harness.core.errors import UsageError
from harness.run.scenario_run import ScenarioRun
from tests.unit import report_fixture as fixture
from verifiers.judging.judgement import judge_liveness
from verifiers.report import sentences, write_report
from verifiers.report.record_reading import read_record

WIDEST = {"topic": "orders", "partition": 0, "gap_s": 9.6, "from_s": 36.9}


def judged(
    *, bound_s: float | None = 30.0, judged_s: float = 50.0, found: int = 0
) -> Mapping[str, Any]:
    meta = {"available_within_s": bound_s}
    counts: dict[tuple[str, str | None], int] = {("unavailable", None): found} if found else {}
    return judge_liveness(meta, {"judged_s": {"demands": judged_s}}, counts, WIDEST)


def test_liveness_has_a_verdict_of_its_own() -> None:
    assert judged() == {"verdict": "VALID", "bound_s": 30.0, "judged_s": 50.0, "widest": WIDEST}
    assert judged(found=2)["verdict"] == "INVALID"


def test_liveness_that_nobody_asked_for_or_could_judge_is_unknown() -> None:
    assert judged(bound_s=None, judged_s=0)["verdict"] == "UNKNOWN"
    assert judged(judged_s=12)["verdict"] == "UNKNOWN"


def test_a_bound_is_written_into_the_run() -> None:
    scenario = configure("mixed", Overrides(available_within_s=12.5))

    assert ScenarioRun(scenario).described()["available_within_s"] == 12.5
    assert ScenarioRun(configure("mixed", Overrides())).described()["available_within_s"] is None


def test_a_bound_of_no_time_is_refused() -> None:
    with pytest.raises(UsageError, match="choose more than 0"):
        configure("mixed", Overrides(available_within_s=-1))


def run_of(tmp_path: Path, **told: Any) -> Path:
    return fixture.build(tmp_path, verdict=fixture.verdict_document(**told))


def test_the_report_says_how_fast_the_cluster_was(tmp_path: Path) -> None:
    times = {"shrink_s": 11.372, "elect_s": 2.5, "recover_s": None}
    controllers = [{"node": 1, "at_utc": "2026-11-21 18:06:14.227", "epoch": 2}]
    run = run_of(
        tmp_path,
        timeline={"faults": {"1": times}, "controllers": controllers},
        liveness={"verdict": "VALID", "bound_s": 30.0, "judged_s": 50.0, "widest": WIDEST},
    )

    told = [line.replace("\u202f", " ") for line in sentences.pace(read_record(run))]
    live, fault, controller = told

    assert live.startswith("liveness VALID: an acknowledgement within 30.0 s was asked for")
    assert "it had left the ISRs after 11.4 s, others led what it had led after 2.5" in fault
    assert controller.endswith("node 1 at 2026-11-21 18:06:14.227.")
    summary = write_report(run)
    assert "How fast it came to terms" in (run / "report.html").read_text("utf-8")
    assert any("liveness VALID" in line for line in summary)


def test_a_run_of_which_nothing_is_known_says_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path)

    assert sentences.pace(read_record(run)) == []
    write_report(run)
    assert "How fast it came to terms" not in (run / "report.html").read_text("utf-8")
