"""index.html: the last night against those before, in one page that needs no network."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.campaign import Session
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.measured import FaultCounts, Measured
from harness.campaigns.night_index import Index, write_index
from harness.campaigns.night_log import NightLog, NightRun
from harness.campaigns.nights import Night, spend_night
from harness.campaigns.scenario_result import ScenarioResult
from harness.campaigns.small_lines import small_line
from harness.cli import main as cli
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine
from tests.unit.test_known import CONTROLLED, LOSS, OTHER, TODAY, nights_before, result
from verifiers.situations.situation import SITUATIONS

__all__ = ["machine"]

CRASHED = "leader-lost-by-crash"
VOID = {"meta", "link", "br", "hr", "img", "input"}


class _Tree(HTMLParser):
    """Holds a page to be well-formed, and gathers what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tree_of(page: str) -> _Tree:
    tree = _Tree()
    tree.feed(page)
    assert tree.open == []
    return tree


def ran(
    night: str, *found: Fingerprint, kafka: str = "4.0.0", run: str = "r", **more: Any
) -> NightRun:
    measured = Measured(
        made_s=100.0, load_s=50.0, under_fault_s=25.0, recoveries_s=(2.0, 4.0, 9.0),
        faults={"gc_pause": FaultCounts(planned=3, proven=2, felt=1)},
    )  # fmt: skip
    made = replace(
        result(*found, kafka=kafka, run=run), measured=measured, acked=5000, unavailable_s=12.5,
        situations={CRASHED: 2}, **more,
    )  # fmt: skip
    return NightRun(night=night, result=made)


def page_of(store: Path, *runs: NightRun, known: KnownFindings | None = None) -> str:
    path = write_index(store, runs, known=known or KnownFindings(today=TODAY))
    return path.read_text(encoding="utf-8")


def test_the_page_needs_no_network_and_is_well_formed(tmp_path: Path) -> None:
    tree = tree_of(page_of(tmp_path, *nights_before(12, LOSS), ran("20261124-x", LOSS, OTHER)))

    assert not {"script", "link", "img", "iframe"} & tree.tags
    assert not [link for link in tree.links if link.startswith(("http:", "https:", "//"))]
    assert "r/report.html" in tree.links


def test_the_page_stays_below_two_megabytes_however_much_there_is(tmp_path: Path) -> None:
    long = "x" * 3000
    kinds = [
        Fingerprint(anomaly="lost-write", kind=f"{number}{long}", workload=long)
        for number in range(300)
    ]
    runs = [
        ran(
            f"2026{night:04}T010000-nightly-7", kinds[(night * 40 + number) % 300],
            kafka=f"{number % 20}.1.0", run=f"{night}-{number}-{'y' * 200}",
        )
        for night in range(60)
        for number in range(40)
    ]  # fmt: skip

    page = page_of(tmp_path, *runs)

    assert len(page.encode()) < 2_000_000
    assert page.count('class="card ') == 60


def test_findings_have_a_card_each_new_ones_first(tmp_path: Path) -> None:
    entry = Known(fingerprint=OTHER.id, why="A defect of ours <b>", link="https://example.org/1")
    page = page_of(
        tmp_path, *nights_before(3, OTHER), ran("20261124-x", LOSS, OTHER),
        known=KnownFindings(entries=(entry,), today=TODAY),
    )  # fmt: skip

    cards = re.findall(r'class="card (\w+)" id="([^"]+)"', page)

    assert cards == [("new", LOSS.id), ("ongoing", OTHER.id)]
    assert "A defect of ours &lt;b&gt;" in page
    assert '<a href="https://example.org/1">' in page
    assert "<b>1 new</b>" in page


def test_a_link_that_a_browser_would_run_is_no_link(tmp_path: Path) -> None:
    entry = Known(fingerprint=LOSS.id, why="x", link="javascript:alert(1)")
    known = KnownFindings(entries=(entry,), today=TODAY)

    assert "javascript" not in page_of(tmp_path, ran("20261124-x", LOSS), known=known)


