"""Paths of this machine, judged by a Spark whose default file system is another's."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.campaigns.conduct import judge
from harness.core.run_dir import RunDir
from harness.core.verdict import Verdict
from tests.spark.everything import write_everything
from verifiers.judging.job import verify_all
from verifiers.ops.job import verify_histories
from verifiers.run_folder.remote import archive_run, fetch_run
from verifiers.spark import storage

HISTORIES = Path(__file__).parent / "histories"


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """Spark's default file system is one that does not even answer."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    yield
    settings.set("fs.defaultFS", before)


# By day the run folder of the last test lies on another file system too.
@pytest.mark.nightly
@pytest.mark.usefixtures("elsewhere")
def test_a_run_folder_is_judged_whatever_the_default_file_system_is(tmp_path: Path) -> None:
    one = write_everything(tmp_path / "one")
    two = shutil.copytree(one, tmp_path / "two")

    (alone,) = verify_all([one], master="local[2]", exact=True)
    together = verify_all([one, two], master="local[2]")

    assert {report.verdict for report in (alone, *together)} == {Verdict.VALID}  # type: ignore[union-attr]
    assert not [*tmp_path.rglob("*.draft"), *tmp_path.glob("*/.verify-*")]


@pytest.mark.usefixtures("elsewhere")
def test_an_op_history_is_judged_whatever_the_default_file_system_is() -> None:
    paths: list[Path | str] = [
        HISTORIES / "clean.jsonl",
        f"file://{HISTORIES / 'lost-write.jsonl'}",
    ]

    clean, aborted = verify_histories(paths, master="local[2]")

    assert clean.verdict is Verdict.VALID
    assert aborted.verdict is Verdict.INVALID


def test_what_only_spark_can_open_is_judged_by_its_own_reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view of Hadoop's own on folders of this machine: pyarrow knows no such scheme."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.lab.link./store", f"file://{tmp_path}/store")
    (tmp_path / "store").mkdir()
    store = "viewfs://lab/store"
    run = archive_run(RunDir.open(write_everything(tmp_path / "here" / "one")), store)
    history = storage.join(store, "clean.jsonl")
    storage.put(HISTORIES / "clean.jsonl", history)
    fetched = fetch_run(run, tmp_path)

    # Then passes over the history, which tasks make by pyarrow elsewhere, are Spark's too.
    monkeypatch.setattr("verifiers.judging.verification.FEW_ROWS", 1)
    result = judge(fetched, master="local[2]")
    (clean,) = verify_histories([history], master="local[2]")

    assert (result.report.verdict, clean.verdict) == (Verdict.VALID, Verdict.VALID)
    there = storage.files_below(run)
    assert {"verdict.json", "report.html", "lanes.json"} <= there.keys()
    assert [file for file in there if file.startswith("anomalies/")]
