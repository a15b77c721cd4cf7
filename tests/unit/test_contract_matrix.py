"""The matrix of contracts: what is run, what is left out, and the table that it ends in."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.campaigns.conduct import RunResult
from harness.campaigns.configure import Overrides, configure
from harness.campaigns.contract_cell import Cell, Entry, Found, entry_of, failed_entry
from harness.campaigns.contract_page import About, cells, headers, html_page, markdown_page, varied
from harness.campaigns.contracts import Choice, Matrix, combine, run_matrix
from harness.cli.main import app
from harness.core.contract import Contract
from harness.core.errors import ClusterBroken, HealFailed, HistoryUnreadable, UsageError
from harness.core.fault import fault_traits
from harness.core.progress import Progress
from harness.core.run_dir import RunDir
from harness.core.scenario import SCENARIOS
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from harness.scenarios.weak_spots import provoked
from verifiers.oracle import Circumstances, rule

Conduct = Callable[..., RunResult]


def cell(choice: Choice | None = None, *, scenario: str = "weak_spots") -> Cell:
    given = dict(choice or {})
    overrides = Overrides(cluster={"kafka": given.pop("kafka", None)}, contract=given)
    return Cell(scenario=configure(scenario, overrides))


def matrix_of(store: Path, *, scenario: str = "weak_spots", **dimensions: list[Any]) -> Matrix:
    chosen, left_out = combine(dimensions, lambda c: cell(c, scenario=scenario), seed=1)
    return Matrix(cells=chosen, left_out=left_out, seed=1, store=store)


# -- what is run -----------------------------------------------------------------------------------


def test_the_product_is_run_and_what_cannot_be_is_named() -> None:
    dimensions: dict[str, list[Any]] = {
        "acks": ["0", "1", "all"],
        "min_isr": [1, 2],
        "idempotence": [True, False],
    }

    chosen, left_out = combine(dimensions, cell, seed=1)

    assert len(chosen) == 8
    assert len(left_out) == 4
    assert left_out[0].choice == "acks=0, min_isr=1, idempotence=True"
    assert "Idempotence needs acks=all" in left_out[0].why
    contracts = [(c.scenario.contract.acks, c.scenario.contract.min_isr) for c in chosen]
    assert contracts[:3] == [("0", 1), ("0", 2), ("1", 1)]


def test_a_contract_that_defaults_make_the_same_is_run_once() -> None:
    chosen, left_out = combine({"acks": ["all"], "idempotence": [None, True]}, cell, seed=1)

    assert len(chosen) == 1
    assert "the same contract" in left_out[0].why


def test_every_cell_gets_the_same_damage_byte_for_byte() -> None:
    for scenario in ("weak_spots", "mixed"):
        chosen, _ = combine(
            {"acks": ["0", "1", "all"], "min_isr": [1, 2], "kafka": ["4.3.1", "3.9.1"]},
            lambda choice: cell(choice, scenario=scenario),  # noqa: B023 (called at once)
            seed=7,
        )
        assert len({each.damage(7) for each in chosen}) == 1


def test_a_contract_under_which_the_plan_would_be_another_is_left_out() -> None:
    # With one copy no follower can be hit.
    chosen, left_out = combine(
        {"replication_factor": [3, 1], "min_isr": [1]},
        lambda choice: cell(choice, scenario="mixed"),
        seed=7,
    )

    assert [each.scenario.contract.replication_factor for each in chosen] == [3]
    assert "plan would be another" in left_out[0].why


def test_a_matrix_of_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"None of these.*Idempotence needs acks=all"):
        combine({"acks": ["0", "1"], "idempotence": [True]}, cell, seed=1)


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
    steps = SCENARIOS["weak_spots"]().schedule.steps(None, 80)  # type: ignore[arg-type]
    destroyed = any(fault_traits(step.fault).destroys_data for step in steps)
    at = Circumstances(contract=contract, kafka="4.3.1", destroyed=destroyed)

    for anomaly, kind in (("lost-write", None), ("duplicate", "log")):
        permitted = rule(anomaly, kind, at).permitted
        # acks=0 waits for no answer, so that nothing is sent twice, though it may be.
        assert (anomaly in provoked(contract)) == permitted or (acks, kind) == ("0", "log")


# -- how it is run ---------------------------------------------------------------------------------


def run_folder(runner: Runner, anomalies: Mapping[str, tuple[int, bool]]) -> RunDir:
    run_dir = RunDir.create(runner.store, scenario=runner.run.name, seed=runner.seed)
    found = {
        name: {"count": count, "permitted": permitted}
        for name, (count, permitted) in anomalies.items()
    }
    faults = [{"name": "power_loss", "injected_at_s": 3.0, "proven": True, "destroys_data": True}]
    run_dir.update(state="complete")
    verdict = {"anomalies": found, "faults": faults, "reasons": [], "counts": {"acked": 1234}}
    (run_dir.path / "verdict.json").write_text(json.dumps(verdict))
    lanes = {"partitions": [{"gap_s": 8.25}, {"gap_s": 12.5}]}
    (run_dir.path / "lanes.json").write_text(json.dumps(lanes))
    return run_dir


class Told:
    """A report of which only the verdict is asked."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


