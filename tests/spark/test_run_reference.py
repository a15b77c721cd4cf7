"""Random histories of runs, hundreds in one job: Spark must find what plain Python finds."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.op import SEQUENCE_BITS
from tests.spark.drawn import PROCESSES, SPAN_NS, Drawn, Row, draw_run
from tests.spark.reference import ANY, Offence, Reference
from verifiers.checking.checker import checkers_of_runs
from verifiers.judging import job, verification
from verifiers.judging.job import verify
from verifiers.run_folder.schema import HISTORY_SCHEMAS

HISTORIES = int(os.environ.get("DRAWN_HISTORIES", "200"))
FIRST_SEED = int(os.environ.get("DRAWN_SEED", "0"))
"""So many are drawn, of seeds from the second on; thousands at night, and others each night."""

AT_ONCE = 500
"""So many go into one job; their processes must have numbers of their own."""

NEEDS_BROKERS = frozenset(
    {
        "replica-divergence", "replica-gap", "epoch-disorder", "hw-regression", "read-beyond-hw",
        "acked-below-min-isr", "unavailable", "hanging-transaction", "broker-ended",
        "isr-not-whole", "two-controllers", "corrupt-batch",
    }
)  # fmt: skip
"""What cannot be told by what clients did."""

NEEDS_ENDINGS = frozenset({"group-stuck", "client-gave-up", "unexplained-answer"})
"""What tells how clients and groups ended, and which answers they got: the stories know of it."""


def drawn(count: int) -> list[Drawn]:
    """Return histories whose numbers are their seeds."""
    return [draw_run(seed) for seed in range(FIRST_SEED, FIRST_SEED + count)]


def among_others(row: Row, number: int) -> Row:
    """Return a row under names that no other history has, and at a time of its own."""
    told = {**row, "topic": f"topic-{number}", "process": row["process"] + number * PROCESSES}
    if row.get("value") is not None:
        told["value"] = row["value"] + (number * PROCESSES << SEQUENCE_BITS)
    if row.get("f") is not None and row["partition"] is None:
        told["topic"] = None
    for name in ("invoke_ns", "complete_ns", "time_ns"):
        if name in row:
            told[name] = row[name] + number * SPAN_NS
    if row.get("f") == "offset-fetch":
        told["detail"] = str(int(row["detail"]) + number * SPAN_NS)
    if row.get("f") == "subscribe":
        told["detail"] = row["detail"].replace("the group", f"group {number}")
    return told


def write_together(runs: Sequence[Drawn], path: Path) -> Path:
    """Write histories into one run folder, each in a topic and with processes of its own."""
    path.mkdir(parents=True)
    for dataset, declared in HISTORY_SCHEMAS.items():
        rows = [
            among_others(row, number)
            for number, run in enumerate(runs)
            for row in getattr(run, dataset)
        ]
        folder = path / "history" / dataset
        folder.mkdir(parents=True)
        schema = to_arrow_schema(declared)
        if rows or dataset != "txn":
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "0.parquet")
    ends = [{**end, "topic": f"topic-{n}"} for n, run in enumerate(runs) for end in run.ends]
    (path / "history" / "ends.json").write_text(json.dumps(ends))
    clients: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        base = number * PROCESSES
        clients += [{"process": base + p, "mode": "subscribe"} for p in run.subscribed]
        clients += [{"process": base + p, "isolation": "read_uncommitted"} for p in run.uncommitted]
    meta = {
        "schema": 1,
        "run": path.name,
        "origin_ns": 0,
        "kafka": "4.3.1",
        "contract": {"acks": "all", "min_isr": 2, "replication_factor": 3},
        "topics": [
            {"name": f"topic-{n}", "partitions": 2, "replication_factor": 3}
            for n in range(len(runs))
        ],
        "clients": clients,
        "state": "complete",
    }
    (path / "run.json").write_text(json.dumps(meta))
    return path


def found_by_spark(path: Path, count: int) -> list[list[Row]]:
    """Return what was found in each history, under its own names again."""
    found: list[list[Row]] = [[] for _ in range(count)]
    for row in pq.read_table(path / "anomalies").to_pylist():
        # One without a topic is told by its process.
        number = (
            int(row["topic"].removeprefix("topic-"))
            if row["topic"] is not None
            else row["process"] // PROCESSES
        )
        base = number * PROCESSES << SEQUENCE_BITS
        detail = dict(row["detail"])
        after = int(detail["after_value"]) - base if "after_value" in detail else None
        value = None if row["value"] is None else row["value"] - base
        found[number].append({**row, "value": value, "after_value": after})
    return found


def unlike(reference: Reference, rows: Sequence[Row]) -> list[str]:
    """Return, line by line, where the two do not agree."""
    spread = reference.spread
    left = [
        Offence(row["anomaly"], row["kind"], row["partition"], row["offset"], row["value"])
        for row in rows
        if not row["anomaly"].endswith("nonmonotonic-send")
        or not {row["value"], row["after_value"]} & spread
    ]
    lines = []
    # What is known exactly is looked for first, so that an open one cannot take its place.
    for offence in sorted(reference.found, key=lambda one: _open(one)):
        match = next((one for one in left if _matches(offence, one)), None)
        if match is None:
            lines.append(f"missed: {offence}")
        else:
            left.remove(match)
    return lines + [f"raised: {one}" for one in left]


def _open(offence: Offence) -> int:
    return [offence.partition, offence.offset, offence.value].count(ANY)


def _matches(expected: Offence, found: Offence) -> bool:
    pairs = [
        (getattr(expected, name), getattr(found, name)) for name in Offence.__dataclass_fields__
    ]
    return all(one is ANY or one == other for one, other in pairs)


@pytest.mark.parametrize("few_rows", [1_000_000, 1], ids=["record by record", "digest first"])
def test_spark_finds_what_a_reference_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    monkeypatch.setattr(job, "FEW_ROWS", few_rows)
    monkeypatch.setattr(verification, "FEW_ROWS", few_rows)
    runs = drawn(HISTORIES)
    references = [Reference(run) for run in runs]
    wrong: dict[int, list[str]] = defaultdict(list)

    for begin in range(0, len(runs), AT_ONCE):
        some = runs[begin : begin + AT_ONCE]
        path = write_together(some, tmp_path / f"run-{begin}")
        report = verify(path, master="local[2]", say=lambda _: None)
        assert "crashed" not in report.checkers.values()
        for number, rows in enumerate(found_by_spark(path, len(some)), start=begin):
            if lines := unlike(references[number], rows):
                wrong[number] = lines

    told = [f"seed {FIRST_SEED + n}: {line}" for n, lines in wrong.items() for line in lines]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(runs)} histories differ", *told[:40]])
    # The draw is worth something only if it comes across every anomaly, and across none.
    seen = Counter(one.anomaly for reference in references for one in reference.found)
    assert set(seen) == set(checkers_of_runs()) - NEEDS_BROKERS - NEEDS_ENDINGS
    assert any(not reference.found for reference in references)
