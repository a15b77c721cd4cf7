"""nights.jsonl: every run of every night, one line each, whatever was killed meanwhile."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import Session
from harness.campaigns.measured import FaultCounts
from harness.campaigns.night_log import CONTROL, NIGHTS, NightLog, NightRun, read_nights
from harness.campaigns.nights import Night, NightSummary, spend_night
from harness.core.errors import ClusterBroken
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine, report
from verifiers.run_folder.result import JudgedFault, Report

__all__ = ["machine"]


def lines(store: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (store / NIGHTS).read_text().splitlines()]


def spend(machine: Machine, store: Path, runs: int, *, resume: bool = False) -> NightSummary:
    """Spend a night of so many runs."""
    session = Session(store=store, resume=resume)
    first = len(machine.runners)

    def during(_: Runner) -> None:
        if len(machine.runners) - first > runs:
            session.stop.set()

    machine.during = during
    return spend_night(Night(seed=7), session)


def test_each_run_of_a_night_has_a_line_that_tells_all_that_tools_need(
    machine: Machine, tmp_path: Path
) -> None:
    machine.report = lambda runner: report(runner, Verdict.INVALID, duplicate=(3, False))

    spend(machine, tmp_path, 2)

    control, second = lines(tmp_path)
    (night,) = tmp_path.glob("*-nightly-7")
    assert (control["scenario"], control["control"]) == (CONTROL, True)
    assert (second["scenario"], second["control"]) == ("mixed", False)
    assert second["night"] == night.name
    assert second["run"] == machine.made[1]
    assert second["report"] == f"{second['run']}/report.html"
    assert (second["workload"], second["contract"]["acks"]) == ("send_poll", "all")
    assert second["anomalies"] == {"duplicate": {"count": 3, "permitted": False}}
    assert second["measured"]["faults"] == {"power_loss": {"planned": 1, "proven": 1, "felt": 0}}
    (found,) = second["fingerprints"]
    assert found["id"].startswith("duplicate-")
    assert control["fingerprints"][0]["id"].startswith("control-duplicate-")


def test_a_line_is_read_as_it_was_written(machine: Machine, tmp_path: Path) -> None:
    machine.report = lambda runner: report(runner, Verdict.INVALID, duplicate=(3, False))

    summary = spend(machine, tmp_path, 2)

    assert [run.result for run in read_nights(tmp_path)] == list(summary.results)


def test_a_night_that_goes_on_writes_no_line_twice_and_none_too_few(
    machine: Machine, tmp_path: Path
) -> None:
    spend(machine, tmp_path, 2)
    first, second = (tmp_path / NIGHTS).read_text().splitlines(keepends=True)
    # Killed between the result and its line, and in the middle of that.
    (tmp_path / NIGHTS).write_text(first + second[:40])

    spend(machine, tmp_path, 2, resume=True)

    assert [line["run"] for line in lines(tmp_path)] == machine.made
    assert len(machine.made) == 4


def test_a_run_that_could_not_be_made_has_a_line_without_a_folder(
    machine: Machine, tmp_path: Path
) -> None:
    def fails(runner: Runner) -> None:
        runner.stop.set()
        raise ClusterBroken("no port is free")

    machine.during = fails

    spend_night(Night(seed=7), Session(store=tmp_path))
    spend_night(Night(seed=7), Session(store=tmp_path, resume=True))

    (line,) = lines(tmp_path)
    assert (line["run"], line["report"], line["verdict"]) == ("", None, "UNKNOWN")
    assert "no port is free" in line["reasons"][0]


def test_lines_of_several_nights_lie_in_one_file(machine: Machine, tmp_path: Path) -> None:
    (result,) = spend(machine, tmp_path, 1).results
    for night in ("20260101T000000-nightly-1", "20260102T000000-nightly-1"):
        log = NightLog(tmp_path, night)
        log.add([result, result])
        log.close()

    assert [run.night[:8] for run in read_nights(tmp_path)][1:] == ["20260101", "20260102"]


def test_a_half_line_longer_than_what_is_read_at_once_is_taken_away(tmp_path: Path) -> None:
    for before in ("", '{"verdict": "VALID", "settings": {}, "reasons": []}\n'):
        (tmp_path / NIGHTS).write_text(before + "x" * 200_000)

        NightLog(tmp_path, "n").close()

        assert (tmp_path / NIGHTS).read_text() == before


# -- what was measured -----------------------------------------------------------------------------


def _measured(runner: Runner) -> Report:
    made = report(runner)
    (fault,) = made.faults

    def hit(
        fault_id: str, from_s: float, to_s: float | None, *, proven: bool = True, felt: str = ""
    ) -> JudgedFault:
        return replace(
            fault, id=fault_id, injected_at_s=from_s, healed_at_s=to_s, proven=proven, felt=felt
        )

    return replace(
        made,
        faults=(
            hit("1", 3, 9, felt="felt"),
            hit("2", 7, 12, felt="unfelt"),
            hit("3", 20, 25),
            hit("4", 30, 60, proven=False),
        ),
        timing_s={"start": 8.0, "steady": 2.0, "faults": 40.0, "verify": 9.0},
        timeline={
            "faults": {
                "1": {"recover_s": 4.0, "elect_s": 1.5, "shrink_s": 3.5},
                "2": {"recover_s": None},
            }
        },
    )


def test_time_under_two_faults_counts_once_and_an_unproven_fault_not_at_all(
    machine: Machine, tmp_path: Path
) -> None:
    machine.report = _measured

    (result,) = spend(machine, tmp_path, 1).results

    measured = result.measured
    assert measured.under_fault_s == 9 + 5
    assert measured.load_s == 42.0
    assert measured.recoveries_s == (4.0,)
    assert measured.elections_s == (1.5,)
    assert measured.shrinks_s == (3.5,)
    assert measured.faults == {"power_loss": FaultCounts(planned=4, proven=3, felt=1)}


def test_the_share_of_a_run_is_of_the_time_that_it_took_without_its_verification(
    machine: Machine, tmp_path: Path
) -> None:
    machine.report = _measured
    (result,) = spend(machine, tmp_path, 1).results
    run = NightRun(night="n", result=replace(result, measured=replace(result.measured, made_s=56)))

    assert run.document()["under_fault_share"] == 0.25


def test_a_night_says_for_how_much_of_its_time_faults_were_in_force(
    machine: Machine, tmp_path: Path
) -> None:
    machine.report = _measured
    (result,) = spend(machine, tmp_path, 1).results
    earlier = replace(result, run="before")

    night = NightSummary(
        seed=7, budget_s=60, results=[earlier, result], elapsed_s=28.0,
        earlier=frozenset({"before"}),
    )  # fmt: skip

    assert "150% of the time under load, 50% under fault" in night.lines()[0]
    document = night.document()
    assert (document["under_load_share"], document["under_fault_share"]) == (1.5, 0.5)


@pytest.mark.parametrize("key", ["versions", "phases"])
def test_a_run_json_without_a_part_is_measured_all_the_same(
    machine: Machine, tmp_path: Path, key: str
) -> None:
    (result,) = spend(machine, tmp_path, 1).results

    assert key not in RunDir.open(tmp_path / result.run).meta()
    assert (result.measured.versions, result.measured.made_s) == ({}, 0.0)
