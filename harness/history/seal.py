"""Sealing: from the raw files that clients wrote to the Parquet datasets that verifiers read."""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.errors import HistoryUnreadable
from harness.core.op import OpType, value_of
from harness.core.run_dir import canonical_json, write_atomically
from harness.history.format import (
    EVENT_SCHEMA,
    POLL_SCHEMA,
    SEND_SCHEMA,
    SEND_TYPES,
    TXN_SCHEMA,
    read_frames,
)

Dataset = Literal["send", "txn", "poll", "final", "event"]

SCHEMAS: dict[Dataset, pa.Schema] = {
    "send": SEND_SCHEMA,
    "txn": TXN_SCHEMA,
    "poll": POLL_SCHEMA,
    "final": POLL_SCHEMA,
    "event": EVENT_SCHEMA,
}

INVENTORY = "sealed.json"
"""Below `history/`: which raw files are sealed, and how many rows of each dataset they gave."""

ROW_GROUP_ROWS = 1_000_000
_INFO_ROWS = 65_536
_NAMES = pa.array([str(kind) for kind in SEND_TYPES], pa.string())
_NEWEST = ("complete_ns", "time_ns", "invoke_ns")
"""Columns with times; the first of them that a table has holds its newest."""
_NO_OUTCOME = "the client ended before it learnt the outcome"


def seal(run_dir: Path) -> None:
    """Turn `history/raw/` of a run into `history/{send,txn,poll,final,event}/`, and `ends.json`.

    May be called again: files that did not grow since are left as they are. Each file appears whole
    or not at all. Memory is bounded by a row group a dataset, whatever the length of the history.

    Args:
        run_dir: the folder of the run.

    Raises:
        HistoryUnreadable: a raw file is damaged elsewhere than at its torn end, or says what
            cannot be (a completion twice, or of what was never reserved).
    """
    history = run_dir / "history"
    raw = history / "raw"
    if not raw.is_dir():
        raise HistoryUnreadable(
            f"{run_dir} has no folder history/raw: it is no run folder, or its run never began."
        )
    for dataset in SCHEMAS:
        (history / dataset).mkdir(exist_ok=True)
    inventory = history / INVENTORY
    sealed: dict[str, Any] = _read_json(inventory) if inventory.exists() else {}
    for path in _raw_files(raw):
        size = path.stat().st_size
        if _is_sealed(sealed.get(path.name), size, history):
            continue
        sealing = _Sealing(path, history)
        sealing.run()
        sealed[path.name] = {"bytes": size, **sealing.written()}
        write_atomically(inventory, canonical_json(sealed))
    ends = [end for path in sorted(raw.glob("*.ends.json")) for end in _read_json(path)]
    ends.sort(key=lambda end: (end["topic"], end["partition"]))
    write_atomically(history / "ends.json", canonical_json(ends))


def _is_sealed(entry: object, size: int, history: Path) -> bool:
    """Tell whether a raw file of this size is sealed, and its sealed files are still there."""
    # Folders of before there was an inventory have a number here.
    if not isinstance(entry, dict) or entry["bytes"] != size:
        return False
    return all((history / name / f"{entry['process']}.parquet").is_file() for name in entry["rows"])


def is_sealed(run_dir: Path) -> bool:
    """Tell whether every raw file of a run is sealed as it is now.

    A run whose raw files were left behind, as in an archive, counts as sealed.

    Raises:
        HistoryUnreadable: the inventory of what is sealed cannot be read.
    """
    history = run_dir / "history"
    inventory = history / INVENTORY
    sealed: dict[str, Any] = _read_json(inventory) if inventory.exists() else {}
    return all(
        _is_sealed(sealed.get(path.name), path.stat().st_size, history)
        for path in _raw_files(history / "raw")
    )


def _raw_files(raw: Path) -> list[Path]:
    """Return the files that have anything to seal, in their order."""
    if not raw.is_dir():
        return []
    return [
        path
        for path in sorted(raw.iterdir())
        # A name with a dot is the draft of a client that was killed while it wrote it.
        if not (path.name.startswith(".") or path.suffix == ".json" or path.stat().st_size == 0)
    ]


