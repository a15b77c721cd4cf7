"""Whom a night tells: CI servers by JUnit, anybody by --on-finish, GitHub by the example."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml, Properties

from harness.campaigns.known import Known, KnownFindings
from harness.campaigns.night_junit import case_name
from harness.campaigns.nights import NightSummary
from harness.cli import main as cli
from harness.cli.on_finish import command_of, give
from harness.core.contract import Contract
from harness.core.errors import HealFailed, UsageError
from harness.core.verdict import Verdict
from tests.unit.test_known import CONTROLLED, LOSS, OTHER, TODAY, TONIGHT, known, night, result

EXAMPLE = Path(__file__).parents[2] / "examples" / "github_issue.py"


def junit_of(summary: NightSummary, folder: Path) -> list[Any]:
    summary.write(folder)
    (suite,) = JUnitXml.fromfile(str(folder / "junit.xml"))
    return list(suite)


def properties_of(case: Any) -> list[tuple[str, str]]:
    found = case.child(Properties)
    return [(each.name, each.value) for each in found]


# -- JUnit -----------------------------------------------------------------------------------------


def test_runs_of_one_contract_and_version_are_one_case_whatever_their_seeds(tmp_path: Path) -> None:
    first = replace(result(), workload="send_poll")
    runs = [
        replace(first, run=name, settings={**first.settings, "seed": seed})
        for name, seed in (("a", 1), ("b", 2))
    ]
    other = replace(runs[0], contract=Contract(acks="1"), run="c")

    cases = junit_of(
        NightSummary(seed=7, budget_s=60, results=[*runs, other], name=TONIGHT), tmp_path
    )

    assert [case.name for case in cases] == [
        f"mixed / send_poll / {contract} / Kafka 4.0.0"
        for contract in (Contract(), Contract(acks="1"))
    ]
    assert cases[0].time == 122.0
    assert properties_of(cases[0]) == [
        ("seed", "1"), ("run", "a"), ("report", "a/report.html"),
        ("seed", "2"), ("run", "b"), ("report", "b/report.html"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "ends"),
    [
        ([result()], "is_passed"),
        ([result(), result(LOSS)], "is_failure"),
        ([result(), replace(result(reasons=1), verdict=Verdict.UNKNOWN)], "is_error"),
    ],
)  # fmt: skip
def test_a_case_is_as_good_as_its_worst_run(tmp_path: Path, runs: list[Any], ends: str) -> None:
    *_, case = junit_of(NightSummary(seed=7, budget_s=60, results=runs, name=TONIGHT), tmp_path)

    assert getattr(case, ends)


def test_a_case_with_known_findings_only_is_skipped_and_says_its_fingerprint(
    tmp_path: Path,
) -> None:
    *_, case = junit_of(night(result(LOSS), findings=known()), tmp_path)

    assert case.is_skipped
    assert ("fingerprint", LOSS.id) in properties_of(case)


def test_the_name_of_a_case_holds_no_seed() -> None:
    assert case_name(CONTROLLED) == case_name(
        replace(CONTROLLED, settings={**CONTROLLED.settings, "seed": 99}, run="other")
    )


# -- --on-finish -----------------------------------------------------------------------------------


def test_a_program_is_given_the_document_and_its_output_stays_off_stdout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    command = command_of(f"sh -c 'cat > {tmp_path}/night.json; echo done'")
    assert command is not None

    give({"verdict": "VALID"}, command, say=said.append)

    assert json.loads((tmp_path / "night.json").read_text()) == {"verdict": "VALID"}
    assert capfd.readouterr() == ("", "done\n")
    assert said == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sh -c 'exit 7'", "failed with exit code 7"),
        ("sh -c 'sleep 60 & wait'", "did not end within 0.2 s and was killed"),
        ("sh -c 'exec 0<&-; exit 3'", "failed with exit code 3"),
    ],
)
def test_a_program_that_fails_or_hangs_is_told_and_nothing_more(command: str, words: str) -> None:
    said: list[str] = []

    give({"x": "y" * 200_000}, command_of(command) or [], say=said.append, limit_s=0.2)

    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize("text", ["no-such-program", "", "sh -c 'open"])
def test_what_cannot_be_run_is_refused_before_anything_is_started(text: str) -> None:
    with pytest.raises(UsageError, match="--on-finish"):
        command_of(text)


@pytest.mark.parametrize(
    ("ends", "told", "code"),
    [("summary", {"night": TONIGHT, "verdict": "INVALID"}, 1),
     (HealFailed("a rule stays"), {"verdict": None, "error": "a rule stays"}, 5)],
)  # fmt: skip
def test_the_end_of_a_night_is_told_also_where_it_was_broken_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: Any, told: dict[str, Any], code: int
) -> None:
    def spend(*_: Any, **__: Any) -> NightSummary:
        if isinstance(ends, Exception):
            raise ends
        return night(result(LOSS), findings=KnownFindings(today=TODAY))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.campaigns.nights.spend_night", spend)
    words = ["nightly", "--on-finish", f"sh -c 'cat > {tmp_path}/told.json; exit 9'"]
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", *words])

    with pytest.raises(SystemExit) as exit_:
        cli.main()

    assert exit_.value.code == code
    assert told.items() <= json.loads((tmp_path / "told.json").read_text()).items()


# -- the example -----------------------------------------------------------------------------------


def issues_after(tmp_path: Path, there: list[dict[str, Any]]) -> list[list[str]]:
    """Return what the example asks of gh, where these issues are there; one finding is known."""
    fake = tmp_path / "gh"
    fake.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        f"if sys.argv[2] == 'list':\n    print({json.dumps(json.dumps(there))})\n"
    )
    fake.chmod(0o755)
    entry = Known(fingerprint=OTHER.id, why="known")
    findings = KnownFindings(entries=(entry,), today=TODAY)
    document = night(result(LOSS, run="a"), result(OTHER), findings=findings).document()
    subprocess.run(
        [sys.executable, str(EXAMPLE)], input=json.dumps(document), text=True, check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]


def test_the_example_opens_an_issue_for_a_finding_that_has_none(tmp_path: Path) -> None:
    listed, created = issues_after(tmp_path, there=[])

    assert f"{LOSS.id} in:title" in listed
    assert created[:3] == ["issue", "create", "--title"]
    assert created[3] == f"{LOSS.id}: {LOSS.text}"
    assert "| a | 4.0.0 | 3 | `kafka-chaos run --again runs/a` |" in created[5]


def test_the_example_comments_on_the_issue_of_a_finding_and_opens_it_again(tmp_path: Path) -> None:
    there = [
        {"number": 4, "title": f"{OTHER.id}: x", "state": "OPEN"},
        {"number": 5, "title": f"{LOSS.id}: x", "state": "CLOSED"},
    ]

    _, *acts = issues_after(tmp_path, there)

    assert [act[:3] for act in acts] == [["issue", "reopen", "5"], ["issue", "comment", "5"]]