def outcome(
    runner: Runner, verdict: Verdict = Verdict.VALID, **anomalies: tuple[int, bool]
) -> RunResult:
    named = {name.replace("_", "-"): found for name, found in anomalies.items()}
    run_dir = run_folder(runner, named)
    return RunResult(run_dir=run_dir, report=Told(verdict))  # type: ignore[arg-type]


def stand_in(monkeypatch: pytest.MonkeyPatch, conduct: Conduct) -> None:
    """Let this make the runs, and their verdicts."""
    outcomes: dict[str, RunResult] = {}

    def run_experiment(runner: Runner) -> RunDir:
        made = conduct(runner, master=None)
        outcomes[made.run_dir.name] = made
        return made.run_dir

    def judge(run_dir: RunDir, *, master: str | None, progress: Progress) -> RunResult:
        return outcomes[run_dir.name]

    monkeypatch.setattr("harness.campaigns.contracts.run_experiment", run_experiment)
    monkeypatch.setattr("harness.campaigns.contracts.judge", judge)


@pytest.fixture
def conducted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Conduct], None]:
    return lambda conduct: stand_in(monkeypatch, conduct)


def test_each_cell_is_run_with_its_contract_and_told_in_the_table(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    seen: list[str] = []

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        del master
        acks = runner.run.contract.acks
        seen.append(acks)
        return outcome(runner, lost_write=(4112, True)) if acks == "1" else outcome(runner)

    conducted(conduct)
    tally = run_matrix(
        matrix_of(tmp_path, acks=["1", "all"]), resume=False, progress=Progress(),
        stop=threading.Event(),
    )  # fmt: skip

    assert seen == ["1", "all"]
    assert tally.verdict is Verdict.VALID
    one, every = tally.entries
    assert (one.headlines["lost"], every.headlines["lost"]) == (
        Found(count=4112, permitted=True), Found(count=0, permitted=False),
    )  # fmt: skip
    assert (one.unavailable_s, one.acked, one.proven) == (12.5, 1234, 1)
    page = (tally.folder / "matrix.html").read_text()
    assert "4,112" in page
    assert f'<a href="../{one.run}/report.html">' in page
    assert "| 1 | 2 | off | 4,112 permitted |" in (tally.folder / "matrix.md").read_text()
    document = json.loads(json.dumps(tally.document()))
    assert [Entry.read(run) for run in document["runs"]] == tally.entries
    assert len(document["damage"]["steps"]) == 5


def test_a_matrix_goes_on_where_it_was_left(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    seen: list[str] = []
    stop = threading.Event()

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        del master
        seen.append(runner.run.contract.acks)
        if len(seen) == 2:
            stop.set()  # Ctrl-C in the middle of a run
            cut_short = outcome(runner)
            cut_short.run_dir.update(state="aborted")
            return cut_short
        return outcome(runner)

    conducted(conduct)
    wanted = matrix_of(tmp_path, acks=["0", "1", "all"])
    first = run_matrix(wanted, resume=False, progress=Progress(), stop=stop)
    stop.clear()
    again = run_matrix(wanted, resume=True, progress=Progress(), stop=stop)

    assert seen == ["0", "1", "1", "all"]
    assert first.verdict is Verdict.UNKNOWN
    assert again.verdict is Verdict.VALID
    assert first.folder == again.folder
    assert [entry.settings["acks"] for entry in again.entries] == ["0", "1", "all"]


def test_a_run_that_only_had_to_be_verified_when_it_was_to_stop_counts(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    stop = threading.Event()

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        stop.set()
        return outcome(runner)

    conducted(conduct)
    tally = run_matrix(
        matrix_of(tmp_path, acks=["0", "1"]), resume=False, progress=Progress(), stop=stop
    )

    assert [entry.settings["acks"] for entry in tally.entries] == ["0"]


def test_a_run_that_was_made_and_not_verified_is_only_verified(
    tmp_path: Path, conducted: Callable[[Conduct], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        made = outcome(runner, lost_write=(3, True))
        runs.append(made.run_dir.name)
        return made

    conducted(conduct)
    with monkeypatch.context() as broken:
        broken.setattr(
            "harness.campaigns.contracts.judge", lambda *_, **__: pytest.fail("Spark is no more.")
        )
        with pytest.raises(pytest.fail.Exception):
            run_matrix(
                matrix_of(tmp_path, acks=["1"]), resume=False, progress=Progress(),
                stop=threading.Event(),
            )  # fmt: skip
    tally = run_matrix(
        matrix_of(tmp_path, acks=["1"]), resume=True, progress=Progress(), stop=threading.Event()
    )

    assert [entry.run for entry in tally.entries] == runs
    assert tally.entries[0].headlines["lost"].count == 3


def test_a_cluster_that_does_not_start_costs_one_cell_and_is_tried_again(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    broken = ["0"]

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        del master
        if runner.run.contract.acks in broken:
            raise ClusterBroken("Broker 2 did not register.")
        return outcome(runner, Verdict.INVALID, duplicate=(2, False))

    conducted(conduct)
    wanted = matrix_of(tmp_path, acks=["0", "1"])
    tally = run_matrix(wanted, resume=False, progress=Progress(), stop=threading.Event())

    assert [entry.verdict for entry in tally.entries] == [Verdict.UNKNOWN, Verdict.INVALID]
    assert tally.verdict is Verdict.INVALID
    assert "Broker 2 did not register" in tally.entries[0].reasons[0]
    assert str(tally.entries[1].headlines["duplicated"]) == "2 FORBIDDEN"
    broken.clear()
    again = run_matrix(wanted, resume=True, progress=Progress(), stop=threading.Event())
    assert [entry.verdict for entry in again.entries] == [Verdict.INVALID, Verdict.INVALID]


def test_what_could_not_be_healed_ends_everything(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        raise HealFailed("A broker is still frozen.")

    conducted(conduct)
    with pytest.raises(HealFailed):
        run_matrix(
            matrix_of(tmp_path, acks=["1"]), resume=False, progress=Progress(),
            stop=threading.Event(),
        )  # fmt: skip


def test_another_matrix_is_not_gone_on_with(
    tmp_path: Path, conducted: Callable[[Conduct], None]
) -> None:
    conducted(lambda runner, *, master: outcome(runner))
    run_matrix(
        matrix_of(tmp_path, acks=["1"]), resume=False, progress=Progress(), stop=threading.Event()
    )

    for other in (
        matrix_of(tmp_path, acks=["0"]),
        matrix_of(tmp_path, scenario="mixed", acks=["1"]),
    ):
        with pytest.raises(UsageError, match="leave out --resume"):
            run_matrix(other, resume=True, progress=Progress(), stop=threading.Event())


def test_a_damaged_ledger_is_named() -> None:
    with pytest.raises(HistoryUnreadable, match="no run of a matrix"):
        Entry.read({"verdict": "VALID"})


# -- on paper --------------------------------------------------------------------------------------


def entry(**changes: Any) -> Entry:
    made = failed_entry(cell(), ClusterBroken("It did not start."), seed=1, seconds=3.0)
    return replace(made, **changes)


def test_a_run_that_could_not_be_made_is_unknown_and_says_what_would_be_permitted() -> None:
    made = failed_entry(
        cell({"acks": "1"}), ClusterBroken("It did not start."), seed=1, seconds=3.0
    )

    assert made.verdict is Verdict.UNKNOWN
    assert str(made.headlines["lost"]) == "0, permitted"
    row = dict(zip(headers([made]), cells(made, list(varied([made]))), strict=True))
    assert row["longest time without ack"] == "never any"
    assert row["verdict"] == "? UNKNOWN"


def test_what_all_rows_share_has_no_column() -> None:
    old = {**entry().settings, "kafka": "3.9.1"}

    assert list(varied([entry()])) == ["acks", "min_isr", "idempotence"]
    assert next(iter(varied([entry(), entry(settings=old)]))) == "kafka"


def test_the_pages_tell_the_damage_the_reasons_and_what_was_left_out() -> None:
    about = About(
        damage=json.loads(cell().damage(1)), left_out=[("acks=0", "It cannot be.")], runs="../"
    )
    entries = [entry(anomalies={"phantom": Found(count=1, permitted=False)}, run="a-run")]

    for page in (html_page(entries, about), markdown_page(entries, about)):
        assert "partition(listener=replication) on leader_of(partition=0, topic=orders)" in page
        assert "power_loss on leader_of(partition=0, topic=orders) at 63 s for 6 s" in page
        assert "It did not start." in page
        assert "It cannot be." in page
        assert "../a-run/report.html" in page
    assert "phantom ×1 FORBIDDEN" in html_page(entries, about)


def test_an_outcome_is_told_as_the_folder_has_it(tmp_path: Path) -> None:
    runner = Runner(run=None, seed=1, store=tmp_path)  # type: ignore[arg-type]
    run_dir = RunDir.create(tmp_path, scenario="x", seed=1)
    verdict: dict[str, Any] = {
        "anomalies": {}, "faults": [], "reasons": ["Too little."], "counts": {"acked": 0},
    }  # fmt: skip
    (run_dir.path / "verdict.json").write_text(json.dumps(verdict))
    (run_dir.path / "lanes.json").write_text('{"partitions": []}')

    made = entry_of(
        cell({"min_isr": 1}),
        RunResult(run_dir=run_dir, report=Told(Verdict.UNKNOWN)),  # type: ignore[arg-type]
        seconds=1.26,
    )

    assert runner.seed == 1
    assert (made.unavailable_s, made.reasons, made.seconds) == (None, ("Too little.",), 1.3)
    # Nothing was destroyed, so nothing excuses a loss.
    assert not made.headlines["lost"].permitted


# -- the command -----------------------------------------------------------------------------------


def invoked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str
) -> tuple[list[Runner], Any]:
    runners: list[Runner] = []

    def conduct(runner: Runner, *, master: str | None) -> RunResult:
        del master
        runners.append(runner)
        return outcome(runner, Verdict.INVALID, lost_write=(1, False))

    stand_in(monkeypatch, conduct)
    monkeypatch.setattr("harness.campaigns.conduct.reject_unknown_kafka", lambda version, say: None)
    arguments = ["matrix", "--store", str(tmp_path), *words]
    return runners, CliRunner().invoke(app, arguments)


def test_the_command_runs_the_product_and_its_exit_code_is_the_worst(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runners, result = invoked(
        monkeypatch, tmp_path, "--acks", "1,all", "--min-isr", "2", "--idempotence", "off",
        "--rate", "300", "--json",
    )  # fmt: skip

    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert [run["settings"]["acks"] for run in document["runs"]] == ["1", "all"]
    assert document["damage"]["scenario"] == "weak_spots"
    assert [runner.run.contract.acks for runner in runners] == ["1", "all"]
    assert {runner.seed for runner in runners} == {1}
    assert "1 FORBIDDEN" in result.stderr


def test_with_faults_of_ones_own_the_default_scenario_is_the_one_that_deals_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runners, _ = invoked(
        monkeypatch, tmp_path, "--acks", "all", "--faults", "broker_kill", "--kafka", "4.3.1,3.9.1"
    )

    assert {runner.run.name for runner in runners} == {"mixed"}
    assert [runner.run.cluster.kafka for runner in runners] == ["4.3.1"] * 4 + ["3.9.1"] * 4


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
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], sentence: str
) -> None:
    runners, result = invoked(monkeypatch, tmp_path, *words)

    assert isinstance(result.exception, UsageError)
    assert sentence in str(result.exception)
    assert runners == []
