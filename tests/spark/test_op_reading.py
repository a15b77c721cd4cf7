"""Op histories as frames: many files in one job, in splits, bad ones beside good ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from verifiers.ops import splits
from verifiers.ops.reading import read_histories
from verifiers.ops.schema import MOPS_SCHEMA, OPS_SCHEMA


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def story(ops: int) -> list[dict[str, Any]]:
    """Two processes whose ops overlap; the last two never complete."""
    events: list[dict[str, Any]] = []

    def tell(kind: str, process: int, value: Any) -> None:
        index = len(events)
        told = {"index": index, "time": index * 10, "process": process, "type": kind}
        events.append({**told, "f": "txn", "value": value})

    for number in range(ops):
        for process in (0, 1):
            tell("invoke", process, [["send", process, number], ["poll"]])
        for process in (0, 1):
            polled = {str(process): [[number, number]]}
            tell("ok", process, [["send", process, [number, number]], ["poll", polled]])
    for process in (0, 1):
        tell("invoke", process, [["send", process, ops], ["poll"]])
    return events


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_a_file_in_many_splits_reads_as_one_in_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", story(6))
    whole = read_histories(spark, [path])
    # Only a whole file is looked at while it is parsed.
    described = tuple(replace(one, suspects=None) for one in whole.described)
    assert whole.described != described
    expected = rows(whole.ops), rows(whole.mops), described
    whole.close()

    monkeypatch.setattr(splits, "SPLIT_BYTES", 250)
    divided = read_histories(spark, [path])
    assert len([*divided.ops.inputFiles(), *divided.mops.inputFiles()]) >= 2

    assert (rows(divided.ops), rows(divided.mops), divided.described) == expected
    assert divided.ops.columns == OPS_SCHEMA.names
    assert divided.mops.columns == MOPS_SCHEMA.names
    ops, mops = rows(divided.ops), rows(divided.mops)
    divided.close()
    assert len(ops) == 14
    assert [row[1:5] for row in ops if row[4] == "info"] == [
        (24, 24, 0, "info"),
        (25, 25, 1, "info"),
    ]
    assert all(row[6] is not None for row in ops)
    assert len(mops) == 6 * 2 * 2 + 2


def test_a_bad_file_is_described_and_spoils_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 300)
    good = write(tmp_path / "good.jsonl", story(6))
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(good.read_bytes()[:-10])
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    twice = story(6)
    twice.insert(20, {**twice[19], "index": 19.5})
    for index, event in enumerate(twice):
        event["index"] = index
    mixed = story(6)
    mixed[-1] = {**mixed[-1], "value": [["send", "zero", 1]]}
    jumbled = story(6)
    jumbled[5], jumbled[20] = jumbled[20], jumbled[5]
    lone = story(6)[2:]

    read = read_histories(
        spark,
        [
            good,
            torn,
            empty,
            write(tmp_path / "twice.jsonl", twice),
            tmp_path / "missing.jsonl",
            tmp_path,
            write(tmp_path / "mixed.jsonl", mixed),
            write(tmp_path / "jumbled.jsonl", jumbled),
            write(tmp_path / "lone.jsonl", lone),
        ],
    )
    told = [
        [f"{problem.line}: {problem.words}" for problem in one.problems] for one in read.described
    ]
    runs = {row["run"] for row in read.ops.collect()}
    read.close()

    assert runs == {0}
    assert told[0] == told[2] == []
    assert read.described[0].counts["send", "ok"] == 12
    assert told[1][0].startswith("26: is not JSON")
    assert told[3][0].startswith("21: completes an op of process")
    assert "cannot be read" in told[4][0]
    assert "is a folder" in told[5][0]
    assert told[6][0].startswith("26: has keys that are strings, and line 3 has keys that are")
    assert "7: has index 6 after 20: indices must rise line by line" in told[7]
    assert told[8][0].startswith("1: completes an op of process 0 that was not invoked")


def test_an_op_in_two_splits_is_held_against_its_invocation(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 100)
    other = story(1)
    other[2] = {**other[2], "f": "send", "value": []}
    again = story(2)
    del again[2]
    alone = [event for event in story(2) if event["process"] == 0]
    del alone[2]

    read = read_histories(
        spark,
        [
            write(tmp_path / "other.jsonl", other),
            write(tmp_path / "again.jsonl", again),
            write(tmp_path / "alone.jsonl", alone),
        ],
    )
    told = [[f"{one.line}: {one.words}" for one in each.problems] for each in read.described]
    read.close()

    assert told[0] == ["3: completes a send of process 0, which invoked a txn at index 0"]
    assert told[1][0].startswith("4: invokes an op of process 0, whose op of index 0 is not")
    assert told[2] == [
        "3: completes an op of process 0 that was not invoked, or is completed already"
    ]