class _Sealing:
    """The sealing of one raw file."""

    def __init__(self, path: Path, history: Path) -> None:
        self._path = path
        self._history = history
        self._process: int | None = None
        self._clock: str | None = None
        self._topic = ""
        self._writers: dict[Dataset, _Writer] = {}
        self._reserved = 0
        self._used: int | None = None
        self._last_ns = 0
        self._done = _Completed()
        self._invoked: dict[int, tuple[int, int | None]] = {}
        self._begun: dict[int, int] = {}

    def run(self) -> None:
        """Read every frame, then write down what nobody completed; publish the files together."""
        size = self._path.stat().st_size
        whole = 0
        try:
            for end, batch in read_frames(self._path):
                self._take(batch)
                whole = end
            if self._process is None:
                return
            if self._used is None:
                self._crashed(size - whole)
            self._leave_in_doubt()
        except BaseException:
            for writer in self._writers.values():
                writer.discard()
            raise
        for writer in self._writers.values():
            writer.publish()

    def written(self) -> dict[str, Any]:
        """Return the file's entry in the inventory, once it is sealed."""
        return {
            "process": self._process,
            "clock": self._clock,
            "rows": {dataset: writer.rows for dataset, writer in self._writers.items()},
        }

    def _take(self, batch: pa.RecordBatch) -> None:
        metadata = batch.schema.metadata or {}
        table = metadata.get(b"table", b"").decode()
        self._process = int(metadata[b"process"])
        self._topic = metadata[b"topic"].decode()
        self._clock = metadata[b"clock"].decode() if b"clock" in metadata else None
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        times = [columns[name] for name in _NEWEST if name in columns]
        if times and batch.num_rows:
            self._last_ns = max(self._last_ns, pc.max(times[0]).as_py())
        if table == "mark":
            self._take_marks(batch)
        elif table == "invoke":
            for row in batch.to_pylist():
                self._invoked[row["value"] - self._first] = (row["invoke_ns"], row.get("txn"))
        elif table == "send":
            self._take_sends(columns)
        elif table == "begin":
            self._begun.update((row["txn"], row["invoke_ns"]) for row in batch.to_pylist())
        elif table == "txn":
            self._take_txns(columns)
        elif table in ("poll", "final", "event"):
            dataset: Dataset = table
            self._write(dataset, batch.num_rows, **columns)
        else:
            raise self._unreadable(f"holds a table {table!r} that this version does not know")

    def _take_marks(self, batch: pa.RecordBatch) -> None:
        for mark in batch.to_pylist():
            if mark["kind"] == "reserve":
                self._reserved = max(self._reserved, mark["bound"])
            else:
                self._used = mark["bound"]

    def _take_txns(self, columns: dict[str, pa.Array]) -> None:
        for txn in columns["txn"].to_pylist():
            if self._begun.pop(txn, None) is None:
                raise self._unreadable(f"ends transaction {txn}, which was not begun")
        columns["type"] = _NAMES.take(columns["type"])
        self._write("txn", len(columns["txn"]), **columns)

    def _take_sends(self, columns: dict[str, pa.Array]) -> None:
        ops = pc.subtract(columns["value"], pa.scalar(self._first, pa.int64()))
        known = self._invoked
        for op in ops.to_pylist():
            if not 0 <= op < self._reserved:
                raise self._unreadable(f"completes send {op}, which was never reserved")
            if not self._done.add(op):
                raise self._unreadable(f"completes send {op} twice")
            known.pop(op, None)
        columns["type"] = _NAMES.take(columns["type"])
        self._write("send", len(ops), op=ops, topic=self._topic, **columns)

    def _crashed(self, torn_bytes: int) -> None:
        detail = "the process ended without closing its history"
        if torn_bytes:
            detail += f"; {torn_bytes} bytes of an unfinished frame are left out"
        self._write("event", 1, f="crash", time_ns=self._last_ns, detail=detail)

    def _leave_in_doubt(self) -> None:
        """Write as INFO the sends and transactions that were begun and never completed.

        A send counts if it was reserved (and used, if that is known). The commit of a transaction
        may have been tried.
        """
        in_doubt = {
            "type": str(OpType.INFO), "complete_ns": self._last_ns, "error": _NO_OUTCOME,
        }  # fmt: skip
        missing = self._done.missing(self._reserved if self._used is None else self._used)
        while ops := list(islice(missing, _INFO_ROWS)):
            invoked = [self._invoked.get(op, (None, None)) for op in ops]
            self._write(
                "send",
                len(ops),
                op=pa.array(ops, pa.int64()),
                topic=self._topic,
                value=pa.array([self._first + op for op in ops], pa.int64()),
                invoke_ns=pa.array([invoke_ns for invoke_ns, _ in invoked], pa.int64()),
                txn=pa.array([txn for _, txn in invoked], pa.int64()),
                **in_doubt,
            )
        if self._begun:
            self._write(
                "txn",
                len(self._begun),
                txn=pa.array(self._begun.keys(), pa.int64()),
                invoke_ns=pa.array(self._begun.values(), pa.int64()),
                committing=True,
                **in_doubt,
            )

    @property
    def _first(self) -> int:
        return value_of(self._process or 0, 0)

    def _write(self, dataset: Dataset, rows: int, **columns: Any) -> None:  # noqa: ANN401
        """Write rows of this client.

        Args:
            dataset: where to.
            rows: how many.
            columns: arrays, or one value for all rows; a column that is left out is null, as in
                files older than the column.
        """
        writer = self._writers.get(dataset)
        if writer is None:
            path = self._history / dataset / f"{self._process}.parquet"
            writer = self._writers[dataset] = _Writer(path, SCHEMAS[dataset])
        columns["process"] = self._process
        values = ((columns.get(field.name), field.type) for field in SCHEMAS[dataset])
        writer.add(
            [
                value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, kind), rows)
                for value, kind in values
            ]
        )

    def _unreadable(self, what: str) -> HistoryUnreadable:
        return HistoryUnreadable(
            f"{self._path} {what}: it was written by something else or changed since; "
            "nothing can be concluded from this run, run it again."
        )


