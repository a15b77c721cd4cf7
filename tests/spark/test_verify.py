"""From a run's folder to its verdict."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.core.errors import HistoryUnreadable, UsageError
from harness.core.verdict import Verdict
from tests.spark.ops import (
    STEP_NS,
    Folder,
    Rec,
    end,
    filler,
    final,
    info,
    ok,
    poll,
)
from verifiers.adequacy.rule import RULES
from verifiers.checking.checker import CHECKERS, checker, checkers_of_runs
from verifiers.judging import verification
from verifiers.judging.job import Report, verify, verify_all, write_verdict
from verifiers.judging.warm_up import write_run

GOOD = Folder(
    [*filler(120), ok(1, 0, 0), poll(9, 0, Rec(1, 0, 0)), final(Rec(1, 0, 0))], whole=True
)
LOST = GOOD.but(ops=[*GOOD.ops, ok(1, 1, 1), ok(1, 2, 2)])

RUNS = {
    "good": GOOD,
    "lost": LOST,
    "lost by the dozen": GOOD.but(ops=[*GOOD.ops, *(ok(1, n, n) for n in range(1, 41))]),
    "provoked": LOST.but(contract={"acks": "1"}, meta={"provokes": ["lost-write"]}),
    "unseen": LOST.but(ends=[end(high=3, reached=1), end(partition=1)]),
    "five seconds": GOOD.but(
        ops=[ok(1, 0, 0), ok(1, 1, 1), info(1, 2), poll(9, 0, Rec(1, 0, 0)), ok(1, 3, 3)],
        # A run of so many minutes has bins of a second.
        meta={"phases": [{"name": "faults", "from_ns": 0, "to_ns": 1500 * STEP_NS}]},
    ),
}

WARM_UP = "what the class archive is made from"
OLD = "of before there were transactions"

pytestmark = pytest.mark.usefixtures("spark")


def without_transactions(path: Path) -> Path:
    """Take away what a run's folder has held since there are transactions."""
    for dataset in ("send", "poll", "final"):
        for file in (path / "history" / dataset).glob("*.parquet"):
            pq.write_table(pq.read_table(file).drop_columns(["txn"]), file)
    (path / "history" / "txn").rmdir()
    return path


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A run's folder, and the report on it."""

    path: Path
    report: Report


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Judged]:
    """What came of all RUNS, and of two more; they were verified together."""
    folder = tmp_path_factory.mktemp("runs")
    paths = {name: run.write(folder / name.replace(" ", "-")) for name, run in RUNS.items()}
    paths[WARM_UP] = write_run(folder / "warm-up")
    paths[OLD] = without_transactions(GOOD.write(folder / "old"))
    reports = verify_all(list(paths.values()), master="local[2]", say=lambda _: None)
    found = {}
    for (name, path), report in zip(paths.items(), reports, strict=True):
        assert isinstance(report, Report), report
        found[name] = Judged(path=path, report=report)
    return found


def untimed(report: Report) -> Report:
    return replace(report, timing_s={})


def test_a_run_in_order_with_a_proven_fault_is_valid(judged: Mapping[str, Judged]) -> None:
    report = judged["good"].report

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())
    assert report.anomalies == {}
    assert set(report.checkers) == set(checkers_of_runs())
    assert set(report.checkers.values()) == {"ran", "skipped"}
    states = {name: answer["state"] for name, answer in report.adequacy.items()}
    assert states == dict.fromkeys(RULES, "held") | {"losses-explained": "not applicable"}


def test_the_verdict_file_says_what_the_report_says(judged: Mapping[str, Judged]) -> None:
    lost_run = judged["lost"]

    written = json.loads(write_verdict(lost_run.path, lost_run.report).read_text())

    assert written["schema"] == 1
    assert written["verdict"] == "INVALID"
    assert written["reasons"][0].startswith("lost-write was found 2 times: acks=all")
    assert written["counts"] | {"reserved": 0} == {
        "sends": 123,
        "acked": 123,
        "failed": 0,
        "indeterminate": 0,
        "reserved": 0,
        "read": 1,
        "final": 121,
    }
    lost = written["anomalies"]["lost-write"]
    assert (lost["count"], lost["permitted"]) == (2, False)
    assert [example["offset"] for example in lost["examples"]] == [1, 2]
    assert lost["examples"][0]["detail"]["producer"] == "1"
    times = [example["time_ns"] for example in lost["examples"]]
    assert [lost["first_ns"], lost["last_ns"]] == times
    assert written["faults"][0]["proven"] is True
    assert written["timing_s"]["start"] == 5.0


