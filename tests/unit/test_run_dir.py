"""The run folder: made once, found again, and readable after a crash."""

import os
from pathlib import Path

import pytest

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.run_dir import Journal, RunDir, canonical_json, write_atomically


def test_latest_points_to_the_newest_run(tmp_path: Path) -> None:
    RunDir.create(tmp_path, scenario="mixed", seed=1)
    second = RunDir.create(tmp_path, scenario="mixed", seed=2)

    assert (tmp_path / "latest").resolve() == second.path


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    runs = [RunDir.create(tmp_path, scenario="mixed", seed=7) for _ in range(3)]

    assert len({run.path for run in runs}) == 3


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("not a folder")

    with pytest.raises(UsageError, match="--store"):
        RunDir.create(tmp_path / "store", scenario="mixed", seed=1)


def test_a_folder_without_run_json_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        RunDir.open(tmp_path)
    with pytest.raises(UsageError, match="no run folder"):
        RunDir.open(tmp_path / "nowhere")


def test_updates_merge_into_run_json(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, scenario="mixed", seed=1)

    run.update(state="running", seed=1)
    run.update(state="complete")

    assert run.meta() == {"state": "complete", "seed": 1}


def test_a_broken_run_json_names_the_file(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, scenario="mixed", seed=1)
    (run.path / "run.json").write_text("{")

    with pytest.raises(HistoryUnreadable, match=r"run\.json cannot be read"):
        run.meta()


def test_a_half_written_last_line_is_what_a_crash_leaves(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, scenario="mixed", seed=1)
    (run.path / "faults.jsonl").write_text('{"id": "1"}\n{"id": "2", "ev')

    assert list(run.lines("faults.jsonl")) == [{"id": "1"}]
    assert list(run.lines("nothing.jsonl")) == []


def test_a_broken_line_elsewhere_is_named(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, scenario="mixed", seed=1)
    (run.path / "faults.jsonl").write_text('{"id": "1"}\n{"id": \n{"id": "3"}\n')

    with pytest.raises(HistoryUnreadable, match="line 2"):
        list(run.lines("faults.jsonl"))


def test_a_journal_is_on_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "faults.jsonl"
    journal = Journal(path)
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        synced.append(path.read_text())

    monkeypatch.setattr(os, "fsync", fsync)

    journal.append({"id": "1"})
    unsynced = path.read_text()
    journal.append({"id": "2", "victims": [2]}, sync=True)

    assert unsynced == '{"id": "1"}\n'
    assert synced == ['{"id": "1"}\n{"id": "2", "victims": [2]}\n']
    journal.close()


def test_equal_documents_have_equal_bytes() -> None:
    assert canonical_json({"b": 1, "a": [2]}) == canonical_json({"a": [2], "b": 1})


def test_an_atomic_write_replaces_the_file_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("old")

    with path.open() as reader:
        write_atomically(path, "{}")
        # Whoever has the old file open still reads the whole old text.
        assert reader.read() == "old"

    assert path.read_text() == "{}"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
