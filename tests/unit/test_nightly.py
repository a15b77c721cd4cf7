"""A night: the control always, every contract, and the worst verdict at the end."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from harness.campaigns.campaign import Session
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.night_log import CONTROL
from harness.campaigns.nights import Night, NightSummary, spend_night
from harness.campaigns.scenario_result import AnomalyCount, ScenarioResult
from harness.cluster import cleanup
from harness.core.errors import ClusterBroken, EnvironmentBroken, KafkaChaosError, UsageError
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun, settings_of
from tests.unit.campaign_fixture import Machine, machine, report
from verifiers.run_folder.result import Report
from verifiers.situations.situation import SITUATIONS

__all__ = ["machine"]


def drawn(night: Night, count: int) -> list[dict[str, Any]]:
    """Return the settings of a night's first cells."""
    return [dict(cell.settings) for cell in islice(night.cells(), count)]


def result(scenario: str, verdict: Verdict, **anomalies: int) -> ScenarioResult:
    settings = {"scenario": scenario, "acks": "1", "min_isr": 2, "seed": 3, "workload": None}
    return ScenarioResult(
        settings=settings, verdict=verdict,
        reasons=() if verdict is Verdict.VALID else ("because",),
        anomalies={
            name: AnomalyCount(count=count, permitted=True) for name, count in anomalies.items()
        },
        run="20261121T000000-x-3", seconds=61.2,
    )  # fmt: skip


def ends_after(count: int, machine: Machine, session: Session) -> Session:
    """Interrupt a night in the middle of the run after so many."""

    def during(_: Runner) -> None:
        if len(machine.runners) > count:
            session.stop.set()

    machine.during = during
    return session


# -- what is run -----------------------------------------------------------------------------------


def test_the_control_comes_first_and_every_contract_follows() -> None:
    first, *rest = drawn(Night(seed=7), 13)

    assert (first["scenario"], first["acks"]) == (CONTROL, "1")
    contracts = {(cell["acks"], cell["min_isr"]) for cell in rest[:6]}
    assert contracts == {(a, m) for a in ("0", "1", "all") for m in (1, 2)}
    assert len({cell["seed"] for cell in rest}) == 12, "every run has a seed of its own"


def test_one_seed_gives_one_night() -> None:
    assert drawn(Night(seed=7), 20) == drawn(Night(seed=7), 20)
    assert drawn(Night(seed=7), 20) != drawn(Night(seed=8), 20)


def test_a_night_of_transactions_leaves_out_the_contracts_without_idempotence() -> None:
    first, *rest = drawn(Night(seed=7, workload="transactional"), 5)

    assert (first["scenario"], first["workload"]) == (CONTROL, None)
    assert {(cell["acks"], cell["min_isr"]) for cell in rest} == {("all", 1), ("all", 2)}
    assert {cell["workload"] for cell in rest} == {"transactional"}


def test_a_night_whose_workload_cannot_be_run_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"0\.11 was the first"):
        spend_night(
            Night(seed=7, workload="transactional", kafka="0.10.2.2"), Session(store=tmp_path)
        )
    assert not any(tmp_path.iterdir())


def test_runs_share_a_cluster_each_with_a_topic_that_its_faults_are_about(
    machine: Machine, tmp_path: Path
) -> None:
    session = ends_after(3, machine, Session(store=tmp_path))

    spend_night(Night(seed=7), session)

    runs = [runner.run for runner in machine.runners]
    assert [topic.name for run in runs for topic in run.topics()] == [
        "run-1", "run-2", "run-3", "run-4",
    ]  # fmt: skip
    assert len({id(runner.pool) for runner in machine.runners}) == 1
    # The control has a cluster of its own kind.
    assert len({run.cluster for run in runs[1:]}) == 1
    assert '"run-2"' in runs[1].plan_json(1)
    assert '"orders"' not in runs[0].plan_json(1) + runs[1].plan_json(1)


def test_a_run_of_a_night_is_repeated_from_the_settings_in_its_folder() -> None:
    for cell in islice(Night(seed=7).cells(), 2):
        assert isinstance(cell.run, ScenarioRun)
        settings = json.loads(json.dumps(settings_of(cell.run.scenario)))

        again = configure(cell.run.name, Overrides(**settings))

        assert ScenarioRun(again).plan_json(cell.seed) == cell.run.plan_json(cell.seed)