def test_situations_are_counted_by_version_tonight_and_before() -> None:
    index = Index(
        runs=[
            ran("20261101-x", kafka="3.9.1"), ran("20261101-x", kafka="4.0.0"),
            ran("20261102-x", kafka="4.0.0"),
        ],
        known=KnownFindings(),
    )  # fmt: skip

    assert index.versions() == ["3.9.1", "4.0.0"]
    assert index.situations()[CRASHED] == {"3.9.1": (0, 1), "4.0.0": (1, 2)}
    assert set(index.situations()) == set(SITUATIONS)


def test_the_page_looks_back_thirty_nights_and_findings_further() -> None:
    runs = [ran(f"2026{night:04}-x", *([LOSS] if night == 1 else [])) for night in range(1, 41)]

    index = Index(runs=runs, known=KnownFindings())

    assert len(index.rows()) == 30
    assert index.situations()[CRASHED]["4.0.0"] == (1, 30)
    assert [each.state for each in index.findings()] == ["resolved"]


def test_a_night_without_a_valid_control_is_unknown_on_the_page() -> None:
    with_control = NightRun(night="20261102-x", result=CONTROLLED)
    index = Index(runs=[ran("20261101-x"), ran("20261102-x"), with_control], known=KnownFindings())

    assert [row.verdict for row in index.rows()] == [Verdict.VALID, Verdict.UNKNOWN]


def test_figures_of_a_night_are_summed_over_its_runs() -> None:
    (row,) = Index(runs=[ran("n"), ran("n", run="s")], known=KnownFindings()).rows()

    assert (row.under_fault, row.acked_per_s) == (0.25, 100.0)


def test_kinds_of_faults_are_told_apart_by_how_many_runs_ended_unknown() -> None:
    index = Index(
        runs=[ran("20261101-x", verdict=Verdict.UNKNOWN), ran("20261102-x"), ran("20261102-x")],
        known=KnownFindings(),
    )

    (row,) = index.faults()

    assert (row.name, row.unknown, row.runs) == ("gc_pause", 1, 3)
    assert (row.unknown_tonight, row.runs_tonight) == (0, 2)
    assert (row.planned, row.proven, row.felt) == (9, 6, 3)


def test_quantities_are_lines_over_the_nights() -> None:
    lines = Index(runs=[ran("20261101-x"), ran("20261102-x")], known=KnownFindings()).lines()

    (quantities,) = lines.values()
    recovery = quantities["recovery, median"]
    assert recovery.count("<circle") == 2
    assert "20261101-x: 4.0\u202fs" in recovery
    assert "50\u202f" not in quantities["of the time under fault"]
    assert "25%" in quantities["of the time under fault"]


def test_a_control_is_no_part_of_the_lines() -> None:
    runs = [ran("20261101-x"), ran("20261102-x", control=True)]

    (quantities,) = Index(runs=runs, known=KnownFindings()).lines().values()

    assert all("20261102-x: " not in line for line in quantities.values())


def test_a_night_without_a_value_leaves_a_gap() -> None:
    line = small_line([("a", 1.0), ("b", None), ("c", 2.0), ("d", 0.0)], what="recovery")
    shape = re.search(r'class="through" d="([^"]+)"', line)

    assert shape is not None
    assert [sign for sign in shape[1] if sign in "ML"] == ["M", "M", "L"]
    assert small_line([("a", None)], what="x") == '<span class="small">not measured</span>'


def test_a_night_writes_the_page_at_its_end(machine: Machine, tmp_path: Path) -> None:
    def ends(runner: Runner) -> None:
        if len(machine.runners) > 2:
            runner.stop.set()

    machine.during = ends

    spend_night(Night(seed=7), Session(store=tmp_path))

    (night,) = tmp_path.glob("*-nightly-7")
    assert night.name in (tmp_path / "index.html").read_text()


def test_the_command_writes_the_page_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", "index"])
    with pytest.raises(SystemExit) as refused:
        cli.main()
    assert refused.value.code == 2
    assert "`kafka-chaos nightly` makes one" in " ".join(capfd.readouterr().err.split())
    (tmp_path / "runs").mkdir()
    log = NightLog(tmp_path / "runs", "20261124-x")
    log.add([_kept()])
    log.close()

    with pytest.raises(SystemExit) as done:
        cli.main()

    assert done.value.code in (0, None)
    assert LOSS.id in (tmp_path / "runs" / "index.html").read_text()


def _kept() -> ScenarioResult:
    return ran("n", LOSS).result
