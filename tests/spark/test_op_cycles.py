"""Cycles of op histories: small ones by hand, and many drawn ones against brute force."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, Row, StringType, StructField, StructType

from tests.op_graphs import Deed, Past, check_cycle, edges_of, expected, pasts
from verifiers.cycles.stretches import stretches
from verifiers.ops.cycles import concurrent, dependencies, places
from verifiers.ops.edges import BLOCK_BITS, placed, read_edges
from verifiers.ops.kept import Kept
from verifiers.ops.neighbours import suspicious_steps
from verifiers.ops.schema import MOPS_SCHEMA, OPS_SCHEMA
from verifiers.ops.versions import versions_of

DRAWN = 300
OPS = StructType(OPS_SCHEMA.fields[:6])
ORDER = StructType(
    [
        StructField("run", IntegerType()),
        StructField("key", StringType()),
        StructField("index", LongType()),
        StructField("value", LongType()),
    ]
)


def frames_of(spark: SparkSession, pasts: Sequence[Past]) -> tuple[DataFrame, DataFrame, DataFrame]:
    numbered = [(run, deed) for run, past in enumerate(pasts) for deed in past.deeds]
    ops = [(run, one.op, one.invoked, 0, one.type, one.f) for run, one in numbered]
    mops = [
        (run, one.op, 0, one.type, one.f, mop, mop, kind, key, mop, value, one.invoked)
        for run, one in numbered
        for mop, (kind, key, value) in enumerate(one.did)
    ]
    order = [
        (run, key, index, value)
        for run, past in enumerate(pasts)
        for key, values in past.order.items()
        for index, value in enumerate(values)
    ]
    return (
        spark.createDataFrame(ops, OPS),
        spark.createDataFrame(mops, MOPS_SCHEMA),
        spark.createDataFrame(order, ORDER),
    )


def search(spark: SparkSession, pasts: Sequence[Past], *, ww_deps: bool) -> list[list[Row]]:
    """Return what is found in each history, all of them in one search."""
    ops, mops, order = frames_of(spark, pasts)
    with Kept() as kept:
        shared = versions_of(mops, kept, indeterminate=1)
        by_name = {
            "mops": mops,
            "backward": suspicious_steps(mops, shared.values).where("backward"),
            "log": order.withColumn("lowest", F.col("value")),
        }
        where = kept.keep(places(by_name, ww_deps=ww_deps))
        rows = dependencies(
            {**by_name, "places": where},
            tangled={row["run"] for row in where.collect()},
            lonely={row["run"] for row in concurrent(ops).collect()},
            ww_deps=ww_deps,
        ).collect()
    found: list[list[Row]] = [[] for _ in pasts]
    for row in sorted(rows, key=lambda row: str(row["anomaly"])):
        found[row["run"]].append(row)
    return found


def sent(invoked: int, op: int, value: int, **more: Any) -> Deed:
    return Deed(invoked=invoked, op=op, f="send", did=[("send", "0", value)], **more)


def polled(invoked: int, op: int, *values: int, **more: Any) -> Deed:
    return Deed(invoked=invoked, op=op, f="poll", did=[("poll", "0", v) for v in values], **more)


def far_apart() -> Past:
    """Return 199 records sent and polled in good order, and a circle around all of them.

    The first op polls what a transaction sends that is under way until the end, where it polls the
    last record.
    """
    clean = [
        deed
        for n in range(1, 200)
        for deed in (sent(4 * n, 4 * n + 1, n), polled(4 * n + 2, 4 * n + 3, n))
    ]
    early = Deed(invoked=1, op=2, did=[("poll", "1", 1)])
    late = Deed(invoked=0, op=2000, did=[("send", "1", 1), ("poll", "0", 199)])
    return Past(deeds=[*clean, early, late], order={"0": list(range(1, 200))})


TOO_EARLY = {"G1c-realtime", "strong-PL-2-cycle-exists"}
STORIES: dict[str, tuple[Past, set[str]]] = {
    "sent, acknowledged, polled": (Past(deeds=[sent(0, 1, 7), polled(2, 3, 7)], order={}), set()),
    "a poll that ended before the send began": (
        Past(deeds=[polled(0, 1, 7), sent(2, 3, 7)], order={}),
        TOO_EARLY,
    ),
    "a poll that ended nobody knows when, for it is info": (
        Past(deeds=[polled(0, 1, 7, type="info"), sent(2, 3, 7)], order={}),
        set(),
    ),
    "a send that is info, polled before it began": (
        Past(deeds=[polled(0, 1, 7), sent(2, 3, 7, type="info")], order={}),
        TOO_EARLY,
    ),
    "two transactions that poll what the other one sends": (
        Past(
            deeds=[
                Deed(invoked=0, op=2, did=[("send", "0", 1), ("poll", "1", 2)]),
                Deed(invoked=1, op=3, did=[("send", "1", 2), ("poll", "0", 1)]),
            ],
            order={},
        ),
        {"G1c", "PL-2-cycle-exists"},
    ),
    "one send": (Past(deeds=[sent(0, 1, 7)], order={}), {"empty-transaction-graph"}),
    "two at once that know nothing of each other": (
        Past(deeds=[sent(0, 2, 7), polled(1, 3, 1000)], order={}),
        {"empty-transaction-graph"},
    ),
    "two at once, and one polls what the other sends": (
        Past(deeds=[sent(0, 2, 7), polled(1, 3, 7)], order={}),
        set(),
    ),
    "an assignment after a send": (
        Past(deeds=[sent(0, 1, 7), Deed(invoked=2, op=3, f="assign", did=[])], order={}),
        {"empty-transaction-graph"},
    ),
    "a circle around everything": (far_apart(), TOO_EARLY),
    "a log against time": (
        Past(deeds=[sent(0, 1, 7), sent(2, 3, 8)], order={"0": [8, 7]}),
        set(),
    ),
    "nothing": (Past(deeds=[], order={}), set()),
}
TOLD = [past for past, _ in STORIES.values()]


@pytest.fixture(scope="module")
def drawn() -> list[Past]:
    """Histories of all sorts; Hypothesis draws them, one search is for them all."""
    gathered: list[Past] = []

    @settings(max_examples=DRAWN, database=None, phases=[Phase.generate])
    @given(past=pasts())
    def gather(past: Past) -> None:
        gathered.append(past)

    gather()
    return gathered


@pytest.fixture(scope="module")
def without(spark: SparkSession, drawn: list[Past]) -> list[list[Row]]:
    """What is found in the stories and, behind them, in what was drawn."""
    return search(spark, [*TOLD, *drawn], ww_deps=False)


@pytest.fixture(scope="module")
def with_ww_deps(spark: SparkSession, drawn: list[Past]) -> list[list[Row]]:
    """The same, with edges of ww."""
    return search(spark, [*TOLD, *drawn], ww_deps=True)


def agree(pasts: Sequence[Past], found: Sequence[list[Row]], *, ww_deps: bool) -> Counter[str]:
    """Demand what brute force says, and return how often each name was found."""
    kinds: Counter[str] = Counter()
    for past, rows in zip(pasts, found, strict=True):
        names = Counter(row["anomaly"] for row in rows)
        assert names == expected(past, ww_deps=ww_deps), past
        edges = edges_of(past, ww_deps=ww_deps)
        for row in rows:
            if row["anomaly"].startswith("G"):
                check_cycle(json.loads(row["detail"]), row["anomaly"], edges)
        kinds += names
    return kinds


def test_cycles_agree_with_brute_force(drawn: list[Past], without: list[list[Row]]) -> None:
    kinds = agree(drawn, without[len(STORIES) :], ww_deps=False)

    assert set(kinds) == {*TOO_EARLY, "G1c", "PL-2-cycle-exists", "empty-transaction-graph"}


def test_cycles_with_ww_deps_agree_with_brute_force(
    drawn: list[Past], with_ww_deps: list[list[Row]]
) -> None:
    kinds = agree(drawn, with_ww_deps[len(STORIES) :], ww_deps=True)

    assert {"G0", "G0-realtime", "G1c", "G1c-realtime"} <= set(kinds)


def test_stories(without: list[list[Row]]) -> None:
    told = dict(zip(STORIES, without, strict=False))

    names = {name: {row["anomaly"] for row in rows} for name, rows in told.items()}
    assert names == {name: wanted for name, (_, wanted) in STORIES.items()}


def test_a_cycle_may_reach_from_the_first_op_to_the_last(without: list[list[Row]]) -> None:
    cycle, _ = dict(zip(STORIES, without, strict=False))["a circle around everything"]

    ops = json.loads(cycle["detail"])["cycle"]
    assert sorted(ops[1:]) == [2, 797, 2000]


def test_the_log_against_time_is_a_cycle_with_ww_deps(with_ww_deps: list[list[Row]]) -> None:
    cycle, companion = dict(zip(STORIES, with_ww_deps, strict=False))["a log against time"]

    assert (cycle["anomaly"], cycle["op"]) == ("G0-realtime", 1)
    assert json.loads(cycle["detail"]) == {
        "cycle": [3, 1, 3],
        "steps": [
            {"type": "ww", "from": 3, "to": 1, "key": "0", "value": 8, "next-value": 7,
             "from-mop": 0, "to-mop": 0},
            {"type": "realtime", "from": 1, "to": 3},
        ],
    }  # fmt: skip
    assert companion["anomaly"] == "strong-PL-1-cycle-exists"
    assert json.loads(companion["detail"]) == {"size": 2, "ops": [1, 3]}


def test_what_is_in_order_is_not_searched(spark: SparkSession) -> None:
    # Each poll also has the record that is not acknowledged yet.
    deeds = [
        deed
        for n in range(100)
        for deed in (sent(4 * n, 4 * n + 2, n), polled(4 * n + 1, 4 * n + 3, n, max(0, n - 1)))
    ]
    _, mops, _ = frames_of(spark, [Past(deeds=deeds, order={})])

    assert stretches(read_edges(placed(mops)), bits=BLOCK_BITS).collect() == []
