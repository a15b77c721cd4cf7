"""Known findings: reported, and without a say in what a night ends with; controls never."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from harness.campaigns.campaign import Session
from harness.campaigns.fingerprint import Fingerprint
from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.night_findings import findings_of
from harness.campaigns.night_log import CONTROL, NightRun
from harness.campaigns.nights import Night, NightSummary, spend_night
from harness.campaigns.scenario_result import ScenarioResult
from harness.cli.known_file import known_findings, read_known
from harness.core.errors import UsageError
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine, report

__all__ = ["machine"]

LOSS = Fingerprint(anomaly="lost-write", workload="send_poll", explained_by="power_loss")
OTHER = Fingerprint(anomaly="duplicate", workload="send_poll", explained_by="gc_pause")
TODAY = date(2026, 11, 24)
TONIGHT = "20261124T010000-nightly-7"


def result(
    *found: Fingerprint, kafka: str = "4.0.0", run: str = "r", reasons: int | None = None
) -> ScenarioResult:
    return ScenarioResult(
        settings={"scenario": "mixed", "acks": "all", "min_isr": 2, "seed": 3, "workload": None},
        verdict=Verdict.INVALID if found else Verdict.VALID,
        reasons=tuple("because" for _ in range(len(found) if reasons is None else reasons)),
        fingerprints=found, kafka=kafka, run=run, seconds=61.0,
    )  # fmt: skip


CONTROLLED = replace(
    result(run="c"),
    settings={"scenario": CONTROL, "acks": "1", "min_isr": 2, "seed": 1, "workload": None},
)


def known(*, versions: tuple[str, ...] = (), until: date | None = None) -> KnownFindings:
    entry = Known(
        fingerprint=LOSS.id, why="The last replica standing.", versions=versions, until=until
    )
    return KnownFindings(entries=(entry,), today=TODAY)


def night(
    *results: ScenarioResult, findings: KnownFindings, before: Sequence[NightRun] = ()
) -> NightSummary:
    return NightSummary(
        seed=7, budget_s=60, results=[CONTROLLED, *results], name=TONIGHT, known=findings,
        before=before,
    )  # fmt: skip


def nights_before(count: int, *found: Fingerprint, kafka: str = "4.0.0") -> list[NightRun]:
    return [
        NightRun(night=f"202611{day:02}T010000-nightly-7", result=result(*found, kafka=kafka))
        for day in range(1, count + 1)
    ]


# -- what decides ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ran", "findings", "verdict"),
    [
        (result(LOSS), known(), Verdict.VALID),
        (result(LOSS), KnownFindings(today=TODAY), Verdict.INVALID),
        (result(LOSS, OTHER), known(), Verdict.INVALID),
        (result(LOSS, reasons=2), known(), Verdict.UNKNOWN),
        (result(LOSS, kafka="3.9.1"), known(versions=("3.9",)), Verdict.VALID),
        (result(LOSS, kafka="4.1.0"), known(versions=("<4.1",)), Verdict.INVALID),
        (result(LOSS), known(until=date(2026, 11, 24)), Verdict.VALID),
        (result(LOSS), known(until=date(2026, 11, 23)), Verdict.INVALID),
    ],
    ids=[
        "known", "not known", "one of two", "doubts besides", "its version", "another version",
        "its last day", "over",
    ],
)  # fmt: skip
def test_only_what_is_known_on_this_version_and_day_does_not_decide(
    ran: ScenarioResult, findings: KnownFindings, verdict: Verdict
) -> None:
    assert night(ran, findings=findings).verdict is verdict


def test_a_finding_of_a_control_decides_whatever_is_known(machine: Machine, tmp_path: Path) -> None:
    def ends(runner: Runner) -> None:
        if len(machine.runners) > 1:
            runner.stop.set()

    machine.during = ends
    machine.report = lambda runner: report(runner, Verdict.INVALID, duplicate=(1, False))
    (first,) = spend_night(Night(seed=7), Session(store=tmp_path)).results
    (found,) = first.fingerprints
    plain = replace(found, control="")
    findings = KnownFindings(entries=(Known(fingerprint=plain.id, why="seen"),), today=TODAY)
    machine.runners.clear()

    summary = spend_night(Night(seed=8), Session(store=tmp_path), known=findings)

    assert summary.verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("versions", "covered", "others"),
    [
        (("3.9",), ("3.9", "3.9.1"), ("3.8.1", "4.3.1", "unknown")),
        (("<4.1",), ("0.10.2.2", "4.0.9"), ("4.1.0", "4.1")),
        ((">=2.4 <4.1", "4.3.1"), ("2.4", "3.9.1", "4.3.1"), ("2.3.1", "4.2.0")),
        ((), ("4.3.1", "unknown"), ()),
    ],
)
def test_versions_are_written_as_beginnings_and_bounds(
    versions: tuple[str, ...], covered: tuple[str, ...], others: tuple[str, ...]
) -> None:
    entry = Known(fingerprint=LOSS.id, why="x", versions=versions)

    assert [version for version in (*covered, *others) if entry.covers(version)] == [*covered]


# -- what is told ----------------------------------------------------------------------------------


def test_a_known_finding_is_told_with_its_reason() -> None:
    lines = night(result(LOSS), result(LOSS, run="s"), findings=known()).lines()

    assert f"known finding {LOSS.id} in 2 runs: {LOSS.text}" in lines
    assert f"known {LOSS.id}: it was found in 2 runs. The last replica standing." in lines


def test_a_known_finding_is_told_where_it_should_not_be() -> None:
    summary = night(
        result(LOSS), result(LOSS, kafka="4.1.0", run="s"), findings=known(versions=("<4.1",))
    )

    told = summary.document()["told"]

    assert f"new finding {LOSS.id} in 2 runs: {LOSS.text}" in told
    assert (
        f"known {LOSS.id}: it was found on Kafka 4.1.0, where it should not be: it decides." in told
    )
    assert any("in 1 run." in line for line in told)


def test_a_known_finding_whose_day_has_passed_is_told() -> None:
    told = night(result(LOSS), findings=known(until=date(2026, 1, 1))).told()

    assert (
        f"known {LOSS.id}: it was known until 2026-01-01, and was found again: it decides." in told
    )


@pytest.mark.parametrize(
    ("before", "versions", "absent"),
    [
        (nights_before(9), (), True),
        (nights_before(8), (), False),
        ([*nights_before(1, LOSS), *nights_before(9)[1:]], (), False),
        (nights_before(9, kafka="3.9.1"), ("4.0",), False),
    ],
    ids=["ten nights", "nine", "seen in one of them", "nights on other versions"],
)
def test_a_known_finding_that_ten_nights_could_have_shown_and_did_not_is_told(
    before: list[NightRun], versions: tuple[str, ...], absent: bool
) -> None:
    told = night(result(), findings=known(versions=versions), before=before).told()

    assert any("not seen in the last 10 nights" in line for line in told) == absent


# -- new, ongoing, rare, resolved ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown_by", "state"),
    [
        ("..........X", "new"),
        ("X", "new"),
        ("XX", "ongoing"),
        ("........X.X", "rare"),
        ("......XXX..", "ongoing"),
        (".X.........", "rare"),
        ("X..........", "resolved"),
    ],
)
def test_a_finding_is_told_apart_by_the_nights_that_showed_it(shown_by: str, state: str) -> None:
    runs = [
        NightRun(night=f"202611{day:02}", result=result(*([LOSS] if sign == "X" else [])))
        for day, sign in enumerate(shown_by, start=1)
    ]

    (found,) = findings_of(runs, night=runs[-1].night)

    assert found.state == state


def test_the_summary_names_each_finding_of_the_night_with_its_runs() -> None:
    summary = night(result(LOSS, run="a"), findings=known(), before=nights_before(4, LOSS, OTHER))

    (found,) = summary.document()["findings"]

    assert (found["id"], found["state"], found["nights"]) == (LOSS.id, "ongoing", 5)
    assert found["known"]["why"] == "The last replica standing."
    assert found["tonight"] == [
        {"run": "a", "kafka": "4.0.0", "seed": 3, "report": "a/report.html"}
    ]
    assert [each.fingerprint for each in summary.findings] == [LOSS, OTHER]


# -- the file --------------------------------------------------------------------------------------


def test_the_file_of_the_current_folder_is_read_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert known_findings(None).entries == ()
    (tmp_path / "known.yaml").write_text(
        f"- fingerprint: {LOSS.id}\n  why: KIP-966\n  link: https://example.org/1\n"
        '  versions: ["3.9", "<4.1"]\n  until: 2027-03-31\n'
        f"- fingerprint: {OTHER.id}\n  why: librdkafka\n  versions: 4.0.1\n"
    )

    first, second = known_findings(None).entries

    assert first == Known(
        fingerprint=LOSS.id, why="KIP-966", link="https://example.org/1", versions=("3.9", "<4.1"),
        until=date(2027, 3, 31),
    )  # fmt: skip
    assert second.versions == ("4.0.1",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("known: []", "1:1: The file is to be a list of entries"),
        ("- lost-write", "1:3: An entry is to hold a fingerprint"),
        (f"- fingerprint: {LOSS.id}", "1:3: An entry needs its why."),
        ("- fingerprint: lost-write\n  why: x", "1:3: 'lost-write' is no fingerprint"),
        (f"- why: x\n  fingerprint: {CONTROL}", f"2:3: {CONTROL} cannot be known"),
        (
            "- why: x\n  fingerprint: control-duplicate-12345678",
            "2:3: control-duplicate-12345678 cannot be known: it is of a control",
        ),
        (f"- fingerprint: {LOSS.id}\n  whi: x", "2:3: An entry has no whi. Did you mean why?"),
        (
            f"- fingerprint: {LOSS.id}\n  why: x\n  versions: [4.10]",
            "3:3: Write versions in quotes",
        ),
        (f"- fingerprint: {LOSS.id}\n  why: x\n  versions: new", "3:3: 'new' names no versions"),
        (f"- fingerprint: {LOSS.id}\n  why: x\n  until: soon", "3:3: until is to be a day"),
        (
            f"- fingerprint: {LOSS.id}\n  why: x\n- fingerprint: {LOSS.id}\n  why: y",
            f"3:3: {LOSS.id} is there twice.",
        ),
        ("- [", "is not YAML"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(UsageError) as raised:
        read_known(path)

    assert words in str(raised.value)
    assert str(path) in str(raised.value)
