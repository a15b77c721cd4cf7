"""A copy of a stored run, which one plant changes.

A copy is a tree of links: only files that the plant changes are written, and the run itself is
never changed.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.core.grouping import by_key
from harness.history.seal import INVENTORY
from verifiers.planting.run_contents import Flags, NothingToPlant, RunContents
from verifiers.replicas.segments import read_headers

_WRITTEN = frozenset(
    {
        "anomalies", "replicas", "lanes.json", "verdict.json", "report.html", "junit.xml",
        "summary.md", "spells.jsonl", "claim.json",
    }
)  # fmt: skip
"""What a verification writes into the folder: a copy begins without."""


def copy_run(source: Path, target: Path, *, raw: bool) -> None:
    """Make a tree of links to all that a run recorded.

    Args:
        source: the folder of the run, absolute.
        target: the folder to make.
        raw: whether the raw history goes along. A copy that has it is sealed again if need be; one
            that has not keeps the sealed history that it is given.
    """
    for folder, folders, files in os.walk(source):
        here = Path(folder)
        below = here.relative_to(source)
        if here == source:
            folders[:] = [name for name in folders if name not in _WRITTEN]
            files = [f for f in files if f not in _WRITTEN and not f.startswith("crash-")]
        if below == Path("history") and not raw:
            folders[:] = [name for name in folders if name != "raw"]
        (target / below).mkdir(parents=True, exist_ok=True)
        for name in files:
            if not name.startswith(".") and not name.endswith(".draft"):
                (target / below / name).symlink_to((here / name).resolve())


class RunCopy:
    """One copy of a run, to be changed by one plant.

    Args:
        path: the copy's folder.
        contents: what the run holds.
    """

    def __init__(self, path: Path, contents: RunContents) -> None:
        self.path = path
        self.contents = contents
        self._dropped: dict[str, Flags] = {}
        self._put: dict[str, list[tuple[Flags, dict[str, Any]]]] = {}
        self._added: dict[str, list[dict[str, Any]]] = {}

    # -- the history -------------------------------------------------------------------------------

    def drop(self, dataset: str, rows: Flags) -> None:
        """Leave out the rows of a dataset for which `rows` is true."""
        self._dropped[dataset] = self._dropped.get(dataset, np.zeros_like(rows)) | rows

    def drop_row(self, dataset: str, row: int) -> None:
        """Leave out one row of a dataset."""
        self.drop(dataset, np.arange(self.contents.rows(dataset).table.num_rows) == row)

    def put(self, dataset: str, rows: Flags, **values: Any) -> None:  # noqa: ANN401  (cells)
        """Replace the values of columns in the rows for which `rows` is true."""
        self._put.setdefault(dataset, []).append((rows, values))

    def add(self, dataset: str, **columns: Any) -> None:  # noqa: ANN401  (cells)
        """Append a row to the file of its process; other columns are null."""
        self._added.setdefault(dataset, []).append(columns)

    def finish(self) -> None:
        """Write the files of the history that were changed: of each process one."""
        for dataset in {*self._dropped, *self._put, *self._added}:
            rows = self.contents.rows(dataset)
            table, processes = rows.table, rows.numbers("process")
            dropped = self._dropped.get(dataset, np.zeros(table.num_rows, dtype=np.bool_))
            added = by_key(self._added.get(dataset, ()), lambda row: int(row["process"]))
            changed = {*processes[dropped].tolist(), *added}
            for mask, values in self._put.get(dataset, ()):
                changed.update(processes[mask].tolist())
                table = _with_values(table, mask, values)
            for process in changed:
                kept = table.filter(pa.array((processes == process) & ~dropped))
                new = pa.Table.from_pylist(added.get(process, []), schema=table.schema)
                written = pa.concat_tables([kept, new])
                self._write_table(f"history/{dataset}/{process}.parquet", written)
                self._note_rows(dataset, process, written.num_rows)

    def _write_table(self, name: str, table: pa.Table) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        pq.write_table(table, path)

    def _note_rows(self, dataset: str, process: int, rows: int) -> None:
        """Let the inventory say what the history holds now: the plant was there when it was sealed.

        A client of before the inventory has no clock, and neither has its new neighbour.
        """
        if not (self.path / "history" / INVENTORY).is_file():
            return

        def noted(entries: dict[str, Any]) -> dict[str, Any]:
            if not any(isinstance(entry, int) for entry in entries.values()):
                clock = next((entry["clock"] for entry in entries.values()), None)
                entry = entries.setdefault(
                    f"process-{process}.arrows",
                    {"bytes": 0, "process": process, "clock": clock, "rows": {}},
                )
                entry["rows"][dataset] = rows
            return entries

        self.edit_json(f"history/{INVENTORY}", noted)

    def cut_last_row(self, name: str) -> None:
        """Cut the last row off a Parquet file, as somebody does who comes after the sealing."""
        table = pq.read_table(self.path / name)
        self._write_table(name, table.slice(0, table.num_rows - 1))

    # -- everything else ---------------------------------------------------------------------------

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""
        path = self.path / name
        # It may be a link to the run's own file.
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    def edit_bytes(self, name: str, edit: Callable[[bytes], bytes]) -> None:
        """Replace the content of a file by what a function makes of it.

        Raises:
            NothingToPlant: the run has no such file, as one that ended early.
        """
        path = self.path / name
        if not path.is_file():
            raise NothingToPlant(f"the run has no {name}")
        self.write(name, edit(path.read_bytes()))

    def edit_batch(
        self, segment: str, batch: Mapping[str, Any], edit: Callable[[bytes], bytes]
    ) -> None:
        """Replace a batch of a segment, a row of HEADERS, by what a function makes of its bytes."""
        begin, end = batch["position"], batch["position"] + batch["size"]
        self.edit_bytes(segment, lambda old: old[:begin] + edit(old[begin:end]) + old[end:])

    def edit_json(self, name: str, edit: Callable[[Any], Any]) -> None:
        """Replace a JSON document by what a function makes of it."""
        self.edit_bytes(name, lambda old: json.dumps(edit(json.loads(old))).encode())

    def edit_run(self, **fields: Any) -> None:  # noqa: ANN401  (JSON values of any shape)
        """Replace fields of run.json."""
        self.edit_json("run.json", lambda old: {**old, **fields})

    def edit_lines(
        self, name: str, edit: Callable[[list[dict[str, Any]]], Sequence[Mapping[str, Any]]]
    ) -> None:
        """Replace the objects of a JSON-lines file by what a function makes of them."""

        def lines(old: bytes) -> bytes:
            documents = [json.loads(line) for line in old.splitlines() if line.strip()]
            return "".join(json.dumps(line) + "\n" for line in edit(documents)).encode()

        self.edit_bytes(name, lines)

    def keep_lines(self, name: str, is_kept: Callable[[dict[str, Any]], bool]) -> None:
        """Leave out of a JSON-lines file all objects that a function does not want kept."""
        self.edit_lines(name, lambda lines: [line for line in lines if is_kept(line)])

    def add_lines(self, name: str, added: Sequence[Mapping[str, Any]]) -> None:
        """Append objects to a JSON-lines file."""
        self.edit_lines(name, lambda lines: [*lines, *added])


def batches_in(segment: Path) -> Iterator[dict[str, Any]]:
    """Yield the batches of a segment, and bytes that are none, as rows of HEADERS."""
    for rows in read_headers(segment):
        yield from rows.to_pylist()


def _with_values(table: pa.Table, mask: Flags, values: Mapping[str, Any]) -> pa.Table:
    for name, value in values.items():
        at = table.schema.get_field_index(name)
        field = table.schema.field(at)
        cells = pc.if_else(pa.array(mask), pa.scalar(value, field.type), table.column(at))
        table = table.set_column(at, field, cells)
    return table
