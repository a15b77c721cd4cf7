"""The lanes: how wide their bins are, and that a scan draws what Spark draws."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.contract import Contract
from tests.spark.conftest import to_history
from verifiers.frames.history import History
from verifiers.run_folder.folder import RunInput
from verifiers.run_folder.member import Member
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.scanning import throughput_scan
from verifiers.scanning.throughput import MOST_BINS, bin_width_ns, draw

S = 1_000_000_000


def run_of(seconds: float) -> dict[str, Any]:
    return {"phases": [{"name": "faults", "from_ns": 5 * S, "to_ns": 5 * S + round(seconds * S)}]}


@pytest.mark.parametrize(
    ("seconds", "width_s"),
    [
        (1, 0.1),
        (199.8, 0.1),
        (200, 0.2),
        (399, 0.2),
        (600, 0.5),
        (1500, 1),
        (3600, 2),
        (8 * 3600, 20),
        (100 * 3600, 200),
    ],
)
def test_bins_are_as_fine_as_their_number_allows(seconds: float, width_s: float) -> None:
    width_ns = bin_width_ns(run_of(seconds), 5 * S)

    assert width_ns == round(width_s * S)
    assert seconds * S / width_ns + 2 <= MOST_BINS


def test_a_run_without_any_end_has_bins_of_a_second() -> None:
    assert bin_width_ns({"phases": [{"name": "start", "from_ns": 0, "to_ns": None}]}, 0) == S


def sent(chance: random.Random, length: int) -> list[dict[str, Any]]:
    """Return sends of three producers; some refused, some in doubt, some never invoked."""
    rows, now = [], 3 * S
    for op in range(length):
        now += chance.choice((0, 1, 900_000, 4_000_000, 40_000_000))
        kind = chance.choice(("ok", "ok", "ok", "fail", "info"))
        known = kind == "ok" or chance.random() < 0.5
        invoked = kind != "info" or chance.random() < 0.7
        rows.append(
            {
                "process": op % 3,
                "op": op,
                "type": kind,
                "topic": chance.choice(("a", "b")),
                "partition": chance.randrange(3) if known else None,
                "offset": op if kind == "ok" else None,
                "value": op,
                "invoke_ns": now - chance.randrange(50_000_000) if invoked else None,
                "complete_ns": now if kind == "ok" or chance.random() < 0.9 else None,
                "error": None,
                "txn": None,
            }
        )
    return rows


def read(length: int) -> list[dict[str, Any]]:
    return [
        {
            "process": 9, "op": n, "position": 0, "topic": "a", "partition": 0, "offset": n,
            "value": n, "time_ns": 3 * S + n * 7_000_000, "problem": None, "txn": None,
        }
        for n in range(length)
    ]  # fmt: skip


def recorded(spark: SparkSession, path: Path, rows: dict[str, Sequence[dict[str, Any]]]) -> History:
    """Return a history of three datasets that lie in files, a few rows in each row group."""
    frames, files = {}, {}
    for dataset, some in rows.items():
        schema = HISTORY_SCHEMAS[dataset]
        arrow = pa.schema([f.with_nullable(True) for f in to_arrow_schema(schema, timezone="UTC")])
        names = []
        for process in sorted({row["process"] for row in some}):
            mine = [row for row in some if row["process"] == process]
            name = str(path / f"{dataset}-{process}.parquet")
            pq.write_table(pa.Table.from_pylist(mine, schema=arrow), name, row_group_size=50)
            names.append(name)
        frames[dataset] = spark.read.schema(schema).parquet(*names)
        files[dataset] = tuple(names)
    empty = to_history(spark, [])
    return History(
        sends=frames["send"],
        polls=frames["poll"],
        final=frames["final"],
        txns=empty.txns,
        events=empty.events,
        ends=empty.ends,
        aborted_reads=empty.aborted_reads,
        files=files,
    )


@pytest.mark.parametrize("stretch_rows", [30, 10_000])
def test_a_scan_draws_what_spark_draws(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch_rows: int
) -> None:
    monkeypatch.setattr(throughput_scan, "_STRETCH_ROWS", stretch_rows)
    monkeypatch.setattr(throughput_scan, "_FEWEST_ROWS", stretch_rows)
    sends = sent(random.Random(stretch_rows), 400)
    history = recorded(spark, tmp_path, {"send": sends, "poll": read(90), "final": read(70)})

    run = RunInput(
        path=tmp_path, meta=run_of(100), contract=Contract(), faults=(), ends=(),
        origin_ns=2 * S + 3,
    )  # fmt: skip
    member = Member(run=run)

    scanned = throughput_scan.scan_throughput(history, member)

    assert scanned.bin_ns == S // 10
    assert scanned == draw(history, [member])[0]
    assert len(scanned.partitions) == 6
    assert scanned.counts.reserved > 0