def test_all_that_was_found_lies_in_the_folder(judged: Mapping[str, Judged]) -> None:
    run = judged["lost by the dozen"]

    lost = run.report.anomalies["lost-write"]
    assert lost.count == 40
    assert [example.offset for example in lost.examples] == list(range(1, 33))
    found = pq.read_table(run.path / "anomalies")
    assert found.num_rows == 40
    assert set(found["anomaly"].to_pylist()) == {"lost-write"}


def test_verifying_again_gives_the_same_verdict(
    tmp_path: Path, judged: Mapping[str, Judged]
) -> None:
    first = judged["lost"]
    # Beside the first verdict lies all that the first time left.
    again = shutil.copytree(first.path, tmp_path / first.path.name)

    second = verify(again, master="local[2]")

    assert untimed(first.report) == untimed(second)
    assert second.verdict is Verdict.INVALID


@pytest.mark.parametrize("name", ["good", "lost"])
def test_a_long_history_is_judged_the_same_by_digests_and_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Mapping[str, Judged], name: str
) -> None:
    monkeypatch.setattr(verification, "FEW_ROWS", 1)
    path = RUNS[name].write(tmp_path / name)

    told: list[str] = []
    by_digest = verify(path, master="local[2]", say=told.append)

    # Beside the others there was no digest: a short history is looked at record by record.
    exactly = judged[name]
    assert untimed(by_digest) == untimed(exactly.report)
    assert (path / "lanes.json").read_text() == (exactly.path / "lanes.json").read_text()
    assert by_digest.verdict is (Verdict.VALID if name == "good" else Verdict.INVALID)
    assert ("All digests agree." in told) is (name == "good")


def test_a_long_history_can_be_looked_at_record_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: Mapping[str, Judged]
) -> None:
    monkeypatch.setattr(verification, "FEW_ROWS", 1)

    told: list[str] = []
    path = LOST.write(tmp_path / "lost")
    exactly = verify(path, master="local[2]", say=told.append, exact=True)

    assert untimed(exactly) == untimed(judged["lost"].report)
    assert not [sentence for sentence in told if "digest" in sentence]


def test_what_was_provoked_permitted_and_found_is_a_pass(judged: Mapping[str, Judged]) -> None:
    report = judged["provoked"].report

    assert report.verdict is Verdict.VALID
    assert report.anomalies["lost-write"].permitted
    assert "acks=1" in report.anomalies["lost-write"].why


def test_records_beyond_the_final_read_are_unseen_and_the_run_unknown(
    judged: Mapping[str, Judged],
) -> None:
    report = judged["unseen"].report

    assert report.verdict is Verdict.UNKNOWN
    assert {name: finding.count for name, finding in report.anomalies.items()} == {"unseen": 2}


@pytest.fixture
def broken_checker() -> Any:
    """Return a function that registers checkers for this test alone."""
    list(CHECKERS)
    known = dict(CHECKERS._entries)

    def register(name: str, check: Any) -> None:
        checker(name)(check)

    yield register
    CHECKERS._entries.clear()
    CHECKERS._entries.update(known)


def crash_at_once(values: DataFrame) -> DataFrame:
    raise ZeroDivisionError("nothing to divide")


def crash_on_data(sends: DataFrame) -> DataFrame:
    bad = F.raise_error(F.lit("a row that nobody foresaw")).cast("string")
    return sends.select(
        "topic", "partition", "offset", "value", "process",
        F.col("complete_ns").alias("time_ns"), bad.alias("kind"),
        F.create_map(F.lit("a"), F.lit("b")).alias("detail"),
    )  # fmt: skip


