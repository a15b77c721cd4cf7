"""How far behind polls were, watched op by op, against every lag of every poll."""

from typing import Any

import pytest

from tests.spark.op_metrics_reference import Measures, joined, timed
from tests.spark.op_reference import Done, ops_of, random_history
from verifiers.ops.lag_tracker import LagTracker


def watched(events: list[dict[str, Any]]) -> dict[tuple[int, str], int]:
    watch, measures = LagTracker(), Measures(events)
    for op in sorted(ops_of(events), key=lambda op: op.op):
        if op.type != "fail":
            watch.take(
                op=op.op,
                process=op.process,
                ok=op.type == "ok",
                f=op.f,
                invoke_ns=measures.invoked.get(op.op),
                complete_ns=measures.completed.get(op.op),
                keys=op.keys,
                touched=highest(op),
            )
    return {(process, key): lag for process, key, lag, _, _ in watch.worst()}


def highest(op: Done) -> dict[str, int]:
    touched: dict[str, int] = {}
    for key, offset, _ in (*op.sends, *op.polls):
        if offset is not None:
            touched[key] = max(offset, touched.get(key, offset))
    return touched


@pytest.mark.parametrize("seed", range(60))
def test_the_worst_lags_are_those_of_all_polls(seed: int) -> None:
    together = 1 + seed % 6
    histories = [random_history(1000 * seed + number) for number in range(together)]
    events = timed(joined(histories), seed)
    expected: dict[tuple[int, str], int] = {}
    for lag in Measures(events).lags:
        expected[lag.process, lag.key] = max(lag.lag, expected.get((lag.process, lag.key), 0))

    assert watched(events) == expected


def poll(op: int, time: int, **touched: int) -> dict[str, Any]:
    return {"op": op, "process": 1, "ok": True, "f": "poll", "invoke_ns": time,
            "complete_ns": time + 1, "keys": (), "touched": touched}  # fmt: skip


def send(op: int, complete_ns: int, **touched: int) -> dict[str, Any]:
    return {"op": op, "process": 2, "ok": True, "f": "send", "invoke_ns": 0,
            "complete_ns": complete_ns, "keys": (), "touched": touched}  # fmt: skip


def test_the_worst_lag_names_its_poll() -> None:
    watch = LagTracker()
    for one in (
        poll(1, 0, a=3),
        send(3, 10, a=4),
        poll(5, 25),
        poll(7, 40),
        poll(9, 50, a=4),
    ):
        watch.take(**one)

    assert list(watch.worst()) == [(1, "a", 30, 40, 7)]


def test_a_lag_beyond_64_bits_is_none() -> None:
    watch = LagTracker()
    for one in (
        poll(1, 0, a=3),
        send(3, -(2**62), a=4),
        poll(5, 2**62 + 2**61),
        poll(7, 2**63 - 1),
    ):
        watch.take(**one)

    ((_, _, lag, _, _),) = watch.worst()
    assert lag == 0
