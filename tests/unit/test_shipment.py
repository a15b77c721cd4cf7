"""What is sent to the workers of a Spark cluster, and what of its settings is ours."""

import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf

from verifiers.spark import session
from verifiers.spark.session import _configuration, ship


class Context:
    """As much of a Spark context as sends files."""

    def __init__(self, folder: Path) -> None:
        self._temp_dir = str(folder)
        self.sent: list[str] = []

    def addPyFile(self, path: str) -> None:
        self.sent.append(path)


def test_workers_are_sent_the_verifier_and_what_it_imports_once(tmp_path: Path) -> None:
    context: Any = Context(tmp_path)

    ship(context)
    ship(context)

    (archive,) = context.sent
    names = set(zipfile.ZipFile(archive).namelist())
    assert {
        "verifiers/__init__.py",
        "verifiers/scanning/presorted.py",
        "harness/core/op.py",
    } <= names
    assert all(name.endswith(".py") for name in names)


def test_a_cluster_keeps_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else those of a session that another test has started in this process count as ours.
    monkeypatch.setattr(session, "SparkConf", partial(SparkConf, loadDefaults=False))

    theirs = dict(_configuration("spark://somewhere:7077", 2048, ()).getAll())
    ours = dict(_configuration("local[2]", 2048, ()).getAll())

    assert set(theirs) == {
        "spark.master", "spark.app.name", "spark.sql.session.timeZone",
        "spark.python.sql.dataFrameDebugging.enabled", "spark.sql.maxPlanStringLength",
        "spark.sql.ui.explainMode",
    }  # fmt: skip
    assert ours["spark.driver.memory"] == "2048m"
    assert ours["spark.sql.adaptive.enabled"] == "true"
