"""The matrix of contracts: what is run, what is left out, and the table that it ends in."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.campaigns.campaign import Session, Unmade
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.contracts import Choice, ContractMatrix, combine, run_contracts, settings_of
from harness.campaigns.scenario_result import AnomalyCount, ScenarioResult, scenario_cell
from harness.cli.main import app
from harness.core.contract import Contract
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.fault import fault_traits
from harness.core.scenario import SCENARIOS, Scenario
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from harness.run.scenario_run import ScenarioRun
from harness.scenarios.weak_spots import provoked
from tests.unit.campaign_fixture import Machine, machine, report
from verifiers.oracle.circumstances import Circumstances
from verifiers.oracle.table import rule
from verifiers.run_folder.result import Report

__all__ = ["machine"]


def scenario_of(
    choice: Choice | None = None, *, scenario: str = "weak_spots", client: str | None = None
) -> Scenario:
    given = dict(choice or {})
    overrides = Overrides(
        cluster={"kafka": given.pop("kafka", None)}, contract=given, client=client
    )
    return configure(scenario, overrides)


def run_matrix(
    session: Session,
    *,
    scenario: str = "weak_spots",
    client: str | None = None,
    **dimensions: list[Any],
) -> ContractMatrix:
    scenarios, left_out = combine(
        dimensions, lambda choice: scenario_of(choice, scenario=scenario, client=client), seed=1
    )
    return run_contracts(scenarios, left_out, session, seed=1)[1]


# -- what is run -----------------------------------------------------------------------------------


def test_the_product_is_run_and_what_cannot_be_is_named() -> None:
    dimensions: dict[str, list[Any]] = {
        "acks": ["0", "1", "all"],
        "min_isr": [1, 2],
        "idempotence": [True, False],
    }

    chosen, left_out = combine(dimensions, scenario_of, seed=1)

    assert len(chosen) == 8
    assert len(left_out) == 4
    assert "Idempotence needs acks=all" in left_out["acks=0, min_isr=1, idempotence=True"]
    contracts = [(c.contract.acks, c.contract.min_isr) for c in chosen]
    assert contracts[:3] == [("0", 1), ("0", 2), ("1", 1)]


def test_a_contract_that_defaults_make_the_same_is_run_once() -> None:
    chosen, left_out = combine({"acks": ["all"], "idempotence": [None, True]}, scenario_of, seed=1)

    assert len(chosen) == 1
    assert "the same contract" in left_out["acks=all, idempotence=True"]


def test_every_cell_gets_the_same_damage_byte_for_byte() -> None:
    for scenario in ("weak_spots", "mixed"):
        chosen, _ = combine(
            {"acks": ["0", "1", "all"], "min_isr": [1, 2], "kafka": ["4.3.1", "3.9.1"]},
            lambda choice: scenario_of(choice, scenario=scenario),  # noqa: B023 (called at once)
            seed=7,
        )
        assert len({ScenarioRun(each).plan_json(7) for each in chosen}) == 1


def test_a_contract_under_which_the_plan_would_be_another_is_left_out() -> None:
    # With one copy no follower can be hit, and this seed hits some.
    chosen, left_out = combine(
        {"replication_factor": [3, 1], "min_isr": [1]},
        lambda choice: scenario_of(choice, scenario="mixed"),
        seed=11,
    )

    assert [each.contract.replication_factor for each in chosen] == [3]
    assert "plan would be another" in left_out["replication_factor=1, min_isr=1"]


def test_a_matrix_of_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"None of these.*Idempotence needs acks=all"):
        combine({"acks": ["0", "1"], "idempotence": [True]}, scenario_of, seed=1)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("min_isr", [1, 2])
@pytest.mark.parametrize("idempotence", [True, False])
def test_what_the_damage_must_cause_is_what_the_contract_permits(
    acks: Any, min_isr: int, idempotence: bool
) -> None:
    try:
        contract = Contract(acks=acks, min_isr=min_isr, idempotence=idempotence)
    except UsageError:
        return
    steps = SCENARIOS["weak_spots"]().schedule.steps(0, 80)
    destroyed = any(fault_traits(step.fault).destroys_data for step in steps)
    at = Circumstances.planned(contract, "4.3.1", destroys=destroyed)

    for anomaly, kind in (("lost-write", "destroyed"), ("duplicate", "log")):
        permitted = rule(anomaly, kind, at).permitted
        # acks=0 waits for no answer, so that nothing is sent twice, though it may be.
        assert (anomaly in provoked(contract)) == permitted or (acks, kind) == ("0", "log")


# -- how it is run ---------------------------------------------------------------------------------


def test_each_contract_is_run_on_a_cluster_of_its_own_and_shown_in_the_table(
    machine: Machine, tmp_path: Path
) -> None:
    def lossy(runner: Runner) -> Report:
        if runner.run.contract.acks == "1":
            return report(runner, lost_write=(4112, True))
        return report(runner)

    machine.report = lossy

    matrix = run_matrix(Session(store=tmp_path), acks=["1", "all"])

    assert [runner.run.contract.acks for runner in machine.runners] == ["1", "all"]
    assert not any(runner.pool.keeps for runner in machine.runners)
    assert matrix.verdict is Verdict.VALID
    one, every = matrix.results
    assert one.headlines["lost"] == AnomalyCount(count=4112, permitted=True)
    assert every.headlines["lost"] == AnomalyCount(count=0, permitted=False)
    assert (one.unavailable_s, one.acked, one.proven) == (12.5, 1234, 1)
    (folder,) = tmp_path.glob("contracts-*")
    page = (folder / "matrix.html").read_text()
    assert "4,112" in page
    assert f'<a href="../{one.run}/report.html">' in page
    assert "| 1 | 2 | off | 4,112 permitted |" in (folder / "matrix.md").read_text()
    document = json.loads(json.dumps(matrix.document(folder)))
    assert [ScenarioResult.read(run) for run in document["runs"]] == [one, every]
    assert len(document["damage"]["steps"]) == 5


def test_the_verdict_is_the_worst_and_unknown_while_a_contract_has_none(
    machine: Machine, tmp_path: Path
) -> None:
    session = Session(store=tmp_path)
    machine.during = lambda runner: session.stop.set() if len(machine.runners) == 2 else None

    assert run_matrix(session, acks=["0", "1"]).verdict is Verdict.UNKNOWN

    machine.report = lambda runner: report(runner, Verdict.INVALID, duplicate=(2, False))
    session = Session(store=tmp_path, resume=True)
    matrix = run_matrix(session, acks=["0", "1"])
    assert matrix.verdict is Verdict.INVALID
    assert [result.settings["acks"] for result in matrix.results] == ["0", "1"]
    assert str(matrix.results[1].headlines["duplicated"]) == "2 FORBIDDEN"


@pytest.mark.parametrize(
    "other",
    [
        {"acks": ["0"]},
        {"acks": ["1"], "scenario": "mixed"},
        {"acks": ["1"], "client": "librdkafka:2.13.0"},
    ],
)
def test_another_matrix_is_not_gone_on_with(
    machine: Machine, tmp_path: Path, other: dict[str, Any]
) -> None:
    run_matrix(Session(store=tmp_path), acks=["1"])

    with pytest.raises(UsageError, match="leave out --resume"):
        run_matrix(Session(store=tmp_path, resume=True), **other)


def test_a_damaged_result_is_named() -> None:
    with pytest.raises(HistoryUnreadable, match="is no ScenarioResult"):
        ScenarioResult.read({"verdict": "VALID"})


# -- on paper --------------------------------------------------------------------------------------


def unmade(choice: Choice | None = None) -> ScenarioResult:
    """Return the result of a run that could not be made."""
    scenario = scenario_of(choice)
    cell = scenario_cell(
        scenario, settings=settings_of(scenario), title="", seed=1, shares_cluster=False
    )
    return cell.without_run(Unmade(reason="It did not start.", seconds=3.0))


def table_of(*results: ScenarioResult, left_out: dict[str, str] | None = None) -> ContractMatrix:
    damage = json.loads(ScenarioRun(scenario_of()).plan_json(1))
    return ContractMatrix(
        results=results, wanted=1, damage=damage, left_out=left_out or {}, runs="../"
    )


def test_a_run_that_could_not_be_made_is_unknown_and_says_what_would_be_permitted() -> None:
    result = unmade({"acks": "1"})

    assert result.verdict is Verdict.UNKNOWN
    assert str(result.headlines["lost"]) == "0, permitted"
    table = table_of(result)
    row = dict(zip(table.heads, table.cells(result), strict=True))
    assert row["longest time without ack"] == "never any"
    assert row["verdict"] == "? UNKNOWN"


def test_what_all_rows_share_has_no_column() -> None:
    assert list(table_of(unmade()).settings) == ["acks", "min_isr", "idempotence"]
    assert next(iter(table_of(unmade(), unmade({"kafka": "3.9.1"})).settings)) == "kafka"


def test_the_pages_show_the_damage_the_reasons_and_what_was_left_out(tmp_path: Path) -> None:
    found = {"phantom": AnomalyCount(count=1, permitted=False)}
    table = table_of(
        replace(unmade(), anomalies=found, run="a-run"), left_out={"acks=0": "It <cannot> be."}
    )

    table.write(tmp_path)

    html, markdown = ((tmp_path / f"matrix.{suffix}").read_text() for suffix in ("html", "md"))
    for page in (html, markdown):
        assert "partition(listener=replication) on leader_of(partition=0, topic=orders)" in page
        assert "power_loss on leader_of(partition=0, topic=orders) at 63 s for 6 s" in page
        assert "It did not start." in page
        assert "../a-run/report.html" in page
    assert "phantom ×1 FORBIDDEN" in html
    assert "It &lt;cannot&gt; be." in html
    assert "It <cannot> be." in markdown


def test_a_result_is_what_the_report_says(machine: Machine, tmp_path: Path) -> None:
    machine.report = lambda runner: replace(
        report(runner, Verdict.UNKNOWN, reasons=("Too little.",), destroys_data=False),
        liveness={"widest": None},
    )

    (result,) = run_matrix(Session(store=tmp_path), min_isr=[1]).results

    assert (result.unavailable_s, result.reasons, result.run) == (
        None, ("Too little.",), machine.made[0],
    )  # fmt: skip
    # Nothing was destroyed, so nothing excuses a loss.
    assert not result.headlines["lost"].permitted


# -- the command -----------------------------------------------------------------------------------


def invoke(monkeypatch: pytest.MonkeyPatch, machine: Machine, store: Path, *words: str) -> Any:
    machine.report = lambda runner: report(runner, Verdict.INVALID, lost_write=(1, False))
    monkeypatch.setattr("harness.machine.versions.reject_unknown_kafka", lambda version, say: None)
    return CliRunner().invoke(app, ["matrix", "--store", str(store), *words])


def test_the_command_runs_the_product_and_its_exit_code_is_the_worst(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, tmp_path: Path
) -> None:
    result = invoke(
        monkeypatch, machine, tmp_path, "--acks", "1,all", "--min-isr", "2", "--idempotence", "off",
        "--rate", "300", "--json",
    )  # fmt: skip

    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert [run["settings"]["acks"] for run in document["runs"]] == ["1", "all"]
    assert document["damage"]["scenario"] == "weak_spots"
    assert [runner.run.contract.acks for runner in machine.runners] == ["1", "all"]
    assert {runner.seed for runner in machine.runners} == {1}
    assert "1 FORBIDDEN" in result.stderr


def test_with_faults_of_ones_own_the_default_scenario_is_the_one_that_deals_them(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, tmp_path: Path
) -> None:
    invoke(
        monkeypatch,
        machine,
        tmp_path,
        "--acks",
        "all",
        "--faults",
        "broker_kill",
        "--kafka",
        "4.3.1,3.9.1",
    )

    assert {runner.run.name for runner in machine.runners} == {"mixed"}
    assert [runner.run.cluster.kafka for runner in machine.runners] == ["4.3.1"] * 4 + ["3.9.1"] * 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--acks", "2"], "acks='2': it should be '0', '1' or 'all'"),
        (["--min-isr", "two"], "min_isr='two': it should be a valid integer"),
        (["--idempotence", "maybe"], "idempotence='maybe': it should be a valid boolean"),
        (["--min-isr", "4"], "can never be met"),
        (["--acks", "0,1", "--idempotence", "on"], "Idempotence needs acks=all"),
        (["--duration", "20s"], "give a longer --duration"),
    ],
)
def test_a_matrix_that_cannot_be_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    tmp_path: Path,
    words: list[str],
    sentence: str,
) -> None:
    result = invoke(monkeypatch, machine, tmp_path, *words)

    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
    assert machine.runners == []