def test_a_checker_that_crashes_leaves_its_trace_and_stops_no_other(
    tmp_path: Path, broken_checker: Any
) -> None:
    broken_checker("broken-at-once", crash_at_once)
    broken_checker("broken-on-data", crash_on_data)
    path = LOST.but(contract={"acks": "1"}).write(tmp_path / "run")

    report = verify(path, master="local[2]", say=lambda _: None)

    assert report.verdict is Verdict.UNKNOWN
    assert report.checkers["lost-write"] == "ran"
    assert report.anomalies["lost-write"].count == 2
    for number, name in enumerate(("broken-at-once", "broken-on-data")):
        assert report.checkers[name] == "crashed"
        assert "Traceback" in (path / f"crash-{name}.txt").read_text()
        assert report.reasons[number].startswith(f"The checker {name} crashed (")


def test_the_lanes_count_what_happened_second_by_second(judged: Mapping[str, Judged]) -> None:
    lanes = json.loads((judged["five seconds"].path / "lanes.json").read_text())

    assert lanes["rows"] == [
        [0, 1, 0, 0, 500.0, 500.0, 500.0, 0],
        [1, 1, 0, 0, 500.0, 500.0, 500.0, 0],
        [2, 0, 1, 0, None, None, None, 0],
        [3, 0, 0, 0, None, None, None, 1],
        [4, 1, 0, 0, 500.0, 500.0, 500.0, 0],
    ]
    (partition,) = lanes["partitions"]
    assert (partition["acked"], partition["gap_s"]) == (3, 3.0)
    assert partition["gap_from_ns"] == 1_500_000_000


def test_a_folder_without_run_json_is_no_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run folder: it has no run\.json"):
        verify(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{", r"run\.json cannot be read as JSON"),
        ("run.json", "{}", r"run\.json does not say what was run"),
        ("faults.jsonl", '{"id": "1"}\n', r"faults\.jsonl, line 1 is no event of a fault"),
        ("faults.jsonl", "nonsense\n", r"faults\.jsonl, line 1 is not JSON"),
        ("history/ends.json", "[{}]", r"ends\.json does not say how far"),
        ("history/send/1.parquet", "PAR1", r"send/1\.parquet cannot be read as Parquet"),
        ("history/final/900.parquet", "", r"900\.parquet cannot be read as Parquet .*0 bytes"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    path = GOOD.write(tmp_path / "run")
    (path / file).write_text(content)

    with pytest.raises(HistoryUnreadable, match=message):
        verify(path)


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_parquet_file_cut_short_is_named(tmp_path: Path, kept: float) -> None:
    path = GOOD.write(tmp_path / "run")
    file = path / "history" / "send" / "50.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * kept)])

    with pytest.raises(HistoryUnreadable, match=r"50\.parquet cannot be read as Parquet"):
        verify(path)


def test_a_parquet_file_damaged_within_is_named(tmp_path: Path) -> None:
    path = GOOD.write(tmp_path / "run")
    file = path / "history" / "send" / "50.parquet"
    whole = bytearray(file.read_bytes())
    whole[4:400] = bytes(396)
    file.write_bytes(whole)

    with pytest.raises(HistoryUnreadable, match="is damaged"):
        verify(path, master="local[2]")


def test_a_file_damaged_within_is_named_in_a_long_history_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "FEW_ROWS", 1)
    path = GOOD.write(tmp_path / "run")
    file = path / "history" / "send" / "50.parquet"
    whole = bytearray(file.read_bytes())
    whole[4:400] = bytes(396)
    file.write_bytes(whole)

    with pytest.raises(HistoryUnreadable, match=r"50\.parquet"):
        verify(path, master="local[2]")


def test_a_parquet_file_without_a_column_is_named(tmp_path: Path) -> None:
    path = GOOD.write(tmp_path / "run")
    file = path / "history" / "final" / "900.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["offset"]), file)

    with pytest.raises(HistoryUnreadable, match=r"900\.parquet has no column offset"):
        verify(path)


def test_a_folder_of_before_there_were_transactions_is_verified(
    judged: Mapping[str, Judged],
) -> None:
    report = judged[OLD].report

    assert (report.verdict, report.reasons) == (Verdict.VALID, ())


def test_the_session_runs_in_utc_and_without_a_web_server(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None


def test_the_history_that_the_class_archive_is_made_from_can_be_verified(
    judged: Mapping[str, Judged],
) -> None:
    report = judged[WARM_UP].report

    assert report.checkers
    assert "crashed" not in report.checkers.values()
