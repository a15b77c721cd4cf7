"""`verify` for several paths: one document each, in order, and the worst exit code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import cli_verify
from harness.cli_verify import Judged, judge_paths, worst
from harness.core.errors import HistoryUnreadable, UsageError


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
    folder, damaged = tmp_path / "run", tmp_path / "damaged"
    folder.mkdir()
    damaged.mkdir()
    asked: list[Sequence[Path]] = []

    def histories(paths: Sequence[Path], *_: Any) -> list[Judged]:
        asked.append(paths)
        return [Judged(document={"history": path.name}, code=0) for path in paths]

    def of_folder(path: Path, master: str | None, *, exact: bool) -> Judged:
        assert exact
        if path == damaged:
            raise HistoryUnreadable("It is cut in half.")
        return Judged(document={"run": path.name}, code=1)

    monkeypatch.setattr(cli_verify, "_histories", histories)
    monkeypatch.setattr(cli_verify, "_judge_folder", of_folder)

    found = judge_paths(
        [folder, history, damaged, other], subscribe=False, ww_deps=False, master=None, exact=True
    )

    assert [one.document.get("run") or one.document["history"] for one in found] == [
        "run", "a.jsonl", "damaged", "b.jsonl",
    ]  # fmt: skip
    assert asked == [[history, other]]
    assert found[2].document["verdict"] == "UNKNOWN"
    assert found[2].document["reasons"] == ["It is cut in half."]
    assert [one.code for one in found] == [1, 0, 3, 0]


def test_nothing_is_started_for_paths_none_of_which_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file or folder"):
        judge_paths([tmp_path / "a", tmp_path / "b"], subscribe=False, ww_deps=False, master=None)
