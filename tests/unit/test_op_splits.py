"""Pieces of op histories: what a worker tells of a file that it parses as a whole."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from verifiers.ops import splits
from verifiers.ops.schema import SPLIT


def history(path: Path, *sent: tuple[int, str], seen: Sequence[str]) -> Path:
    events: list[dict[str, Any]] = []
    for process, (value, key) in enumerate(sent):
        at = {"index": 2 * process, "process": process, "f": "send"}
        mop = ["send", key, [value, value]]
        events.append({**at, "type": "invoke", "value": [["send", key, value]]})
        events.append({**at, "index": 2 * process + 1, "type": "ok", "value": [mop]})
    polled = {key: [[v, v] for v, of in sent if of == key] for key in seen}
    at = {"index": 100, "process": 50, "f": "poll"}
    events.append({**at, "type": "invoke", "value": [["poll"]]})
    events.append({**at, "index": 101, "type": "ok", "value": [["poll", polled]]})
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def suspects(scratch: Path, path: Path) -> list[list[Any]]:
    """What is told of a file's suspected keys, of all its splits."""
    rows = [
        {"run": 0, "split": one.number, "path": one.path, "begin": one.begin, "end": one.end,
         "last": one.last}
        for one in splits.splits_of(0, str(path))
    ]  # fmt: skip
    told = splits.parse(str(scratch), iter([pa.RecordBatch.from_pylist(rows)]))
    found = [row for batch in told for row in batch.to_pylist()]
    summaries = [json.loads(row["error"]) for row in found if row["row"] == SPLIT]
    return [suspect for summary in summaries for suspect in summary.get("suspects", ())]


def test_a_whole_file_is_looked_at_where_it_is_parsed(tmp_path: Path) -> None:
    path = history(tmp_path / "a.jsonl", (1, "a"), (2, "b"), (3, "b"), seen=["b"])

    assert suspects(tmp_path, path) == [["a", False]]


def test_a_piece_of_a_file_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 200)
    path = history(tmp_path / "a.jsonl", (1, "a"), (2, "b"), (3, "b"), seen=["b"])

    assert suspects(tmp_path, path) == []


def test_more_suspects_than_are_worth_naming_are_all_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "MOST_SUSPECTS", 2)
    two = history(tmp_path / "two.jsonl", (1, "a"), (2, "b"), (3, "c"), seen=["c"])
    three = history(tmp_path / "three.jsonl", (1, "a"), (2, "b"), (3, "c"), seen=[])

    assert suspects(tmp_path, two) == [["a", False], ["b", False]]
    assert suspects(tmp_path, three) == [[None, False]]


def test_a_look_that_crashes_leaves_all_keys_to_the_checkers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> list[tuple[str, bool]]:
        raise FloatingPointError("planted")

    monkeypatch.setattr(splits, "suspects_of", crash)
    path = history(tmp_path / "a.jsonl", (1, "a"), seen=["a"])

    assert suspects(tmp_path, path) == [[None, False]]
