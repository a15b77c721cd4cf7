"""A checker of another package: found by its entry point, run, judged, reported and listed."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from harness.core.verdict import Verdict
from tests.spark.ops import Folder, Rec, filler, final, ok, poll
from verifiers.checking.checker import CHECKERS
from verifiers.judging.job import verify, write_verdict
from verifiers.report import write_report

GOOD = Folder(
    [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))], whole=True
)
MODULE = '''
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from verifiers.checking.checker import Severity, checker, offences
from verifiers.frames.shared import shared_frame


@shared_frame("first_of_each")
def first_of_each(polls: DataFrame) -> DataFrame:
    """Return the first record that was polled of each partition."""
    first = F.min_by(F.struct("offset", "value", "process", "time_ns"), "offset")
    return polls.groupBy("topic", "partition").agg(first.alias("first"))


@checker(
    "first-record-polled",
    severity=Severity.DELAYED,
    one="first record was polled",
    many="first records were polled",
)
def first_record_polled(first_of_each: DataFrame) -> DataFrame:
    """Return the polls of the first record of producer 1."""
    first = first_of_each.select("topic", "partition", "first.*")
    return offences(first.where((F.col("offset") == 0) & (F.col("partition") == 0)), detail={})
'''

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package whose one file is a checker; return the anomaly's name."""
    site = tmp_path / "site"
    about = site / "odd_checkers-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "odd_checkers.py").write_text(MODULE, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-checkers\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[kafka_chaos.checkers]\nfirst = odd_checkers\n")
    # What this process has loaded before is kept, and found again after the test.
    CHECKERS.load()
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "odd_checkers", raising=False)
    monkeypatch.setattr(CHECKERS, "_entries", dict(CHECKERS._entries))
    monkeypatch.setattr(CHECKERS, "_loaded", False)
    return "first-record-polled"


def test_a_checker_of_another_package_is_run_judged_and_reported(
    installed: str, tmp_path: Path
) -> None:
    path = GOOD.write(tmp_path / "run")

    report = verify(path, master="local[2]", say=lambda _: None)
    write_verdict(path, report)
    summary = write_report(path)
    page = (path / "report.html").read_text(encoding="utf-8")

    assert (report.verdict, report.checkers[installed]) == (Verdict.INVALID, "ran")
    assert report.reasons == (
        f"{installed} was found 1 time: No contract permits what a checker finds that says "
        "nothing else (the default).",
    )
    assert summary[0].startswith("✗ INVALID  1 first record was polled.")
    assert f'id="anomaly-{installed}"' in page
    assert f'name="{installed}"' in (path / "junit.xml").read_text(encoding="utf-8")


def test_a_checker_of_another_package_is_listed_with_what_contracts_permit_of_it(
    installed: str,
) -> None:
    listed = [
        CliRunner().invoke(app, ["list", kind, "--json"]) for kind in ("checkers", "contracts")
    ]

    checkers, contracts = (json.loads(result.stdout) for result in listed)
    assert checkers[installed] == "Return the polls of the first record of producer 1."
    assert contracts[installed] == "Never permitted."
