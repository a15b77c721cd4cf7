"""Paths of this machine, judged by a Spark whose default file system is another's."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.core.verdict import Verdict
from tests.spark.everything import write_everything
from verifiers.judging.job import verify_all
from verifiers.ops.job import verify_histories

HISTORIES = Path(__file__).parent / "histories"


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """Spark's default file system is one that does not even answer."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://127.0.0.1:1")
    yield
    settings.set("fs.defaultFS", before)


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
