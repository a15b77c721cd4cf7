"""`verify` for several paths: one document each, in order, and the worst exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns import conduct
from harness.cli import verify as cli_verify
from harness.cli.verify import Judged, judge_paths, worst
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import RunDir


@dataclass(frozen=True)
class Outcome:
    """As much of an outcome as is told."""

    run_dir: RunDir


def judged(code: int) -> Judged:
    return Judged(document={}, code=code)


def test_of_several_codes_the_worst_counts() -> None:
    assert worst([judged(0), judged(0)]) == 0
    assert worst([judged(0), judged(3)]) == 3
    assert worst([judged(3), judged(2), judged(0)]) == 2
    assert worst([judged(2), judged(1), judged(3)]) == 1


def test_folders_and_histories_come_back_in_the_order_of_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    history.touch()
    folder, damaged, empty = (tmp_path / name for name in ("run", "damaged", "empty"))
    empty.mkdir()
    for path in (folder, damaged):
        path.mkdir()
        (path / "run.json").write_text("{}")
    asked: list[Sequence[Path]] = []

    def histories(paths: Sequence[Path], *_: Any, exact: bool) -> list[Judged]:
        assert exact
        asked.append(paths)
        return [Judged(document={"history": path.name}, code=0) for path in paths]

    def folders(run_dirs: Sequence[RunDir], *, exact: bool, **_: Any) -> list[object]:
        assert exact
        return [
            HistoryUnreadable("It is cut in half.") if one.path == damaged else Outcome(one)
            for one in run_dirs
        ]

    def told(outcome: Outcome) -> Judged:
        return Judged(document={"run": outcome.run_dir.path.name}, code=1)

    monkeypatch.setattr(cli_verify, "_histories", histories)
    monkeypatch.setattr(cli_verify, "_told", told)
    monkeypatch.setattr(conduct, "judge_all", folders)

    found = judge_paths(
        [folder, history, damaged, other, folder, empty],
        subscribe=False,
        ww_deps=False,
        master=None,
        exact=True,
    )

    assert [one.document.get("run") or one.document["history"] for one in found] == [
        "run", "a.jsonl", "damaged", "b.jsonl", "run", "empty",
    ]  # fmt: skip
    assert asked == [[history, other]]
    assert found[2].document["verdict"] == "UNKNOWN"
    assert found[2].document["reasons"] == ["It is cut in half."]
    assert [one.code for one in found] == [1, 0, 3, 0, 1, 2]


def test_nothing_is_started_for_paths_none_of_which_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file or folder"):
        judge_paths([tmp_path / "a", tmp_path / "b"], subscribe=False, ww_deps=False, master=None)
