"""Rows skimmed off sorted files: a window over them finds what one over all rows finds."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from harness.core.op import value_of
from tests.spark.conftest import to_history
from tests.spark.ops import Op, Rec, end, filler, final, info, ok, poll
from verifiers.frames import order, records
from verifiers.frames.history import History
from verifiers.scanning import presorted
from verifiers.scanning.presorted import UNSORTED, _kernel

Row = dict[str, Any]
NUMBERS = ("op", "position", "offset", "value", "time_ns", "complete_ns")
KINDS = {name: pa.int64() for name in NUMBERS} | {
    "process": pa.int32(),
    "partition": pa.int32(),
    "topic": pa.string(),
}


def skimmed(rows: Sequence[Row], size: int, **kernel: Any) -> list[Row]:
    """Return what is kept of some rows that come in batches of a size."""
    columns = list(rows[0])
    schema = pa.schema([(name, KINDS[name]) for name in columns])
    batches = pa.Table.from_pylist(list(rows), schema=schema).to_batches(max_chunksize=size)
    return [row for batch in _kernel(**kernel)(iter(batches)) for row in batch.to_pylist()]


def lanes(rows: Sequence[Row], order: tuple[str, ...]) -> Iterator[list[Row]]:
    by_lane: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        by_lane[row["process"], row["topic"], row["partition"]].append(row)
    for lane in by_lane.values():
        yield sorted(lane, key=lambda row: tuple(row[name] for name in order))


POLL_ORDER = ("time_ns", "op", "position")


def turns(rows: Sequence[Row]) -> set[tuple[int, ...]]:
    """Return the neighbours that are not next to each other, by their times and offsets."""
    found: set[tuple[int, ...]] = set()
    for lane in lanes(rows, POLL_ORDER):
        for before, after in pairwise(lane):
            left_out = (
                "batch" in before
                and before["batch"] == after["batch"]
                and after["place"] - before["place"] > 1
            )
            if after["offset"] != before["offset"] + 1 and not left_out:
                found.add((before["time_ns"], before["offset"], after["time_ns"], after["offset"]))
    return found


def polled(chance: random.Random, length: int) -> list[Row]:
    """Return polls of three consumers in two partitions that now and then jump."""
    at: dict[tuple[int, int], int] = defaultdict(int)
    rows = []
    for n in range(length):
        process, partition = chance.randrange(3), chance.randrange(2)
        if chance.random() < 0.1:
            at[process, partition] += chance.choice((-3, -1, 0, 2, 5))
        offset = at[process, partition]
        at[process, partition] = offset + 1
        rows.append(
            {
                "process": process,
                "topic": chance.choice("ab") if n > length // 2 else "a",
                "partition": partition,
                "op": n // 5,
                "position": n % 5,
                "offset": offset,
                "value": n,
                "time_ns": n // 5 * 100,
            }
        )
    return rows


@pytest.mark.parametrize("size", [1, 2, 7, 40, 1000])
def test_every_turn_of_a_consumer_is_skimmed(size: int) -> None:
    for seed in range(40):
        rows = polled(random.Random(seed), 120)

        kept = skimmed(rows, size, order=POLL_ORDER, suspicious=None)

        assert turns(kept) == turns(rows), seed
        assert all(row["place"] != UNSORTED for row in kept)


def test_of_polls_in_good_order_only_the_ends_of_batches_are_kept() -> None:
    rows = [row | {"process": 1, "topic": "a", "partition": 0, "offset": n}
            for n, row in enumerate(polled(random.Random(1), 1000))]  # fmt: skip

    kept = skimmed(rows, 100, order=POLL_ORDER, suspicious=None)

    assert [row["offset"] % 100 for row in kept] == [0, 99] * 10


@dataclass(frozen=True)
class Told:
    """Where a value turned out to lie."""

    partition: int
    position: int


def reversals(rows: Sequence[Row], told: dict[int, Told]) -> set[tuple[int, int]]:
    """Return the neighbouring sends of a lane whose places are reversed, by their numbers."""
    placed = []
    for row in rows:
        known = told.get(row["value"])
        partition = row["partition"]
        if known is not None and partition is None:
            partition = known.partition
        if partition is not None:
            position = row["offset"] if known is None else known.position
            placed.append(row | {"partition": partition, "position": position})
    found = set()
    for lane in lanes(placed, ("op",)):
        for before, after in pairwise(lane):
            known_both = before["position"] is not None and after["position"] is not None
            if known_both and after["position"] <= before["position"]:
                found.add((before["op"], after["op"]))
    return found


def sent(chance: random.Random, length: int) -> tuple[list[Row], dict[int, Told]]:
    """Return sends of one producer, some in doubt and some elsewhere, and where those lie."""
    rows: list[Row] = []
    late: list[Row] = []
    told: dict[int, Told] = {}
    at = [0, 0]
    for op in range(length):
        partition = chance.randrange(2)
        at[partition] += chance.choice((1, 1, 1, 2, 9, -4 if chance.random() < 0.2 else 1))
        row: Row = {"process": 1, "topic": "a", "partition": partition, "op": op}
        row |= {"offset": at[partition], "value": value_of(1, op), "complete_ns": op}
        fate = chance.random()
        if fate < 0.06:
            # Nobody knows; perhaps it was seen. The client learns of it later.
            row |= {"offset": None, "partition": chance.choice((None, partition))}
            late.append(row)
        else:
            rows.append(row)
        if fate < 0.03 or fate > 0.96:
            told[row["value"]] = Told(partition, chance.randrange(at[partition] + 20))
    return rows + late, told


@pytest.mark.parametrize("size", [1, 3, 16, 1000])
def test_every_reversal_of_sends_is_skimmed(size: int) -> None:
    for seed in range(60):
        rows, told = sent(random.Random(seed), 150)
        values = np.sort(np.asarray(list(told), dtype=np.int64))

        kept = skimmed(rows, size, order=("op",), suspicious=values)

        assert reversals(kept, told) == reversals(rows, told), seed


def test_a_lane_that_is_not_sorted_within_a_batch_is_kept_and_says_so() -> None:
    rows, _ = sent(random.Random(2), 50)
    rows = [row for row in rows if row["offset"] is not None]
    rows[10], rows[30] = rows[30], rows[10]

    kept = skimmed(rows, 100, order=("op",), suspicious=np.array([]))

    astray = {row["partition"] for row in kept if row["place"] == UNSORTED}
    assert astray
    for partition in astray:
        mine = [row["op"] for row in rows if row["partition"] == partition]
        assert sorted(row["op"] for row in kept if row["partition"] == partition) == sorted(mine)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, "16")
    yield
    spark.conf.set(key, before or "10000")


def history(spark: SparkSession, more: Sequence[Op] = ()) -> History:
    """Return two partitions in order, and what else happened."""
    ops = [*filler(100, producer=50, partition=0), *filler(100, producer=51, partition=1)]
    for process in (70, 71):
        ops.append(poll(process, 0, *(Rec(50, n, n) for n in range(100))))
    ends = [end(partition=p, high=100) for p in (0, 1)]
    return to_history(spark, [*ops, *more], ends=ends)


def shown(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.usefixtures("small_batches")
def test_what_is_skimmed_gives_the_same_frames(spark: SparkSession) -> None:
    more = [
        poll(70, 1, Rec(50, 50, 50), Rec(50, 51, 51), Rec(50, 90, 90)),
        ok(1, 0, 300), ok(1, 1, 301), ok(1, 3, 200), info(1, 2, partition=None),
        # An offset that was told and never acknowledged is no place.
        info(2, 0, 400), ok(2, 1, 350),
        final(Rec(1, 0, 300), Rec(1, 1, 301), Rec(1, 3, 200), Rec(1, 2, 150), Rec(2, 1, 350)),
    ]  # fmt: skip
    recorded = history(spark, more)
    values = records.values(recorded)
    told = [row["value"] for row in values.select("value").collect()]

    polls, sends = presorted.polls(recorded).persist(), presorted.sends(recorded, told).persist()

    try:
        assert presorted.are_sorted(polls, sends) == (True, True)
        assert shown(order.turns(recorded, polls)) == shown(order.turns(recorded))
        assert shown(order.producing(recorded, values, sends)) == shown(
            order.producing(recorded, values)
        )
        assert len(shown(order.producing(recorded, values))) == 1
        assert polls.count() < recorded.polls.count() / 2
    finally:
        polls.unpersist()
        sends.unpersist()


@pytest.mark.usefixtures("small_batches")
def test_files_in_another_order_are_found_out(spark: SparkSession) -> None:
    # Of one producer, the later half was written first.
    halves = [ok(1, n, 500 + n) for n in (*range(50, 100), *range(50))]

    recorded = history(spark, halves)

    polls, sends = presorted.polls(recorded), presorted.sends(recorded, [])
    assert presorted.are_sorted(polls, sends) == (True, False)
