"""Sealing: from the raw files that clients wrote to the Parquet datasets that verifiers read."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
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
from harness.history.pending import Int64s

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
_MOST_INVOKED = 65_536
"""So many invocations are remembered before those that were completed are forgotten."""
_NAMES = pa.array([str(kind) for kind in SEND_TYPES], pa.string())
_NEWEST = ("complete_ns", "time_ns", "invoke_ns")
"""Columns with times; the first of them that a table has holds its newest."""
_NO_OUTCOME = "the client ended before it learnt the outcome"


def seal(run_dir: Path) -> None:
    """Turn `history/raw/` of a run into `history/{send,txn,poll,final,event}/`, and `ends.json`.

    May be called again: files that did not grow since are left as they are. Each file appears whole
    or not at all. Files of several clients are sealed at once, one for each processor. Memory is
    bounded by a row group a dataset for each of them, whatever the length of the history.

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
    open_files = [
        path
        for path in _raw_files(raw)
        if not _is_sealed(sealed.get(path.name), path.stat().st_size, history)
    ]
    with ThreadPoolExecutor(os.cpu_count(), "seal") as executor:
        sealings = [executor.submit(_Sealing(path, history).run) for path in open_files]
        try:
            for path, sealing in zip(open_files, sealings, strict=True):
                sealed[path.name] = sealing.result()
                write_atomically(inventory, canonical_json(sealed))
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
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

    def run(self) -> dict[str, Any]:
        """Read every frame, then write down what nobody completed; publish the files together.

        Returns:
            The file's entry in the inventory.
        """
        size = self._path.stat().st_size
        whole = 0
        try:
            for end, batch in read_frames(self._path):
                self._take(batch)
                whole = end
            if self._process is not None:
                if self._used is None:
                    self._crashed(size - whole)
                self._leave_in_doubt()
        except BaseException:
            for writer in self._writers.values():
                writer.discard()
            raise
        for writer in self._writers.values():
            writer.publish()
        return {
            "bytes": size,
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
            self._take_invocations(columns)
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

    def _take_invocations(self, columns: dict[str, pa.Array]) -> None:
        ops = columns["value"].to_numpy() - self._first
        # Older files have no transactions.
        txns = columns["txn"].to_pylist() if "txn" in columns else [None] * len(ops)
        times = columns["invoke_ns"].to_pylist()
        self._invoked.update(zip(ops.tolist(), zip(times, txns, strict=True), strict=True))
        if len(self._invoked) > _MOST_INVOKED:
            open_ops = self._done.lacking(np.fromiter(self._invoked, np.int64)).tolist()
            self._invoked = {op: self._invoked[op] for op in open_ops}

    def _take_sends(self, columns: dict[str, pa.Array]) -> None:
        ops: Int64s = columns["value"].to_numpy() - self._first
        strange = ops[(ops < 0) | (ops >= self._reserved)]
        if len(strange):
            raise self._unreadable(f"completes send {strange[0]}, which was never reserved")
        twice = self._done.add(ops)
        if twice is not None:
            raise self._unreadable(f"completes send {twice} twice")
        columns["type"] = _NAMES.take(columns["type"])
        self._write("send", len(ops), op=pa.array(ops), topic=self._topic, **columns)

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
        for begin in range(0, len(missing), _INFO_ROWS):
            ops = missing[begin : begin + _INFO_ROWS]
            invoked = [self._invoked.get(op, (None, None)) for op in ops.tolist()]
            self._write(
                "send",
                len(ops),
                op=pa.array(ops),
                topic=self._topic,
                value=pa.array(self._first + ops),
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
        self._flags = np.zeros(self._TRIM, np.bool_)

    def add(self, ops: Int64s) -> int | None:
        """Add numbers, none of them negative; return one that was there already, if any was."""
        if not len(ops):
            return None
        places = ops - self._base
        low, high = int(places.min()), int(places.max()) + 1
        if low < 0:
            return low + self._base
        self._reach(high)
        there = self._flags[places]
        if there.any():
            return int(ops[there][0])
        before = np.count_nonzero(self._flags[low:high])
        self._flags[places] = True
        if np.count_nonzero(self._flags[low:high]) < before + len(ops):
            values, counts = np.unique(ops, return_counts=True)
            return int(values[counts > 1][0])
        self._trim()
        return None

    def lacking(self, ops: Int64s) -> Int64s:
        """Return those of some numbers that were not added."""
        places = ops - self._base
        known = (places >= 0) & (places < len(self._flags))
        done = places < 0
        done[known] = self._flags[places[known]]
        return ops[~done]

    def missing(self, bound: int) -> Int64s:
        """Return the numbers below the bound that were not added, in order."""
        self._reach(bound - self._base)
        return np.flatnonzero(~self._flags[: max(0, bound - self._base)]) + self._base

    def _reach(self, places: int) -> None:
        if places > len(self._flags):
            self._flags = np.concatenate([self._flags, np.zeros(places, np.bool_)])

    def _trim(self) -> None:
        whole = int(np.argmin(self._flags))
        if whole >= self._TRIM:
            self._flags = self._flags[whole:].copy()
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