# -- going on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [7, None])
def test_a_killed_night_goes_on_in_its_folder_with_its_seeds(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    cleaned: list[str] = []
    monkeypatch.setattr(cleanup, "clean", lambda *, owner, say: cleaned.append(owner))
    spend_night(Night(seed=7), ends_after(2, machine, Session(store=tmp_path)))
    (folder,) = tmp_path.glob("*-nightly-7")
    (folder / "owner").write_text("999999999@1")
    session = ends_after(4, machine, Session(store=tmp_path, resume=True, budget_s=60))

    summary = spend_night(Night(seed=seed), session)

    first, second, third, fourth = (cell["seed"] for cell in drawn(Night(seed=7), 4))
    # The third was cut short, so it is run again; the fourth is cut short this time.
    assert [r.seed for r in machine.runners] == [first, second, third, third, fourth]
    assert [r.settings["seed"] for r in summary.results] == [first, second, third]
    assert cleaned == ["999999999@1"]
    assert json.loads((folder / "summary.json").read_text())["seed"] == 7


def test_a_night_of_another_kind_is_not_gone_on_with(machine: Machine, tmp_path: Path) -> None:
    spend_night(Night(seed=7), ends_after(1, machine, Session(store=tmp_path)))

    for other in (Night(seed=8), Night(kafka="3.9.1"), Night(duration_s=30.0)):
        with pytest.raises(UsageError, match="leave out --resume"):
            spend_night(other, Session(store=tmp_path, resume=True))


# -- the summary -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([(CONTROL, Verdict.VALID), ("mixed", Verdict.VALID)], Verdict.VALID),
        ([(CONTROL, Verdict.VALID), ("mixed", Verdict.UNKNOWN)], Verdict.UNKNOWN),
        ([(CONTROL, Verdict.VALID), ("mixed", Verdict.INVALID)], Verdict.INVALID),
        ([(CONTROL, Verdict.UNKNOWN), ("mixed", Verdict.VALID)], Verdict.UNKNOWN),
        ([("mixed", Verdict.VALID)], Verdict.UNKNOWN),
        ([], Verdict.UNKNOWN),
    ],
)
def test_a_night_is_as_good_as_its_worst_run_and_its_control(
    runs: list[tuple[str, Verdict]], verdict: Verdict
) -> None:
    results = [result(name, each) for name, each in runs]

    assert NightSummary(seed=7, budget_s=60, results=results).verdict is verdict


def test_each_version_needs_a_control_of_its_own() -> None:
    control, other = result(CONTROL, Verdict.VALID), result("mixed", Verdict.VALID)
    results = [replace(each, kafka=kafka) for each in (control, other) for kafka in ("3.9", "4.3")]

    def verdict(*kept: ScenarioResult) -> Verdict:
        return NightSummary(seed=7, budget_s=60, results=kept).verdict

    assert verdict(*results) is Verdict.VALID
    assert verdict(*results[1:]) is Verdict.UNKNOWN


def test_the_summary_says_the_same_in_every_form(tmp_path: Path) -> None:
    results = [
        result(CONTROL, Verdict.VALID, **{"lost-write": 12}),
        result("mixed", Verdict.UNKNOWN),
        result("mixed", Verdict.INVALID),
    ]
    summary = NightSummary(seed=7, budget_s=60, results=results)

    summary.write(tmp_path)

    junit = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    document = json.loads((tmp_path / "summary.json").read_text())
    assert document["verdict"] == "INVALID"
    assert [run["verdict"] for run in document["runs"]] == ["VALID", "UNKNOWN", "INVALID"]
    assert document["runs"][0]["anomalies"] == {"lost-write": 12}
    markdown = (tmp_path / "summary.md").read_text()
    row = "acks=1 min.isr=2 seed=3 | 0 of 0 | lost-write ×12 | 20261121T000000-x-3 |"
    assert f"| VALID | {CONTROL} {row}" in markdown.splitlines()
    assert summary.lines()[0].startswith("INVALID  3 runs")
    # Both runs of the same settings are one case, as bad as the worse of them.
    assert (junit.tests, junit.failures, junit.errors) == (2, 1, 0)


def test_a_night_says_which_situations_were_reached_how_often_and_under_which_faults() -> None:
    lost, unclean = "leader-lost-by-crash", "unclean-election"
    runs = [
        replace(result("mixed", Verdict.VALID), situations={lost: count, unclean: 0},
                reached_under={lost: faults} if count else {})
        for count, faults in ((2, ("broker_kill",)), (1, ("power_loss",)), (0, ()))
    ]  # fmt: skip
    night = NightSummary(seed=7, budget_s=60, results=runs)

    assert night.situations[lost] == {
        "runs": 2, "count": 3, "faults": ["broker_kill", "power_loss"],
    }  # fmt: skip
    assert night.situations[unclean] == {"runs": 0, "count": 0, "faults": []}
    assert set(night.situations) == set(SITUATIONS)
    assert next(iter(night.situations)) == lost
    assert night.tally.endswith(f"1 of {len(SITUATIONS)} situations")
    assert night.document()["situations"] == night.situations


