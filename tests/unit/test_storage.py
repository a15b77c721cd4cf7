"""Names of files on any storage: paths of this machine, and URIs."""

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import EnvironmentBroken
from verifiers.run_folder.large_files import LargeFiles, is_large
from verifiers.spark import storage

URI = "hdfs://name:8020/runs/one"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("/runs/one/", "/runs/one"),
        (Path("/runs/one"), "/runs/one"),
        ("file:/runs/one", "/runs/one"),
        ("file:///runs/one", "/runs/one"),
        (f"{URI}/", URI),
        ("s3a://bucket/one", "s3a://bucket/one"),
    ],
)
def test_a_name_is_an_absolute_path_or_a_uri(given: str | Path, name: str) -> None:
    assert storage.name_of(given) == name


def test_a_relative_path_is_one_of_this_machine() -> None:
    assert storage.name_of("runs/latest") == str(Path.cwd() / "runs/latest")
    assert not storage.is_uri("runs/12:30/one")


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        # Spark would look for a path without a scheme in its default file system.
        ("/runs/one", "file:///runs/one"),
        (URI, URI),
        ("s3://bucket/one", "s3a://bucket/one"),
        ("viewfs:/runs/one", "viewfs:/runs/one"),
    ],
)
def test_spark_is_given_uris_only(name: str, uri: str) -> None:
    assert storage.spark_name(name) == uri


def test_tasks_open_what_pyarrow_knows() -> None:
    assert storage.opens_in_tasks("/runs/one")
    assert storage.opens_in_tasks(URI)
    assert storage.opens_in_tasks("s3a://bucket/one")
    assert not storage.opens_in_tasks("viewfs://cluster/runs/one")


def test_a_scheme_that_only_spark_knows_needs_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests beside this one may have started Spark.
    monkeypatch.setattr(storage, "_others", [])
    storage._filesystem.cache_clear()
    with pytest.raises(EnvironmentBroken, match=r"Only Spark opens viewfs://"):
        storage.filesystem("viewfs://cluster/runs/one")


def test_without_its_package_hdfs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("hdfs_native"):
            raise ImportError(name)
        return load(name, *rest, **more)

    for module in [name for name in sys.modules if name.startswith("hdfs_native")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(EnvironmentBroken, match=r"pip install 'kafka-chaos\[hdfs\]'"):
        storage.filesystem("hdfs://nowhere:1/runs")


def test_a_file_that_is_put_appears_whole_and_replaces_what_was_there(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for text in ("old", "new"):
        source.write_text(text)
        storage.put(source, str(tmp_path / "there" / "file"))

    assert [file.read_text() for file in (tmp_path / "there").iterdir()] == ["new"]


def test_a_folder_that_is_moved_replaces_what_was_there(tmp_path: Path) -> None:
    for folder, file in (("one", "a"), ("two", "b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(file)

    storage.replace_folder(str(tmp_path / "one"), str(tmp_path / "two"))

    assert storage.files_below(str(tmp_path)) == {"two/a": 1}


def test_two_writers_of_one_file_have_two_names() -> None:
    assert storage.unused(URI, "part-0", ".parquet") != storage.unused(URI, "part-0", ".parquet")


# -- the large files of a run ----------------------------------------------------------------------

SEGMENT = "cluster/broker-1/data/orders-0/00000000000000000000.log"


@pytest.mark.parametrize(
    ("file", "large"),
    [
        ("history/send/1.parquet", True),
        (SEGMENT, True),
        ("cluster/broker-1/data-2/orders-0/00000000000000000000.log", True),
        ("history/ends.json", False),
        ("cluster/broker-1/server.log", False),
        ("cluster/broker-1/data/replication-offset-checkpoint", False),
        ("cluster/broker-1/metadata/00000000000000000000.log", False),
        ("cluster/broker-1/transactions/__transaction_state-0/00000000000000000000.log", False),
    ],
)
def test_histories_and_segments_are_large(file: str, *, large: bool) -> None:
    assert is_large(file) is large


def test_the_large_files_of_a_run_elsewhere_are_named_there(tmp_path: Path) -> None:
    sizes = {"history/send/1.parquet": 7, "history/send/2.parquet": 8, SEGMENT: 9}
    LargeFiles(folder=tmp_path, home=URI, sizes_bytes=sizes).note()

    large = LargeFiles.of(tmp_path)

    assert large.elsewhere
    files = large.within(tmp_path / "history" / "send", ".parquet")
    assert [large.name(file) for file in files] == [
        f"{URI}/history/send/1.parquet",
        f"{URI}/history/send/2.parquet",
    ]
    assert [large.size_bytes(file) for file in files] == [7, 8]
    (log,) = large.folders_within(tmp_path / "cluster" / "broker-1" / "data")
    assert log.name == "orders-0"
    assert large.within(log, ".log") == [tmp_path / SEGMENT]


def test_the_large_files_of_a_run_here_are_its_own(tmp_path: Path) -> None:
    file = tmp_path / "history" / "send" / "1.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"1234")

    large = LargeFiles.of(tmp_path)

    assert not large.elsewhere
    assert large.within(file.parent, ".parquet") == [file]
    assert large.folders_within(tmp_path / "history") == [file.parent]
    assert (large.size_bytes(file), large.name(file)) == (4, str(file))
