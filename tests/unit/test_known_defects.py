"""The suites forgive three known defects of others, told by their traces, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core.verdict import Verdict
from tests.suites.known_defects import assert_nothing_new, known_defects, unexplained_offences

LOST = {"anomaly": "lost-write", "partition": 2, "offset": 59, "value": 639, "process": 2}
READ = {"anomaly": "G1a", "partition": 0, "offset": 257, "value": 387, "process": 0}
TORN = {"anomaly": "torn-transaction", "partition": 2, "offset": 59, "value": None, "process": 2}
PASSED = {"anomaly": "poll-skip", "partition": 2, "offset": 60, "value": 700, "process": 5}
SKIPPED_MARKER = "Couldn't find leader endpoint for partitions Set(orders-7, orders-0) while"


def send(process: int, txn: int, value: int, **fields: Any) -> dict[str, Any]:
    row = {"topic": "orders", "partition": 2, "offset": None, "type": "fail", "error": None}
    return row | {"process": process, "txn": txn, "value": value} | fields


def write(folder: Path, datasets: dict[str, pa.Table]) -> None:
    for name, table in datasets.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "1.parquet")


def folder_of(tmp_path: Path, sends: list[dict[str, Any]], read: list[int], log: str = "") -> Path:
    found = [(LOST, []), (READ, []), (TORN, [("txn", "18")]), (PASSED, [("after_offset", "58")])]
    rows = [row | {"detail": detail} for row, detail in found]
    datasets = {
        "history/send": pa.Table.from_pylist(sends),
        "history/final": pa.table({"value": pa.array(read, pa.int64())}),
        "anomalies": pa.Table.from_pylist(rows),
    }
    write(tmp_path, datasets)
    (tmp_path / "cluster" / "broker-1").mkdir(parents=True)
    (tmp_path / "cluster" / "broker-1" / "server.log").write_text(log)
    anomalies = {row["anomaly"]: {"permitted": False} for row, _ in found}
    (tmp_path / "verdict.json").write_text(json.dumps({"anomalies": anomalies}))
    return tmp_path


def anomalies(run_dir: Path) -> list[str]:
    return [row["anomaly"] for row in unexplained_offences(run_dir, known_defects(run_dir))]


def test_a_record_whose_number_a_purged_one_had_is_explained_with_its_transaction(
    tmp_path: Path,
) -> None:
    purged = send(2, 15, 630, error="_PURGE_QUEUE")
    told = send(2, 18, 639, type="ok", offset=59)

    assert anomalies(folder_of(tmp_path, [purged, told], [])) == ["G1a"]


@pytest.mark.parametrize(
    "purged",
    [
        send(2, 15, 630),
        send(3, 15, 630, error="_PURGE_QUEUE"),
        send(2, 15, 630, error="_PURGE_QUEUE", partition=1),
        send(2, 19, 630, error="_PURGE_QUEUE"),
    ],
    ids=["not purged", "another process", "another partition", "purged later"],
)
def test_a_lost_record_without_a_purged_one_before_it_is_not(
    tmp_path: Path, purged: dict[str, Any]
) -> None:
    told = send(2, 18, 639, type="ok", offset=59)

    assert len(anomalies(folder_of(tmp_path, [purged, told], []))) == 4


@pytest.mark.parametrize(
    ("log", "explained"),
    [(SKIPPED_MARKER, True), (SKIPPED_MARKER.replace("Set", "HashSet"), True), ("", False)],
)
def test_an_aborted_record_is_explained_by_a_marker_that_a_broker_says_it_left_out(
    tmp_path: Path, log: str, *, explained: bool
) -> None:
    aborted = send(0, 78, 387, partition=0, offset=257)

    found = anomalies(folder_of(tmp_path, [aborted], [387], log))

    assert ("G1a" not in found) is explained
    assert "lost-write" in found


SENT_AGAIN = {"anomaly": "duplicate", "partition": 5, "offset": 7972, "value": 41, "process": 1}


@pytest.mark.parametrize(
    ("producers", "explained"),
    [
        (((7, 0), (7, 1)), True),
        (((7, 0), (7, 0)), False),
        (((7, 0), (8, 1)), False),
        (((-1, -1), (-1, -1)), False),
    ],
    ids=["its next epoch", "the same epoch", "another producer", "no idempotence"],
)
def test_a_record_sent_again_under_the_next_epoch_of_its_producer_is_explained(
    tmp_path: Path, producers: tuple[tuple[int, int], ...], *, explained: bool
) -> None:
    final = [{"topic": "orders", "partition": 5, "value": 41, "offset": at} for at in (7972, 8018)]
    batches = [
        {"broker": broker, "topic": "orders", "partition": 5, "producer_id": producer,
         "producer_epoch": epoch, "base_offset": at, "last_offset": at + 45}
        for broker in (1, 2)
        for at, (producer, epoch) in zip((7972, 8018), producers, strict=True)
    ]  # fmt: skip
    rows = {
        "history/send": [send(1, 0, 41, type="ok", offset=8018, partition=5)],
        "history/final": final,
        "replicas/batches": batches,
        "anomalies": [SENT_AGAIN | {"detail": [("producer", "1")]}],
    }
    write(tmp_path, {name: pa.Table.from_pylist(found) for name, found in rows.items()})
    (tmp_path / "verdict.json").write_text(
        json.dumps({"verdict": "INVALID", "anomalies": {"duplicate": {"permitted": False}}})
    )

    if explained:
        assert assert_nothing_new(tmp_path) is Verdict.INVALID
    else:
        assert unexplained_offences(tmp_path, known_defects(tmp_path)) != []
