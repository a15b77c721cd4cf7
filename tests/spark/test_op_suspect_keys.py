"""Which keys of op histories are looked at in detail."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from harness.core.verdict import Verdict
from verifiers.ops.description import Described
from verifiers.ops.job import verify_histories
from verifiers.ops.schema import MOPS_SCHEMA, OPS_SCHEMA
from verifiers.ops.suspect_keys import first_look, known_suspects, suspect_frame, suspects

# What one process polls of three records, in two ops; the second goes back to the first record.
SENT = [(0, 2, 0, "ok", "send", 0, 0, "send", "a", offset, offset, 1) for offset in (1, 2, 3)]
ALL = [
    (0, 4, 1, "ok", "poll", 0, at, "poll", "a", offset, offset, 3)
    for at, offset in enumerate((1, 2, 3))
]
AGAIN = [
    (0, 8, 1, "ok", "poll", 0, at, "poll", "a", offset, offset, 7)
    for at, offset in enumerate((1, 2, 3))
]
OTHER = [(0, 2, 0, "ok", "send", 1, 3, "send", "b", 1, 1, 1)]


def assign(*keys: str, process: int = 1, kind: str = "ok") -> tuple[Any, ...]:
    return (0, 6, 5, process, kind, "assign", None, None, list(keys), None, None)


@pytest.mark.parametrize(
    ("assigned", "forgotten"),
    [
        (assign("b"), True),
        (assign("b", kind="info"), True),
        (assign("b", kind="fail"), False),
        (assign("a", "b"), False),
        (assign("b", process=7), False),
    ],
)
def test_a_step_is_excused_if_the_process_gave_the_key_up_before(
    spark: SparkSession, assigned: tuple[Any, ...], forgotten: bool
) -> None:
    ops = spark.createDataFrame([assigned], OPS_SCHEMA)
    mops = spark.createDataFrame([*SENT, *ALL, *AGAIN], MOPS_SCHEMA)

    found = suspects(first_look(mops, ww_deps=False), ops, mops, ww_deps=False)

    assert [tuple(row) for row in found.collect()] == ([] if forgotten else [(0, "a")])


def test_if_writes_depend_on_each_other_all_keys_of_a_run_are_suspected_with_one(
    spark: SparkSession,
) -> None:
    order = [(0, 9, 2, "ok", "send", 0, 0, "send", "c", 1, 1, 8)]
    seen = [(0, 12, 3, "ok", "poll", 0, 0, "poll", "c", 1, 1, 11)]
    elsewhere = [(1, *row[1:]) for row in (*order, *seen)]
    past = [(run, 20, 19, 5, "ok", "poll", None, None, None, None, None) for run in (0, 1)]
    ops = spark.createDataFrame(
        [*past, *((run, 9, 8, 2, "ok", "send", *[None] * 5) for run in (0, 1))], OPS_SCHEMA
    )
    mops = spark.createDataFrame([*OTHER, *order, *seen, *elsewhere], MOPS_SCHEMA)

    def found(*, ww_deps: bool) -> set[tuple[Any, ...]]:
        rows = suspects(first_look(mops, ww_deps=ww_deps), ops, mops, ww_deps=ww_deps)
        return {tuple(row) for row in rows.collect()}

    assert found(ww_deps=False) == {(0, "b")}
    assert found(ww_deps=True) == {(0, "b"), (0, "c")}


def test_suspects_that_a_parser_told_of_are_keys_or_all_keys_of_a_run(spark: SparkSession) -> None:
    none = frozenset[tuple[str | None, bool]]()
    described = [
        Described(path=Path(str(run)), suspects=tuple(found) if found is not None else None)
        for run, found in enumerate(
            [none, [("a", False), ("b", True)], [(None, False)], None, [("c", True)]]
        )
    ]
    rows = [(run, *row[1:]) for run in range(5) for row in (*SENT, *OTHER)]
    mops = spark.createDataFrame(rows, MOPS_SCHEMA)

    def found(*, ww_deps: bool) -> set[tuple[Any, ...]]:
        keys = suspect_frame(known_suspects(described, ww_deps=ww_deps), mops)
        assert keys.columns == first_look(mops, ww_deps=ww_deps).columns
        return {tuple(row)[:2] for row in keys.collect()}

    assert found(ww_deps=False) == {(1, "a"), (2, "a"), (2, "b")}
    assert found(ww_deps=True) == {(1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "c")}


def test_that_no_key_of_whole_files_is_suspected_is_known_without_asking_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        {"process": 0, "type": "invoke", "f": "send", "value": [["send", 0, 17], ["send", 0, 18]]},
        {
            "process": 0,
            "type": "ok",
            "f": "send",
            "value": [["send", 0, [0, 17]], ["send", 0, [1, 18]]],
        },
        {"process": 1, "type": "invoke", "f": "poll", "value": [["poll"]]},
        {"process": 1, "type": "ok", "f": "poll", "value": [["poll", {"0": [[0, 17], [1, 18]]}]]},
    ]
    history = tmp_path / "history.jsonl"
    lines = (json.dumps({"index": index, **event}) for index, event in enumerate(events))
    history.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def ask(_: DataFrame) -> bool:
        raise AssertionError("Spark was asked whether any key is suspected.")

    monkeypatch.setattr(type(spark.range(1)), "isEmpty", ask)

    (verdict,) = verify_histories([history], master="local[2]")

    assert (verdict.verdict, verdict.reasons) == (Verdict.VALID, ())
