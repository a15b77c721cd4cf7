"""The session: its Java, its settings, and what it need not ask twice."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.errors import EnvironmentBroken
from verifiers.spark import session
from verifiers.spark.arrow import frame_of
from verifiers.spark.columns import INT, TEXT, struct
from verifiers.spark.session import (
    FEW_ROWS,
    MANY_ROWS,
    TINY_ROWS,
    archive_of,
    find_java,
    tuned,
    use_of_archive,
)


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(session, "_USUAL_PLACES", (str(tmp_path / "usual"),))


def test_without_java_the_error_says_how_to_get_it() -> None:
    with pytest.raises(EnvironmentBroken, match=r"no Java was found: install a JRE"):
        find_java()


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    fake_java(tmp_path / "usual", "1.8.0_402")

    with pytest.raises(EnvironmentBroken, match="is version 8"):
        find_java()


def test_what_the_jvm_threw_is_told_and_not_that_it_threw(tmp_path: Path) -> None:
    path = tmp_path / "jvm.log"
    path.write_text(
        "WARN Utils: loopback\n"
        "ERROR SparkContext: Error initializing SparkContext.\n"
        "org.apache.spark.SparkException: Application application_1_0001 failed 2 times\n"
    )

    with path.open("rb") as log:
        assert session._last_words(log) == (
            "org.apache.spark.SparkException: Application application_1_0001 failed 2 times"
        )


def test_java_home_is_preferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "usual", "17.0.15")
    mine = fake_java(tmp_path / "mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))

    assert find_java() == mine


def test_s3a_is_told_what_it_does_not_take_from_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert session._s3a_settings() == {}

    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    assert session._s3a_settings() == {
        "endpoint.region": "eu-west-1",
        "endpoint": "http://127.0.0.1:9000",
        "path.style.access": "true",
    }


def test_an_old_java_home_does_not_hide_a_good_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = fake_java(tmp_path / "usual", "17.0.15")
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))

    assert find_java() == good


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux what is open")
def test_an_open_session_keeps_no_log_open_in_this_process(spark: SparkSession) -> None:
    assert spark.version

    opened = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]

    assert [path for path in opened if "kafka-chaos-spark-" in path] == []


@pytest.mark.parametrize(
    ("rows", "within"), [(FEW_ROWS - 1, ("false", "1")), (MANY_ROWS - 1, ("false", "2"))]
)
def test_a_short_history_is_planned_for_as_one_and_nothing_stays_behind(
    spark: SparkSession, rows: int, within: tuple[str, str]
) -> None:
    before = settings(spark)

    with tuned(spark, rows=rows):
        assert settings(spark) == within

    assert settings(spark) == before


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_the_settings_of_a_long_history_are_the_session_s(
    spark: SparkSession, adaptive: str
) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        with tuned(spark, rows=MANY_ROWS):
            assert settings(spark)[0] == adaptive
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))


def test_only_the_plans_of_a_tiny_history_are_interpreted(spark: SparkSession) -> None:
    compiled = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {key: spark.conf.get(key) for key in compiled}
    for key, value in compiled.items():
        spark.conf.set(key, value)
    try:
        for rows, mode in ((TINY_ROWS - 1, "NO_CODEGEN"), (TINY_ROWS, "FALLBACK")):
            with tuned(spark, rows=rows):
                assert spark.conf.get("spark.sql.codegen.factoryMode") == mode
    finally:
        for key, known in before.items():
            spark.conf.set(key, str(known))


def settings(spark: SparkSession) -> tuple[str | None, str | None]:
    keys = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
    return spark.conf.get(keys[0]), spark.conf.get(keys[1])


def test_a_class_archive_is_used_if_one_was_made_for_that_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java, other = fake_java(tmp_path / "one", "17.0.15"), fake_java(tmp_path / "two", "21.0.1")

    unmade = use_of_archive(java)
    archive_of(java).write_bytes(b"classes")

    assert unmade == []
    assert use_of_archive(java) == [f'"-XX:SharedArchiveFile={archive_of(java)}"']
    assert use_of_archive(other) == []


def test_spark_knows_that_a_frame_of_no_rows_is_empty_when_it_plans(spark: SparkSession) -> None:
    columns = struct(process=INT, topic=TEXT)
    none, two = (frame_of(spark, rows, columns) for rows in ([], [(1, "a"), (None, None)]))

    def most_rows(frame: Any) -> int:
        return int(frame._jdf.queryExecution().optimizedPlan().maxRows().get())

    assert most_rows(none) == most_rows(two.join(none, "process")) == 0
    assert most_rows(two) == 2
    assert [tuple(row) for row in two.collect()] == [(1, "a"), (None, None)]
    assert none.schema == two.schema == columns


def test_a_class_of_java_and_its_method_are_looked_up_once(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm

    assert jvm.functions is jvm.functions
    assert jvm.functions.col is jvm.functions.col
    assert jvm.functions.lit(1).toString() == "1"
    # What changes is asked for each time.
    assert jvm.java.lang.System.out is not jvm.java.lang.System.out


KILLED = """
from pyspark import SparkContext
from harness.core.errors import SparkEnded
from verifiers.spark.session import in_service, open_session, tuned

session = open_session()
try:
    with in_service(session), tuned(session, rows=1):
        SparkContext._gateway.proc.kill()
        SparkContext._gateway.proc.wait()
        session.range(1).count()
except SparkEnded as error:
    print(error)
"""


def test_a_jvm_that_was_killed_is_told_of() -> None:
    # This process has a JVM that others need.
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=300, check=True
    )

    assert "The JVM of Spark ended while a run was verified (exit status -9)" in done.stdout
