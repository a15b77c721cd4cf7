"""The class archive of Spark's JVM, made by verifying two small histories.

`python -m verifiers.judging.warm_up` makes the archive and prints its path.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.errors import EnvironmentBroken
from harness.core.op import value_of
from verifiers.judging.job import verify
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.spark.session import TINY_ROWS, archive_of, find_java, open_session

_DUMP_S = 120
_TOPIC = "warm-up"
_FEWEST = 8


def make_archive() -> Path:
    """Return the class archive for this machine's Java; make it if there is none.

    A process can have one JVM, which writes the archive when it ends: no other verification can
    follow in this process.

    Raises:
        EnvironmentBroken: there is no Java, or its JVM wrote no archive.
    """
    archive = archive_of(find_java())
    if archive.is_file():
        return archive
    # Another process may be making one at the same time: the last to be done wins.
    draft = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-chaos-warm-up-") as folder:
            open_session(archive_to=draft)
            # The plans of the one are interpreted, those of the other compiled.
            for name, sent in (("tiny", _FEWEST), ("small", TINY_ROWS)):
                verify(write_run(Path(folder, name), sent=sent))
            _end_jvm()
        if not draft.is_file() or draft.stat().st_size == 0:
            raise EnvironmentBroken(
                f"The JVM wrote no class archive to {archive.parent}: is there room for 200 MB?"
            )
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    return archive


def _end_jvm() -> None:
    context = SparkContext._active_spark_context
    gateway = SparkContext._gateway
    if context is None or gateway is None:
        return
    context.stop()
    gateway.shutdown()
    # The JVM ends, and writes its archive, when its standard input does.
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_DUMP_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise EnvironmentBroken(
            f"The JVM did not write its class archive within {_DUMP_S} s."
        ) from error


def write_run(path: Path, *, sent: int = _FEWEST) -> Path:
    """Write a run of so many sends, at least eight, in which every checker has records to check."""
    sends = [
        _row(n, process=1, op=n, type="ok", offset=n, invoke_ns=n, complete_ns=n + 1)
        for n in range(sent)
    ]
    # The last is lost, its place is another's, and a consumer steps back and over a record.
    kept = [*range(sent - 1), 1]
    final = [
        _row(sequence, process=9, op=0, position=n, offset=n, time_ns=99)
        for n, sequence in enumerate(kept)
    ]
    polls = [
        _row(n, process=2, op=op, position=0, offset=n, time_ns=20 + op)
        for op, n in enumerate((0, 3, 1))
    ]
    events = [{"topic": _TOPIC, "process": 2, "op": 0, "f": "start", "time_ns": 5}]
    rows = {"send": sends, "txn": [], "poll": polls, "final": final, "event": events}
    for dataset, schema in HISTORY_SCHEMAS.items():
        folder = path / "history" / dataset
        folder.mkdir(parents=True)
        table = pa.Table.from_pylist(rows[dataset], to_arrow_schema(schema))
        pq.write_table(table, folder / "0.parquet")
    ends = [
        {"topic": _TOPIC, "partition": 0, "complete": True}
        | {"low": 0, "high": sent + 1, "reached": sent + 1}
    ]
    run = {
        "schema": 1,
        "run": _TOPIC,
        "origin_ns": 0,
        "contract": {"acks": "1"},
        "topics": [{"name": _TOPIC, "partitions": 1, "replication_factor": 1}],
        "state": "complete",
    }
    (path / "history" / "ends.json").write_text(json.dumps(ends), encoding="utf-8")
    (path / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return path


def _row(sequence: int, **columns: str | int) -> dict[str, str | int]:
    return {"topic": _TOPIC, "partition": 0, "value": value_of(1, sequence), **columns}


if __name__ == "__main__":
    sys.stdout.write(f"{make_archive()}\n")
