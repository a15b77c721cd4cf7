"""Pruning: passing runs are reduced, and nothing else is ever touched."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.campaigns.campaign import Session
from harness.campaigns.conduct import judge_all
from harness.campaigns.nights import Night, spend_night
from harness.campaigns.prune import KEPT, prune, reduce_run
from harness.cli import main as cli
from harness.cluster import cleanup
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import RunDir
from harness.core.size import parse_size_bytes, size_text
from harness.core.verdict import Verdict
from harness.run.runner import Runner
from tests.unit.campaign_fixture import Machine, machine, report

__all__ = ["machine"]

NOW = datetime(2026, 11, 24, tzinfo=UTC)
DAY_S = 86_400.0
SPARE_BYTES = 3000


def stored(
    store: Path, name: str, *, verdict: str | None = "VALID", state: str = "complete", day: int = 1
) -> Path:
    """Write the folder of a run that began on a day of November, with 3000 spare bytes."""
    folder = store / name
    (folder / "history" / "raw").mkdir(parents=True)
    (folder / "history" / "raw" / "process-0.arrows").write_bytes(b"x" * 2000)
    (folder / "lanes.json").write_bytes(b"x" * 1000)
    for kept in KEPT - {"verdict.json", "run.json"}:
        (folder / kept).write_text("kept")
    run = {
        "run_id": "ab", "state": state, "started_utc": f"2026-11-{day:02}T00:00:00Z",
        "seed": 3,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    if verdict is not None:
        (folder / "verdict.json").write_text(json.dumps({"verdict": verdict}))
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- what goes, and what stays ---------------------------------------------------------------------


def test_a_passing_run_that_is_old_keeps_what_is_read_later(tmp_path: Path) -> None:
    old, young = stored(tmp_path, "old", day=1), stored(tmp_path, "young", day=20)
    before = names(young)

    done = prune(tmp_path, older_s=10 * DAY_S, now=NOW)

    assert names(old) == KEPT
    assert names(young) == before
    assert (done.runs, done.freed_bytes) == (("old",), SPARE_BYTES)
    assert json.loads((old / "run.json").read_text())["pruned"] is True
    assert json.loads((old / "run.json").read_text())["seed"] == 3


@pytest.mark.parametrize(
    ("verdict", "state"),
    [("INVALID", "complete"), ("UNKNOWN", "complete"), (None, "complete"), ("VALID", "aborted"),
     ("VALID", "running")],
)  # fmt: skip
def test_a_run_that_failed_or_goes_on_or_is_not_judged_keeps_everything(
    tmp_path: Path, verdict: str | None, state: str
) -> None:
    folder = stored(tmp_path, "run", verdict=verdict, state=state)
    before = names(folder)

    done = prune(tmp_path, older_s=0, max_bytes=0, now=NOW)

    assert names(folder) == before
    assert done.runs == ()
    assert sum(done.left.values()) == 1
    assert "still more than" in done.lines(dry_run=False)[-1]


def test_a_run_whose_report_is_not_written_yet_keeps_everything(tmp_path: Path) -> None:
    folder = stored(tmp_path, "run")
    (folder / "report.html").unlink()

    prune(tmp_path, max_bytes=0, now=NOW)

    assert (folder / "history").is_dir()


def test_the_runs_of_a_campaign_that_goes_on_keep_everything(tmp_path: Path) -> None:
    folder, other = stored(tmp_path, "run"), stored(tmp_path, "other")
    campaign = tmp_path / "20261124T000000-nightly-7"
    campaign.mkdir()
    (campaign / "made.jsonl").write_text('{"run": "run"}\n')
    (campaign / "owner").write_text(cleanup.owner())

    prune(tmp_path, max_bytes=0, now=NOW)

    assert (folder / "history").is_dir()
    assert not (other / "history").exists()
    (campaign / "owner").write_text("999999999@1")
    assert prune(tmp_path, max_bytes=0, now=NOW).runs == ("run",)


def test_what_is_no_run_folder_is_never_touched(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "runs", stored(tmp_path, "elsewhere")
    stored(store, "run")
    foreign = store / "foreign"
    foreign.mkdir()
    (foreign / "run.json").write_text('{"state": "complete"}')
    (foreign / "data").write_text("x")
    (store / "latest").symlink_to(elsewhere)
    (store / "nights.jsonl").write_text("")
    (store / "run" / "link").symlink_to(elsewhere)

    done = prune(store, older_s=0, max_bytes=0, now=NOW)

    assert done.runs == ("run",)
    assert names(foreign) == {"run.json", "data"}
    assert (elsewhere / "history" / "raw" / "process-0.arrows").is_file()
    assert (store / "latest").is_symlink()


def test_the_oldest_go_first_until_all_take_no_more_than_they_may(tmp_path: Path) -> None:
    for name, day in (("c", 9), ("a", 3), ("b", 6)):
        stored(tmp_path, name, day=day)
    whole = prune(tmp_path, max_bytes=10**9, now=NOW).size_bytes

    done = prune(tmp_path, max_bytes=whole - SPARE_BYTES - 1, now=NOW)

    assert done.runs == ("a", "b")
    assert done.size_bytes == whole - 2 * SPARE_BYTES
    assert (tmp_path / "c" / "history").is_dir()


def test_a_dry_run_says_the_same_and_removes_nothing(tmp_path: Path) -> None:
    folder = stored(tmp_path, "run")

    dry = prune(tmp_path, older_s=0, now=NOW, dry_run=True)

    assert (folder / "history").is_dir()
    assert "pruned" not in json.loads((folder / "run.json").read_text())
    assert dry == prune(tmp_path, older_s=0, now=NOW)
    assert dry.lines(dry_run=True)[0].startswith("Would reduce 1 passing run and free 3.0 kB")


def test_what_was_pruned_is_not_pruned_again(tmp_path: Path) -> None:
    stored(tmp_path, "run")
    prune(tmp_path, older_s=0, now=NOW)

    done = prune(tmp_path, older_s=0, max_bytes=0, now=NOW)

    assert (done.runs, done.freed_bytes) == ((), 0)


def test_pruning_that_was_killed_is_ended_the_next_time(tmp_path: Path) -> None:
    folder = stored(tmp_path, "run")
    RunDir(folder).update(pruned=True)

    assert prune(tmp_path, older_s=0, now=NOW).runs == ("run",)
    assert names(folder) == KEPT


# -- afterwards ------------------------------------------------------------------------------------


def test_a_pruned_run_is_not_judged_again_and_keeps_its_verdict(tmp_path: Path) -> None:
    folder = stored(tmp_path, "run")
    reduce_run(folder)

    (refused,) = judge_all([RunDir(folder)])

    assert isinstance(refused, HistoryUnreadable)
    assert "kafka-chaos run --again" in str(refused)
    assert json.loads((folder / "verdict.json").read_text()) == {"verdict": "VALID"}


@pytest.mark.parametrize(
    "words", [("verify",), ("report",), ("verify", "--self-test"), ("archive", "{folder}")]
)
def test_commands_that_need_the_history_say_that_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    folder = stored(tmp_path, "run")
    reduce_run(folder)
    last = [str(tmp_path / "copies")] if words[0] == "archive" else []
    flags = [word for word in words[1:] if word.startswith("--")]
    monkeypatch.setattr(sys, "argv", ["kafka-chaos", words[0], *flags, str(folder), *last])

    with pytest.raises(SystemExit) as exit_:
        cli.main()

    assert exit_.value.code == 3
    assert "was pruned" in " ".join(capfd.readouterr().err.split())


# -- a night ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps_all", [True, False])
def test_a_night_reduces_the_runs_that_pass_unless_all_are_to_be_kept(
    machine: Machine, tmp_path: Path, keeps_all: bool
) -> None:
    verdicts = [Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN]

    def judged(runner: Runner) -> object:
        number = len(machine.runners) - 1
        folder = sorted(tmp_path.glob("*-*-" + str(runner.seed)), key=lambda p: p.stat().st_mtime)[
            -1
        ]
        verdict = verdicts[number % 3]
        for name in ("report.html", "summary.md", "lanes.json"):
            (folder / name).write_text("x")
        (folder / "verdict.json").write_text(json.dumps({"verdict": verdict.name}))
        if number == 3:
            runner.stop.set()
        return report(runner, verdict)

    machine.report = judged  # type: ignore[assignment]  # it also writes the folder

    spend_night(Night(seed=7), Session(store=tmp_path), keeps_all=keeps_all)

    whole = [(tmp_path / name / "lanes.json").is_file() for name in machine.made]
    assert whole[:3] == [keeps_all, True, True]


# -- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Say which runs"),
        (("--max", "much"), "'much' is not a size"),
        (("--older", "old"), "is not a duration"),
        (("--older", "30d", "--store", "nowhere"), "There is no store nowhere"),
    ],
)
def test_what_cannot_be_pruned_is_refused(
    invoke: Callable[..., tuple[int, str, str]], tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "runs").mkdir()

    code, _, err = invoke("prune", *words)

    assert code == 2
    assert reason in err


def test_the_command_says_what_it_freed(
    invoke: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    stored(tmp_path / "runs", "run")
    stored(tmp_path / "runs", "bad", verdict="INVALID")

    code, out, err = invoke("prune", "--older", "1s", "--json")

    assert code == 0
    assert json.loads(out)["runs"] == ["run"]
    assert "Reduced 1 passing run and freed 3.0 kB" in err
    assert "left alone: 1 that are not VALID" in err


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("20GB", 20 * 10**9), ("1.5 MiB", 1_572_864), ("0B", 0), ("3kB", 3000), ("3KB", 3000)],
)
def test_sizes_are_written_with_their_unit(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["20", "GB", "-1GB", "1 giB", "20G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size_bytes(text)


def test_sizes_are_told_with_the_digits_that_matter() -> None:
    assert [size_text(n) for n in (0, 999, 3000, 12_345_678, 20 * 10**9)] == [
        "0 B", "999 B", "3.0 kB", "12 MB", "20 GB",
    ]  # fmt: skip