def test_what_is_found_in_a_run_stands_in_the_summary(machine: Machine, tmp_path: Path) -> None:
    machine.report = lambda runner: report(runner, lost_write=(12, True))

    summary = spend_night(Night(seed=7), ends_after(1, machine, Session(store=tmp_path)))

    (entry,) = summary.document()["runs"]
    assert (entry["scenario"], entry["anomalies"]) == (CONTROL, {"lost-write": 12})
    assert summary.verdict is Verdict.VALID


# -- what was found is run again -------------------------------------------------------------------


def again(machine: Machine) -> list[bool]:
    return ["again" in runner.run.topics()[0].name for runner in machine.runners]


def lose_once(machine: Machine, number: int) -> None:
    """Let a run lose what its contract forbids, and the second of its repetitions lose it again."""
    losing = {f"run-{number}", f"run-{number}-again-2"}

    def found(runner: Runner) -> Report:
        if runner.run.topics()[0].name in losing:
            return report(runner, Verdict.INVALID, lost_write=(3, False))
        return report(runner)

    machine.report = found


def test_a_run_that_found_something_is_run_again_before_the_night_goes_on(
    machine: Machine, tmp_path: Path
) -> None:
    lose_once(machine, 2)

    summary = spend_night(Night(seed=7), ends_after(7, machine, Session(store=tmp_path)))

    # It is judged behind the third run.
    assert again(machine) == [False, False, False, True, True, True, False, False]
    found, *repeated = (machine.runners[n] for n in (1, 3, 4, 5))
    assert {runner.seed for runner in repeated} == {found.seed}
    assert {runner.run.contract for runner in repeated} == {found.run.contract}
    assert any("again in 1 of 3 repetitions" in line for line in summary.told())
    titles = [line for line in summary.lines() if "again, 2 of 3" in line]
    assert len(titles) == 1


def test_what_is_known_is_not_run_again(machine: Machine, tmp_path: Path) -> None:
    lose_once(machine, 2)
    first = spend_night(Night(seed=7), ends_after(3, machine, Session(store=tmp_path / "a")))
    (fingerprint,) = {f for r in first.results for f in r.fingerprints}
    known = KnownFindings(entries=(Known(fingerprint=fingerprint.id, why="KAFKA-1"),))
    machine.runners.clear()

    spend_night(Night(seed=7), ends_after(4, machine, Session(store=tmp_path / "b")), known=known)

    assert again(machine) == [False] * 5


def test_a_night_that_goes_on_makes_the_repetitions_that_are_missing(
    machine: Machine, tmp_path: Path
) -> None:
    lose_once(machine, 2)
    spend_night(Night(seed=7), ends_after(4, machine, Session(store=tmp_path)))
    machine.runners.clear()

    spend_night(Night(seed=7), ends_after(3, machine, Session(store=tmp_path, resume=True)))

    names = [runner.run.topics()[0].name for runner in machine.runners]
    assert names[:3] == ["run-2-again-2", "run-2-again-3", "run-4"]


def test_a_control_is_not_run_again_for_what_it_must_lose(machine: Machine, tmp_path: Path) -> None:
    lose_once(machine, 1)

    spend_night(Night(seed=7), ends_after(3, machine, Session(store=tmp_path)))

    assert again(machine) == [False] * 4


# -- what this machine cannot run ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(EnvironmentBroken("no room"), Verdict.VALID), (ClusterBroken("mute"), Verdict.UNKNOWN)],
    ids=["for want of room on the disk", "a cluster that does not start"],
)
def test_what_the_machine_could_not_run_is_no_doubt_about_kafka(
    machine: Machine, tmp_path: Path, error: KafkaChaosError, verdict: Verdict
) -> None:
    session = ends_after(3, machine, Session(store=tmp_path))
    stops = machine.during

    def during(runner: Runner) -> None:
        stops(runner)
        if len(machine.runners) == 2:
            raise error

    machine.during = during

    summary = spend_night(Night(seed=7), session)

    by_machine = verdict is Verdict.VALID
    assert summary.verdict is verdict
    assert ("2 VALID, 0 UNKNOWN, 0 INVALID, 1 NOT RUN" in summary.tally) is by_machine
    assert any("not run, 1 time: " in line and "no room" in line for line in summary.told()) is (
        by_machine
    )
    suites = JUnitXml.fromfile(str(only(tmp_path) / "junit.xml"))
    ends = [type(end).__name__ for suite in suites for case in suite for end in case.result]
    assert ends == ["Skipped" if by_machine else "Error"]


def only(store: Path) -> Path:
    (folder,) = store.glob("*-nightly-7")
    return folder


def test_a_night_in_which_the_machine_could_run_nothing_is_unknown(
    machine: Machine, tmp_path: Path
) -> None:
    session = ends_after(2, machine, Session(store=tmp_path))
    stops = machine.during

    def during(runner: Runner) -> None:
        stops(runner)
        raise EnvironmentBroken("no engine")

    machine.during = during

    assert spend_night(Night(seed=7), session).verdict is Verdict.UNKNOWN