class _Completed:
    """The set of completed sequence numbers, small because they complete nearly in order."""

    _TRIM = 65_536

    def __init__(self) -> None:
        self._base = 0
        self._flags = bytearray()

    def add(self, op: int) -> bool:
        """Add a number; return False if it was there."""
        place = op - self._base
        flags = self._flags
        if place < 0:
            return False
        if place >= len(flags):
            flags.extend(bytes(place - len(flags) + 4_096))
            self._trim()
            return self.add(op)
        if flags[place]:
            return False
        flags[place] = 1
        return True

    def missing(self, bound: int) -> Iterator[int]:
        """Yield the numbers below the bound that were not added, in order."""
        if bound > self._base + len(self._flags):
            self._flags.extend(bytes(bound - self._base - len(self._flags)))
        place = self._flags.find(0)
        while 0 <= place < bound - self._base:
            yield self._base + place
            place = self._flags.find(0, place + 1)

    def _trim(self) -> None:
        whole = self._flags.find(0)
        if whole >= self._TRIM:
            del self._flags[:whole]
            self._base += whole


class _Writer:
    """A Parquet file that appears at its place only when it is whole.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        # Spark and pyarrow take no notice of names that begin with a dot.
        self._draft = path.with_name(f".{path.name}.draft")
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self.rows = 0
        texts = [field.name for field in schema if field.type == pa.string()]
        self._writer = pq.ParquetWriter(
            self._draft, schema, compression="zstd", compression_level=1, use_dictionary=texts
        )

    def add(self, columns: list[pa.Array]) -> None:
        """Add rows, column by column in the order of the schema."""
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._batches.append(batch)
        self._waiting += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting >= ROW_GROUP_ROWS:
            self._spill()

    def publish(self) -> None:
        """Finish the file and put it in its place."""
        self._spill()
        self._writer.close()
        os.replace(self._draft, self._path)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._writer.close()
        self._draft.unlink(missing_ok=True)

    def _spill(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches, schema=self._schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self._batches.clear()
            self._waiting = 0


def _read_json(path: Path) -> Any:  # noqa: ANN401 - JSON may be anything
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HistoryUnreadable(
            f"{path} is no readable JSON ({error}): restore it from where the run was made."
        ) from error
