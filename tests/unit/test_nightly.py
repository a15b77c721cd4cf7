"""A night: the control always, every contract, and the worst verdict at the end."""

import json
from itertools import islice
from pathlib import Path

import pytest
from junitparser import JUnitXml

from harness.campaigns.nights import CONTROL, Cell, Entry, Night, Summary, cells
from harness.core.errors import UsageError
from harness.core.verdict import Verdict

NIGHT = Night(budget_s=60, kafka=None, duration_s=None, seed=7, store=Path("runs"), master=None)


def _entry(scenario: str, verdict: Verdict, **anomalies: int) -> Entry:
    cell = Cell(scenario=scenario, acks="1", min_isr=2, seed=3)
    return Entry(
        cell=cell, verdict=verdict, reasons=() if verdict is Verdict.VALID else ("because",),
        anomalies=anomalies, run="20261121T000000-x-3", seconds=61.2,
    )  # fmt: skip


def test_the_control_comes_first_and_every_contract_follows() -> None:
    first, *rest = islice(cells(7), 13)

    assert (first.scenario, first.acks) == (CONTROL, "1")
    contracts = {(cell.acks, cell.min_isr) for cell in rest[:6]}
    assert contracts == {(a, m) for a in ("0", "1", "all") for m in (1, 2)}
    assert len({cell.seed for cell in rest}) == 12, "every run has a seed of its own"


def test_one_seed_gives_one_night() -> None:
    assert list(islice(cells(7), 20)) == list(islice(cells(7), 20))


@pytest.mark.parametrize(
    ("entries", "verdict"),
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
    entries: list[tuple[str, Verdict]], verdict: Verdict
) -> None:
    summary = Summary(NIGHT, [_entry(name, each) for name, each in entries])

    assert summary.verdict is verdict
    assert summary.exit_code == verdict.exit_code


def test_the_summary_says_the_same_in_every_form(tmp_path: Path) -> None:
    summary = Summary(
        NIGHT, [_entry(CONTROL, Verdict.VALID, **{"lost-write": 12}),
                _entry("mixed", Verdict.UNKNOWN), _entry("mixed", Verdict.INVALID)],
    )  # fmt: skip

    summary.write_junit(tmp_path / "junit.xml")
    junit = JUnitXml.fromfile(str(tmp_path / "junit.xml"))

    assert json.loads(summary.json())["verdict"] == "INVALID"
    assert [run["verdict"] for run in json.loads(summary.json())["runs"]] == [
        "VALID", "UNKNOWN", "INVALID",
    ]  # fmt: skip
    assert "lost-write ×12" in summary.markdown()
    assert summary.lines()[0].startswith("INVALID  3 runs")
    assert (junit.tests, junit.failures, junit.errors) == (3, 1, 1)


def test_a_night_of_transactions_leaves_out_the_contracts_without_idempotence() -> None:
    first, *rest = islice(cells(7, workload="transactional"), 5)

    assert (first.scenario, first.workload) == (CONTROL, None)
    assert {(cell.acks, cell.min_isr) for cell in rest} == {("all", 1), ("all", 2)}
    assert {cell.workload for cell in rest} == {"transactional"}


def test_a_night_whose_workload_cannot_be_run_at_all_is_refused() -> None:
    with pytest.raises(UsageError, match=r"0\.11 was the first"):
        next(cells(7, workload="transactional", kafka="0.10.2.2"))
