"""The search for cycles in a transaction graph, against brute force."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from tests.op_graphs import Deed, Past, check_cycle, edges_of, expected, pasts
from verifiers.cycles import search
from verifiers.ops.cycles import search_edges

SCHEMA = pa.schema(
    [
        ("run", pa.int32()), ("kind", pa.string()), ("key", pa.string()), ("value", pa.int64()),
        ("next_value", pa.int64()),
        *(
            (f"{end}_{name}", kind)
            for end in ("from", "to")
            for name, kind in (
                ("op", pa.int64()), ("mop", pa.int32()), ("ok", pa.bool_()),
                ("invoked", pa.int64()),
            )
        ),
    ]
)  # fmt: skip


def table_of(*pasts: Past, ww_deps: bool = True) -> pa.Table:
    rows = [
        {"run": run, **edge}
        for run, past in enumerate(pasts)
        for edge in [*past.reads(), *(past.writes() if ww_deps else ())]
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def found_in(*pasts: Past, ww_deps: bool = True) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = search_edges(table_of(*pasts, ww_deps=ww_deps)).to_pylist()
    return rows


@given(first=pasts(), second=pasts())
@pytest.mark.parametrize("ww_deps", [False, True])
def test_the_search_agrees_with_brute_force(ww_deps: bool, first: Past, second: Past) -> None:
    rows = found_in(first, second, ww_deps=ww_deps)

    for run, past in enumerate((first, second)):
        edges = edges_of(past, ww_deps=ww_deps)
        wanted = expected(past, ww_deps=ww_deps)
        del wanted["empty-transaction-graph"]
        mine = [row for row in rows if row["run"] == run]
        assert Counter(row["anomaly"] for row in mine) == wanted
        for row in mine:
            if row["anomaly"].startswith("G"):
                check_cycle(json.loads(row["detail"]), row["anomaly"], edges)


@pytest.fixture
def ring() -> Past:
    """Five transactions at once, each of which polls what the one before it sends."""
    return Past(
        deeds=[
            Deed(invoked=n, op=10 + n, did=[("send", "0", n), ("poll", "0", (n - 1) % 5)])
            for n in range(5)
        ],
        order={},
    )


def test_a_long_cycle_is_told_edge_by_edge(ring: Past) -> None:
    cycle, companion = found_in(ring)

    assert (cycle["anomaly"], cycle["op"]) == ("G1c", 10)
    assert cycle["detail"].startswith('{"cycle": [10, 11, 12, 13, 14, 10], "steps": [')
    assert '{"type": "wr", "from": 10, "to": 11, "key": "0", "value": 0, ' in cycle["detail"]
    assert companion["anomaly"] == "PL-2-cycle-exists"
    assert companion["detail"] == '{"size": 5, "ops": [10, 11, 12, 13, 14]}'


def test_no_edge_is_no_cycle() -> None:
    assert found_in(Past(deeds=[], order={})) == []


def test_all_components_are_counted_and_few_are_shown() -> None:
    # Each record is polled by an op that completed before the send was invoked.
    deeds = [
        deed
        for n in range(50)
        for deed in (
            Deed(invoked=4 * n, op=4 * n + 1, f="poll", did=[("poll", "0", n)]),
            Deed(invoked=4 * n + 2, op=4 * n + 3, f="send", did=[("send", "0", n)]),
        )
    ]

    rows = found_in(Past(deeds=deeds, order={}), ww_deps=False)

    assert Counter(row["anomaly"] for row in rows) == {
        "G1c-realtime": 50,
        "strong-PL-2-cycle-exists": 50,
    }
    assert sum(row["detail"] != "{}" for row in rows) == 2 * search.MOST_EXAMPLES


def test_a_search_that_takes_long_ends_with_the_shortest_cycle_until_then(
    ring: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_VISITS", 1)

    cycle, _ = found_in(ring)

    assert '"cycle": [10, 11, 12, 13, 14, 10]' in cycle["detail"]


def test_a_shorter_cycle_is_preferred() -> None:
    # 20 → 21 → 22 → 20, and 21 → 22 → 23 → 24 → 21 beside it.
    polls = {0: [2], 1: [0, 4], 2: [1], 3: [2], 4: [3]}
    deeds = [
        Deed(invoked=n, op=20 + n, did=[("send", "0", n), *(("poll", "0", v) for v in values)])
        for n, values in polls.items()
    ]

    cycle, companion = found_in(Past(deeds=deeds, order={}))

    assert '"cycle": [20, 21, 22, 20]' in cycle["detail"]
    assert companion["detail"].startswith('{"size": 5, ')
