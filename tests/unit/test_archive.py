"""Archives of runs: copies that are whole, or are no runs; and what comes of judging them there."""

import json
from pathlib import Path

import pytest

from harness.core.errors import EnvironmentBroken, UsageError
from harness.core.run_dir import RunDir
from verifiers.run_folder import remote
from verifiers.run_folder.large_files import LargeFiles
from verifiers.run_folder.remote import archive_run, fetch_run, publish
from verifiers.spark import storage

FILES = {
    "run.json": json.dumps({"state": "complete"}),
    "faults.jsonl": "{}\n",
    "history/send/1.parquet": "sends",
    "history/sealed.json": json.dumps(
        {"process-1.arrows": {"bytes": 3, "process": 1, "rows": {"send": 9}}}
    ),
    "history/raw/process-1.arrows": "raw",
    "cluster/broker-1/data/orders-0/00000000000000000000.log": "batches",
    ".verify-left/behind": "",
    "verdict.json.draft": "",
}


def write(path: Path, **changed: str) -> RunDir:
    for name, text in {**FILES, **changed}.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return RunDir.open(path)


def test_a_copy_has_what_a_verification_needs(tmp_path: Path) -> None:
    copy = archive_run(write(tmp_path / "one"), str(tmp_path / "store"))

    assert copy == str(tmp_path / "store" / "one")
    assert list(storage.files_below(copy)) == [
        "cluster/broker-1/data/orders-0/00000000000000000000.log",
        "faults.jsonl",
        "history/sealed.json",
        "history/send/1.parquet",
        "run.json",
    ]


def test_a_run_that_goes_on_is_not_copied(tmp_path: Path) -> None:
    run = write(tmp_path / "one", **{"run.json": json.dumps({"state": "running"})})

    with pytest.raises(UsageError, match="has not ended"):
        archive_run(run, str(tmp_path / "store"))


@pytest.mark.parametrize(
    "changed",
    [
        {"history/raw/process-1.arrows": "longer"},
        {"history/raw/process-2.arrows": "new"},
        {"history/sealed.json": "{}"},
    ],
)
def test_a_run_that_is_not_sealed_is_not_copied(tmp_path: Path, changed: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="is not sealed: `kafka-chaos verify"):
        archive_run(write(tmp_path / "one", **changed), str(tmp_path / "store"))


def test_a_run_that_is_there_already_stays(tmp_path: Path) -> None:
    run = write(tmp_path / "one")
    archive_run(run, str(tmp_path / "store"))

    with pytest.raises(UsageError, match="already"):
        archive_run(run, str(tmp_path / "store"))


def test_a_copy_that_was_interrupted_is_no_run_and_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, store = write(tmp_path / "one"), str(tmp_path / "store")
    put = storage.put

    def fails(source: Path, name: str) -> None:
        if name.endswith("faults.jsonl"):
            raise OSError("no room")
        put(source, name)

    monkeypatch.setattr(storage, "put", fails)
    with pytest.raises(EnvironmentBroken, match="no room"):
        archive_run(run, store)
    left = tmp_path / "store" / "one"
    (left / "of-an-older-copy").write_text("")
    with pytest.raises(UsageError, match=r"it has no run\.json"):
        RunDir.open(left)

    monkeypatch.setattr(storage, "put", put)
    archive_run(run, store)

    assert "of-an-older-copy" not in storage.files_below(str(left))


def test_a_copy_that_is_too_short_never_becomes_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = storage.put

    def cuts(source: Path, name: str) -> None:
        put(source, name)
        if name.endswith(".parquet"):
            Path(name).write_text("s")

    monkeypatch.setattr(storage, "put", cuts)
    with pytest.raises(EnvironmentBroken, match=r"1\.parquet is not as large"):
        archive_run(write(tmp_path / "one"), str(tmp_path / "store"))

    assert not (tmp_path / "store" / "one" / "run.json").exists()


# -- judging there ---------------------------------------------------------------------------------


@pytest.fixture
def fetched(tmp_path: Path) -> RunDir:
    """The small files of a run that lies elsewhere; here that is another folder."""
    write(tmp_path / "there" / "one", **{"crash-old.txt": "", "anomalies/part-9.parquet": "old"})
    (tmp_path / "here").mkdir()
    return fetch_run(str(tmp_path / "there" / "one"), tmp_path / "here")


def test_only_small_files_are_fetched(fetched: RunDir) -> None:
    files = storage.files_below(str(fetched.path))

    assert "history/send/1.parquet" not in files
    assert "cluster/broker-1/data/orders-0/00000000000000000000.log" not in files
    assert not [file for file in files if file.startswith(remote._MADE)]
    large = LargeFiles.of(fetched.path)
    assert sorted((large.sizes_bytes or {}).values()) == [5, 7]


def test_what_came_of_a_verification_is_stored_beside_the_run(
    fetched: RunDir, tmp_path: Path
) -> None:
    for name in ("verdict.json", "report.html", "anomalies/part-0.parquet", "crash-new.txt"):
        (fetched.path / name).parent.mkdir(exist_ok=True)
        (fetched.path / name).write_text("new")
    (fetched.path / "crash-old.txt").unlink()

    publish(fetched.path)

    there = tmp_path / "there" / "one"
    assert (there / "verdict.json").read_text() == "new"
    assert [file.name for file in (there / "anomalies").iterdir()] == ["part-0.parquet"]
    assert [file.name for file in there.glob("crash-*")] == ["crash-new.txt"]


def test_a_name_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no run folder"):
        fetch_run(str(tmp_path / "nowhere"), tmp_path)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "file").write_text("")
    with pytest.raises(UsageError, match="is not a run folder"):
        fetch_run(str(tmp_path / "none"), tmp_path)
