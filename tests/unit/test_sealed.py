from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from harness.core.errors import HistoryUnreadable
from verifiers.run_folder.schema import HISTORY_SCHEMAS
from verifiers.run_folder.sealed import read_sealed


def write(run: Path, dataset: str, processes: list[int], **others: Any) -> Path:
    """Write a file of a dataset in which only the processes are known."""
    schema = to_arrow_schema(HISTORY_SCHEMAS[dataset])
    columns = {field.name: pa.nulls(len(processes), field.type) for field in schema}
    columns["process"] = pa.array(processes, pa.int32())
    folder = run / "history" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{max(processes, default=0)}.parquet"
    pq.write_table(pa.table(columns), file, **others)
    return file


def test_a_history_has_the_rows_and_the_highest_process_of_all_its_files(tmp_path: Path) -> None:
    sends = write(tmp_path, "send", [0, 0, 1])
    polls = [write(tmp_path, "poll", [100]), write(tmp_path, "poll", [207, 207])]

    sealed = read_sealed(tmp_path)

    assert (sealed.rows, sealed.processes) == (6, 208)
    assert sealed.files == {
        "send": [str(sends)], "txn": [], "poll": [*map(str, polls)], "final": [], "event": [],
    }  # fmt: skip


def test_a_file_without_statistics_is_asked_for_its_processes(tmp_path: Path) -> None:
    write(tmp_path, "send", [3, 9, 5], write_statistics=False)

    assert read_sealed(tmp_path).processes == 10


def test_a_client_that_recorded_nothing_is_one_of_the_processes(tmp_path: Path) -> None:
    write(tmp_path, "send", [3])
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "process-204.json").write_text("{}")

    assert read_sealed(tmp_path).processes == 205


@pytest.mark.parametrize("statistics", [True, False])
def test_a_history_without_a_row_has_no_process(tmp_path: Path, *, statistics: bool) -> None:
    write(tmp_path, "event", [], write_statistics=statistics)

    sealed = read_sealed(tmp_path)

    assert (sealed.rows, sealed.processes) == (0, 0)
    assert len(sealed.files["event"]) == 1


def test_each_footer_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(tmp_path, dataset, [1, 2]) for dataset in HISTORY_SCHEMAS]
    opened: Counter[str] = Counter()

    def counted(read: Any) -> Any:
        def reading(file: str, *rest: Any, **named: Any) -> Any:
            opened[file] += 1
            return read(file, *rest, **named)

        return reading

    for name in ("read_metadata", "read_schema", "read_table", "ParquetFile"):
        monkeypatch.setattr(pq, name, counted(getattr(pq, name)))
    read_sealed(tmp_path)

    assert set(opened) == set(map(str, files))
    assert set(opened.values()) == {1}


def test_a_file_cut_in_half_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "send", list(range(1000)))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])

    with pytest.raises(HistoryUnreadable, match=str(file)):
        read_sealed(tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "poll", [1])
    pq.write_table(pq.read_table(file).drop_columns(["offset", "value"]), file)

    with pytest.raises(HistoryUnreadable, match="has no column offset, value"):
        read_sealed(tmp_path)


def test_older_folders_lack_the_numbers_of_transactions_except_where_they_are_told(
    tmp_path: Path,
) -> None:
    old = write(tmp_path, "send", [1])
    pq.write_table(pq.read_table(old).drop_columns(["txn"]), old)
    assert read_sealed(tmp_path).rows == 1

    told = write(tmp_path, "txn", [1])
    pq.write_table(pq.read_table(told).drop_columns(["txn"]), told)
    with pytest.raises(HistoryUnreadable, match="has no column txn"):
        read_sealed(tmp_path)
