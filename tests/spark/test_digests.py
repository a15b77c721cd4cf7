"""Digest first: the same values are looked at, whatever was done to a history."""

import random
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from harness.core.op import value_of
from tests.spark.conftest import to_history
from tests.spark.ops import Op, Rec, end, fail, filler, final, info, ok, poll
from verifiers.checking.execution import build
from verifiers.frames import records
from verifiers.frames.history import History
from verifiers.scanning import digests, offsets

LENGTH = 640
"""Ten blocks."""


def in_order() -> list[Op]:
    """Return a history in which three partitions were read by two consumers in full."""
    ops: list[Op] = []
    for partition in range(3):
        ops += filler(LENGTH, producer=50 + partition, partition=partition)
        for process in (70, 71):
            records = (Rec(50 + partition, n, n, partition) for n in range(LENGTH))
            ops.append(poll(process, partition, *records))
    return ops


def whole() -> list[dict[str, object]]:
    return [end(partition=p, high=LENGTH) for p in range(3)]


def in_doubt(history: History) -> int:
    log = offsets.log(history, by_scan=True)
    return digests.doubt_of(log, digests.stretches_of(history)).records


def test_a_history_in_order_leaves_nothing_in_doubt(spark: SparkSession) -> None:
    assert in_doubt(to_history(spark, in_order(), ends=whole())) == 0


def test_an_empty_history_leaves_nothing_in_doubt(spark: SparkSession) -> None:
    assert in_doubt(to_history(spark, [])) == 0


def lost(sequence: int) -> list[Op]:
    return [ok(1, sequence, LENGTH + sequence)]


def duplicate(sequence: int) -> list[Op]:
    return [final(Rec(50, sequence, LENGTH + 64 + sequence))]


def exchanged(sequence: int) -> list[Op]:
    return [final(Rec(50, sequence + 1, sequence), Rec(50, sequence, sequence + 1))]


def read_again(sequence: int) -> list[Op]:
    return [poll(70, 90 + sequence, Rec(50, sequence, sequence))]


def read_another(sequence: int) -> list[Op]:
    return [poll(72, 0, Rec(50, sequence + 7, sequence))]


def seen_in_doubt(sequence: int) -> list[Op]:
    return [info(2, sequence, partition=None), final(Rec(2, sequence, LENGTH + 128 + sequence))]


def never_seen(sequence: int) -> list[Op]:
    return [info(3, sequence), fail(4, sequence)]


def refused_and_read(sequence: int) -> list[Op]:
    return [fail(5, sequence), poll(70, 200 + sequence, Rec(5, sequence, LENGTH + 200 + sequence))]


def nowhere(sequence: int) -> list[Op]:
    return [ok(6, sequence, None, partition=None)]


def sent_twice(sequence: int) -> list[Op]:
    # Both acknowledged, both read, each where its acknowledgement says.
    return [
        ok(50, sequence, 4096 + sequence, partition=1),
        final(Rec(50, sequence, 4096 + sequence, partition=1)),
    ]


def moved(sequence: int) -> list[Op]:
    return [final(Rec(51, sequence, sequence, partition=2))]


def broken(sequence: int) -> list[Op]:
    return [poll(73, 0, Rec(52, sequence, sequence, partition=2, problem="run"))]


DAMAGES: tuple[Callable[[int], list[Op]], ...] = (
    lost, duplicate, exchanged, read_again, read_another, seen_in_doubt, never_seen,
    refused_and_read, nowhere, sent_twice, moved, broken,
)  # fmt: skip


def test_whatever_was_done_to_a_history_the_same_values_are_found(spark: SparkSession) -> None:
    chance = random.Random(11)
    damaged = [op for damage in DAMAGES for op in damage(chance.randrange(LENGTH - 8))]
    history = to_history(spark, in_order() + damaged, ends=whole())
    log = offsets.log(history, by_scan=True).persist()
    stretches = digests.stretches_of(history)

    chosen = records.values(digests.in_doubt(history, log, stretches)).collect()
    looked_at = digests.doubt_of(log, stretches).records

    log.unpersist()
    every = records.values(history).collect()
    assert sorted(map(str, chosen)) == sorted(map(str, every))
    # What nobody read, and what was only read again, is in order.
    assert {row["value"] >> 40 for row in every} == {1, 2, 5, 6, 50, 51}
    assert 0 < looked_at < 4 * 3 * LENGTH


def test_a_scan_tallies_what_spark_aggregates(spark: SparkSession) -> None:
    chance = random.Random(5)
    damaged = [op for damage in DAMAGES for op in damage(chance.randrange(LENGTH - 8))]
    history = to_history(spark, in_order() + damaged, ends=whole())

    scanned = offsets.log(history, by_scan=True).collect()

    assert sorted(map(str, scanned)) == sorted(map(str, offsets.log(history).collect()))
    assert len(scanned) > 3 * LENGTH // 64


def test_an_excerpt_holds_all_places_that_may_have_two_values(spark: SparkSession) -> None:
    chance = random.Random(3)
    damaged = [op for damage in DAMAGES for op in damage(chance.randrange(LENGTH - 8))]
    history = to_history(spark, in_order() + damaged, ends=whole())
    log = offsets.log(history, by_scan=True).persist()

    near = digests.in_doubt(history, log, digests.stretches_of(history))
    chosen = offsets.slots(near, records.values(near), log).collect()

    every = offsets.slots(history, records.values(history), log).collect()
    log.unpersist()
    assert sorted(map(str, chosen)) == sorted(map(str, every))
    assert len(every) > 2
    assert near.sends.count() < history.sends.count() / 2


@pytest.mark.parametrize("damage", [lost, exchanged, sent_twice])
def test_a_single_damage_is_enough_to_look(
    spark: SparkSession, damage: Callable[[int], list[Op]]
) -> None:
    history = to_history(spark, in_order() + damage(77), ends=whole())

    built = build(history, digest_first=True)

    found = {row["value"] for row in built.by_name["values"].collect()}
    for frame in built.kept:
        frame.unpersist()
    assert value_of(1 if damage is lost else 50, 77) in found
