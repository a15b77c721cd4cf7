"""`verify` for several paths: one document each, in order, and the worst exit code.

Only the Spark jobs are replaced: what they return is shown, written and counted as ever.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.cli.verify import Judged, judge_paths, worst
from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.verdict import Verdict
from tests.unit.report_fixture import valid
from verifiers.ops.description import Described, Problem
from verifiers.ops.judgement import HistoryVerdict, OpOptions
from verifiers.run_folder.result import Counts, Report


def judged(code: int) -> Judged:
    return Judged(document={}, code=code)


def test_of_several_codes_the_worst_counts() -> None:
    assert worst([judged(0), judged(0)]) == 0
    assert worst([judged(0), judged(3)]) == 3
    assert worst([judged(3), judged(2), judged(0)]) == 2
    assert worst([judged(2), judged(1), judged(3)]) == 1


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Path]]:
    """Replace the Spark jobs; return what each was asked for.

    A run is INVALID, and cannot be read if its folder is called damaged; a history is VALID, and
    malformed if its file is called so.
    """
    asked: list[Sequence[Path]] = []

    def verify_all(paths: Sequence[Path], *, exact: bool, **_: Any) -> list[object]:
        assert exact
        asked.append(paths)
        return [
            HistoryUnreadable("It is cut in half.")
            if path.name == "damaged"
            else Report(
                run=path.name, scenario="mixed", seed=7, kafka="4.3.1", verdict=Verdict.INVALID,
                reasons=("3 records are lost.",), anomalies={}, counts=Counts(), faults=(),
                checkers={}, timing_s={},
            )
            for path in paths
        ]  # fmt: skip

    def verify_histories(
        paths: Sequence[Path], *, options: OpOptions, exact: bool, **_: Any
    ) -> list[HistoryVerdict]:
        assert exact
        asked.append(paths)
        bad = (Problem(line=1, words="no JSON"),)
        return [
            HistoryVerdict(
                history=path.name, verdict=Verdict.VALID, reasons=(), anomalies={}, checkers={},
                described=Described(path=path, problems=bad if path.stem == "malformed" else ()),
                options=options, timing_s={},
            )
            for path in paths
        ]  # fmt: skip

    monkeypatch.setattr("harness.campaigns.conduct.verify_all", verify_all)
    monkeypatch.setattr("verifiers.ops.job.verify_histories", verify_histories)
    return asked


def judge(*paths: Path) -> tuple[Judged, ...]:
    return judge_paths(paths, subscribe=False, ww_deps=False, master=None, exact=True)


def test_folders_and_histories_come_back_in_the_order_of_their_paths(
    tmp_path: Path, jobs: list[Sequence[Path]], capfd: pytest.CaptureFixture[str]
) -> None:
    history, malformed = tmp_path / "a.jsonl", tmp_path / "malformed.jsonl"
    history.touch()
    malformed.touch()
    folder, damaged = valid(tmp_path / "run"), valid(tmp_path / "damaged")
    (empty := tmp_path / "empty").mkdir()

    found = judge(folder, history, damaged, malformed, folder, empty)

    assert [path.document["run"] for path in found] == [
        "run", "a", "damaged", "malformed", "run", "empty",
    ]  # fmt: skip
    assert [path.code for path in found] == [1, 0, 3, 2, 1, 2]
    assert jobs == [[history, malformed], [folder, damaged]]
    assert found[2].document["verdict"] == "UNKNOWN"
    assert found[2].document["reasons"] == ["It is cut in half."]
    assert json.loads((folder / "verdict.json").read_text()) == json.loads(
        json.dumps(found[0].document)
    )
    told = capfd.readouterr().err
    assert "3 records are lost." in told
    assert "It is cut in half." in told


def test_the_only_run_that_cannot_be_read_is_an_error(
    tmp_path: Path, jobs: list[Sequence[Path]]
) -> None:
    with pytest.raises(HistoryUnreadable, match="cut in half"):
        judge(valid(tmp_path / "damaged"))


def test_nothing_is_started_for_paths_none_of_which_is_there(
    tmp_path: Path, jobs: list[Sequence[Path]]
) -> None:
    with pytest.raises(UsageError, match="There is no file or folder"):
        judge(tmp_path / "a", tmp_path / "b")

    assert jobs == []
