"""How far behind polls were, from the arrays of a history, against every lag of every poll."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.spark.op_metrics_reference import Measures, joined, timed
from tests.spark.op_reference import ops_of, random_history
from verifiers.ops.lags import Worst, worst_lags_of
from verifiers.ops.schema import MOPS_SCHEMA, OPS_SCHEMA


def table(schema: StructType, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"run": 0, **row} for row in rows], to_arrow_schema(schema))


def measured(ops: list[dict[str, Any]], mops: list[dict[str, Any]]) -> list[Worst]:
    return worst_lags_of(table(OPS_SCHEMA, ops), table(MOPS_SCHEMA, mops))


def worst_of(events: list[dict[str, Any]]) -> dict[tuple[int, str], int]:
    measures = Measures(events)
    ops: list[dict[str, Any]] = []
    mops: list[dict[str, Any]] = []
    for op in ops_of(events):
        common = {"op": op.op, "process": op.process, "type": op.type, "f": op.f}
        times = measures.invoked.get(op.op), measures.completed.get(op.op)
        ops.append(
            {**common, "invoke_ns": times[0], "complete_ns": times[1], "keys": list(op.keys)}
        )
        mops += [
            {**common, "kind": kind, "key": key, "offset": offset, "value": value}
            for kind, pairs in (("send", op.sends), ("poll", op.polls))
            for key, offset, value in pairs
        ]
    found = measured(ops, mops)
    return {(process, key): lag for process, key, lag, _, _ in found}


@pytest.mark.parametrize("seed", range(60))
def test_the_worst_lags_are_those_of_all_polls(seed: int) -> None:
    together = 1 + seed % 6
    histories = [random_history(1000 * seed + number) for number in range(together)]
    events = timed(joined(histories), seed)
    expected: dict[tuple[int, str], int] = {}
    for lag in Measures(events).lags:
        expected[lag.process, lag.key] = max(lag.lag, expected.get((lag.process, lag.key), 0))

    assert worst_of(events) == expected


Did = tuple[dict[str, Any], list[dict[str, Any]]]
"""An op and its values."""


def did(op: int, f: str, times: tuple[int, int], touched: dict[str, int]) -> Did:
    common = {"op": op, "process": 1 if f == "poll" else 2, "type": "ok", "f": f}
    done = {**common, "invoke_ns": times[0], "complete_ns": times[1]}
    return done, [
        {**common, "kind": f, "key": key, "offset": at, "value": at} for key, at in touched.items()
    ]


def poll(op: int, time: int, **touched: int) -> Did:
    return did(op, "poll", (time, min(time + 1, 2**63 - 1)), touched)


def send(op: int, complete_ns: int, **touched: int) -> Did:
    return did(op, "send", (0, complete_ns), touched)


def worst(*history: Did) -> list[Worst]:
    return measured([op for op, _ in history], [mop for _, mops in history for mop in mops])


def test_the_worst_lag_names_its_poll() -> None:
    found = worst(poll(1, 0, a=3), send(3, 10, a=4), poll(5, 25), poll(7, 40), poll(9, 50, a=4))

    assert found == [(1, "a", 30, 40, 7)]


def test_of_equal_lags_the_first_counts() -> None:
    found = worst(
        poll(1, 0, a=3), send(3, 10, a=4), poll(5, 25), poll(7, 26, a=4), send(9, 30, a=5),
        poll(11, 45),
    )  # fmt: skip

    assert found == [(1, "a", 15, 25, 5)]


def test_a_lag_beyond_64_bits_is_none() -> None:
    found = worst(
        poll(1, 0, a=3), send(3, -(2**62), a=4), poll(5, 2**62 + 2**61), poll(7, 2**63 - 1)
    )

    ((_, _, lag, _, _),) = found
    assert lag == 0


def test_a_history_without_polls_has_no_lags() -> None:
    assert worst() == []
    assert worst(send(3, 10, a=4)) == []
