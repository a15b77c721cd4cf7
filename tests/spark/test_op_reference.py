"""Random op histories, hundreds in one job: Spark must find what plain Python finds."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.op_reference import Offence, Reference, random_history
from verifiers.checking.checker import checkers_of_ops
from verifiers.ops import splits
from verifiers.ops.checking import OpFound, check_histories
from verifiers.ops.frames import FRAMES
from verifiers.ops.reading import read_histories
from verifiers.spark.session import tuned

HISTORIES = int(os.environ.get("DRAWN_HISTORIES", "150"))
FIRST_SEED = int(os.environ.get("DRAWN_SEED", "0"))
"""So many are drawn, of seeds from the second on; thousands at night, and others each night."""
DIVIDED = 15


def drawn(count: int) -> list[list[dict[str, Any]]]:
    """Return histories, of seeds one after the other."""
    return [random_history(seed) for seed in range(FIRST_SEED, FIRST_SEED + count)]


def told(found: OpFound) -> dict[str, list[Offence]]:
    return {
        name: sorted(((one.key, one.value, one.op) for one in examples), key=str)
        for name, examples in found.examples.items()
        if name in checkers_of_ops(FRAMES)
    }


def test_spark_finds_what_a_reference_finds(spark: SparkSession, tmp_path: Path) -> None:
    histories = drawn(HISTORIES)
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(histories))]
    for path, events in zip(paths, histories, strict=True):
        path.write_text("".join(json.dumps(event) + "\n" for event in events))

    read = read_histories(spark, paths)
    checked = check_histories(read)
    exactly = check_histories(read, exact=True)
    read.close()

    assert checked.crashes == ()
    assert checked == exactly
    assert sum(one.suspects == () for one in read.described) > HISTORIES // 10
    assert [one.problems for one in read.described] == [()] * len(paths)
    seen: set[str] = set()
    for run, events in enumerate(histories):
        reference = Reference(events)
        expected = {name: sorted(offences, key=str) for name, offences in reference.found.items()}
        found = checked.by_run.get(run, OpFound())
        story = f"seed {FIRST_SEED + run}\n" + "\n".join(map(json.dumps, events))
        assert told(found) == expected, story
        assert {n: c for n, c in found.counts.items() if n in checkers_of_ops(FRAMES)} == {
            name: len(offences) for name, offences in expected.items()
        }, story
        seen |= set(expected)
    # The draw is worth something only if it comes across every anomaly, and across none.
    assert seen == set(checkers_of_ops(FRAMES)) - {"dirty-read"}
    assert any(not Reference(events).found for events in histories)


def test_a_history_in_many_pieces_is_judged_as_one_in_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{seed}.jsonl" for seed in range(DIVIDED)]
    for seed, path in enumerate(paths):
        events = random_history(seed)
        path.write_text("".join(json.dumps(event) + "\n" for event in events))

    with tuned(spark, rows=1):
        whole = read_histories(spark, paths)
        expected = check_histories(whole)
        whole.close()
        # No worker holds a file as a whole: the values of a key come together by way of Spark.
        monkeypatch.setattr(splits, "SPLIT_BYTES", 600)
        divided = read_histories(spark, paths)
        found = check_histories(divided)
        divided.close()

    assert found == expected
    assert found.crashes == ()
    assert all(one.suspects is not None for one in whole.described)
    assert sum(one.suspects is None for one in divided.described) > DIVIDED // 2
