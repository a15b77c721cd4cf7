"""A small synthetic folder of a claim's run that was verified, for the tests of expectations."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.run_dir import RunDir
from harness.lab.recorded import RecordedRun
from tests.unit.report_fixture import run_document, verdict_document, write_json, write_lines

TOPIC = "claim"
WITNESSED = {
    "id": "1", "name": "broker_kill", "target": "random", "victims": [1], "injected_at_s": 6.0,
    "healed_at_s": 12.4, "proven": False, "evidence": {"inject": {"observed": True}},
}  # fmt: skip
CHECKERS = (
    *("lost-write", "replica-divergence", "epoch-disorder", "dirty-read"),
    *("consume-skip", "consume-repeat", "lost-commit"),
)
_ANOMALIES = pa.schema(
    [
        ("anomaly", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.int64()),
        ("kind", pa.string()),
        ("detail", pa.map_(pa.string(), pa.string())),
    ]
)


def batch(name: str, first: int, count: int, **more: Any) -> dict[str, Any]:
    """Return the line of a batch whose records were all acknowledged, at offsets as its values."""
    ok = [[first, first, count]] if count else []
    return {"event": "batch", "name": name, "ok": ok, "fail": [], "info": [], "errors": {}} | more


def fact(name: str, value: object) -> dict[str, Any]:
    """Return the line of a fact."""
    return {"event": "fact", "name": name, "value": value}


def anomaly(name: str, offset: int, **detail: str) -> dict[str, Any]:
    """Return a row of the verifier's; value and offset are the same number."""
    return {
        "anomaly": name, "topic": TOPIC, "partition": 0, "offset": offset, "value": offset,
        "kind": None, "detail": detail,
    }  # fmt: skip


def lost(values: Iterable[int]) -> list[dict[str, Any]]:
    """Return the rows of lost records."""
    return [anomaly("lost-write", value) for value in values]


def recorded_run(
    folder: Path,
    *,
    lines: list[dict[str, Any]],
    anomalies: list[dict[str, Any]] | None = None,
    kafka: str = "4.3.1",
    complete: bool = True,
    faults: list[Mapping[str, Any]] | None = None,
    checkers: Iterable[str] = CHECKERS,
    **run: object,
) -> RecordedRun:
    """Write a run folder and return what it records.

    Args:
        folder: where to.
        lines: of lab.jsonl.
        anomalies: that the verifier found.
        kafka: version.
        complete: whether the final read got to the end.
        faults: of verdict.json.
        checkers: those that ran.
        run: fields of run.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    meta = run_document(kafka=kafka, claim=TOPIC, cluster={"metadata": "kraft"}, **run)
    write_json(folder / "run.json", meta)
    ran = dict.fromkeys(checkers, "ran")
    verdict = verdict_document(faults=faults or [WITNESSED], checkers=ran, kafka=kafka)
    write_json(folder / "verdict.json", verdict)
    write_lines(folder / "lab.jsonl", lines)
    end = {"topic": TOPIC, "partition": 0, "low": 0, "high": 100, "reached": 100}
    write_json(folder / "history" / "ends.json", [{**end, "complete": complete}])
    (folder / "anomalies").mkdir(exist_ok=True)
    rows = [{**row, "detail": list(row["detail"].items())} for row in anomalies or []]
    pq.write_table(
        pa.Table.from_pylist(rows, schema=_ANOMALIES), folder / "anomalies" / "0.parquet"
    )
    return RecordedRun(RunDir(folder), verdict)
