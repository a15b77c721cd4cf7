"""What the plots of op histories show: stories by hand, and hundreds held against a reference."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.core.verdict import Verdict
from tests.spark.op_metrics_reference import Lag, Measures, joined, timed
from tests.spark.test_op_metrics import Story, write
from tests.spark.test_op_reference import drawn
from verifiers.ops.checking import OpChecked, OpFound
from verifiers.ops.job import verify_histories
from verifiers.ops.plots import lag_series, orders, unseen
from verifiers.ops.plots.axes import Axis
from verifiers.ops.plots.lag_series import KEY, THREAD, THREAD_KEY, Stretch
from verifiers.ops.plots.orders import Cell, Order, Suspect
from verifiers.ops.plots.series import Series, series_of
from verifiers.ops.plots.unseen import Layer, Unseen
from verifiers.ops.reading import read_histories

STORED = Path(__file__).parent / "histories"
NAMES = (
    "unseen", "duplicate", "inconsistent-offsets-polls", "lost-write", "G1a",
    "unseen-indeterminate", "clean", "empty", "nothing",
)  # fmt: skip
HISTORIES, JOINED = 60, 6
"""So many histories are drawn, and so many of them joined into one in which more happens."""


def gathered(
    spark: SparkSession, paths: Sequence[Path], *, offences: bool = False
) -> Mapping[int, Series]:
    """Return the series; with offences, an order is looked for wherever there could be one."""
    read = read_histories(spark, paths)
    claimed = OpFound(counts={"unseen": 1} if offences else {})
    checked = OpChecked(by_run=dict.fromkeys(range(len(paths)), claimed), checkers={})
    try:
        return series_of(read, checked)
    finally:
        read.close()


@pytest.fixture(scope="module")
def stored(spark: SparkSession) -> Mapping[str, Series]:
    paths = [STORED / f"{name}.jsonl" for name in NAMES]
    series = gathered(spark, paths, offences=True)
    return {NAMES[run]: one for run, one in series.items()}


# -- by hand -------------------------------------------------------------------------------------


def test_what_was_sent_is_unseen_until_it_is_polled(stored: Mapping[str, Series]) -> None:
    one = stored["unseen"]

    # Ops complete at 1 ms (sends to both keys), 3 ms (sends to key 1) and 5 ms (polls key 0).
    assert one.unseen == Unseen(
        moments=(1_000_000, 3_000_000, 5_000_000),
        layers=(
            Layer(key="1", counts=(1, 2, 2), most=2),
            Layer(key="0", counts=(1, 1, 0), most=1),
        ),
        keys=2,
    )


def test_the_drain_begins_with_the_last_send(stored: Mapping[str, Series]) -> None:
    axes = stored["unseen"].axes
    assert axes is not None
    assert axes.moments == Axis(timed=True, low=0, high=5_000_000, drain=3_000_000)


def test_what_is_unknown_was_not_sent_and_what_a_failed_op_polled_not_seen(
    stored: Mapping[str, Series],
) -> None:
    # Value 2 is of unknown outcome; value 1 was acknowledged at 3 ms, and polled by a failed op.
    assert stored["unseen-indeterminate"].unseen == Unseen(
        moments=(3_000_000,), layers=(Layer(key="0", counts=(1,), most=1),), keys=1
    )


def test_a_poll_that_did_not_get_what_was_known_is_behind(stored: Mapping[str, Series]) -> None:
    # Offset 2 was known at 3 ms; process 1 polled at 4 ms, and got offset 0 alone.
    behind = Stretch(
        from_ns=4_000_000, to_ns=4_000_000, lag_ns=1_000_000, process=1, key="0", op=5
    )  # fmt: skip
    lags = stored["duplicate"].lags

    assert set(lags) == {THREAD, KEY, THREAD_KEY}
    for members in lags.values():
        assert members.members[0].worst == behind
    assert [(one.thread, one.worst is None) for one in lags[THREAD].members] == [
        (1, False), (2, True),
    ]  # fmt: skip


def order_of(series: Series) -> Order:
    (order,) = series.orders.orders
    return order


def test_a_duplicate_stands_at_both_of_its_offsets(stored: Mapping[str, Series]) -> None:
    order = order_of(stored["duplicate"])

    assert (order.key, order.counts) == ("0", {"duplicate": 1})
    assert order.suspects == (Suspect(value=1, anomalies=("duplicate",)),)
    assert order.offsets == {0: 0, 1: 1, 2: 2}
    assert [(row.op, row.process, row.type, row.f) for row in order.rows] == [
        (1, 0, "ok", "send"), (3, 0, "ok", "send"), (5, 1, "ok", "poll"), (9, 2, "ok", "poll"),
    ]  # fmt: skip
    assert order.rows[3].cells == (
        Cell(column=1, kind="poll", value=1, suspect=True),
        Cell(column=2, kind="poll", value=2, suspect=False),
    )


def test_both_values_of_an_offset_are_looked_at(stored: Mapping[str, Series]) -> None:
    order = order_of(stored["inconsistent-offsets-polls"])

    assert order.counts["inconsistent-offsets"] == 2
    columns = Counter(
        cell.column for row in order.rows for cell in row.cells
        if cell.suspect and cell.kind == "poll"
    )  # fmt: skip
    assert max(columns.values()) >= 2


def test_a_lost_value_stands_where_it_was_acknowledged(stored: Mapping[str, Series]) -> None:
    order = order_of(stored["lost-write"])

    assert order.counts == {"lost-write": 1, "unseen": 1}
    assert order.suspects == (Suspect(value=2, anomalies=("lost-write", "unseen")),)
    (row,) = [row for row in order.rows if any(cell.suspect for cell in row.cells)]
    assert (row.op, row.cells[0].column) == (3, 1)


def test_an_aborted_value_stands_with_who_wrote_and_who_read_it(
    stored: Mapping[str, Series],
) -> None:
    order = order_of(stored["G1a"])

    assert order.counts == {"G1a": 1}
    shown = [
        (row.type, cell.kind) for row in order.rows for cell in row.cells if cell.suspect
    ]  # fmt: skip
    assert shown == [("fail", "send"), ("ok", "poll")]


@pytest.mark.parametrize("name", ["clean", "empty"])
def test_keys_without_an_offence_have_no_order(name: str, stored: Mapping[str, Series]) -> None:
    assert stored[name].orders.orders == ()


def test_where_nothing_happened_there_is_no_axis(stored: Mapping[str, Series]) -> None:
    assert stored["nothing"] == Series()


def test_a_lag_grows_through_other_ops_and_begins_when_the_next_record_was_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 30), 0)
        .poll((100, 101))
        .tell((150, 160), 1, "send", [["send", 1, [0, 7]]])
        .poll((300, 301))
    )

    (series,) = gathered(spark, write(tmp_path, [story.events])).values()

    (member, *_) = series.lags[KEY].members
    assert (member.key, member.stretches) == (
        "0", (Stretch(from_ns=30, to_ns=300, lag_ns=270, process=1, key="0", op=9),),
    )  # fmt: skip


def some_histories() -> list[list[dict[str, Any]]]:
    """Return short histories, and long ones in which values are sent and polled again."""
    short = drawn(HISTORIES)
    joints = [joined(short[at : at + JOINED]) for at in range(0, HISTORIES, JOINED)]
    return [*short[:20], *joints]


# -- thinning ------------------------------------------------------------------------------------


def counts_of(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Yield time, index and unseen values by key after each op that is ok."""
    sent: dict[tuple[str, int], None] = {}
    seen: set[tuple[str, int]] = set()
    for event in events:
        if event["type"] != "ok" or event["f"] not in ("send", "poll", "txn"):
            continue
        for mop in event["value"]:
            if mop[0] == "send":
                value = mop[2][1] if isinstance(mop[2], list) else mop[2]
                sent[str(mop[1]), value] = None
            elif len(mop) > 1 and mop[1]:
                seen |= {(key, value) for key, pairs in mop[1].items() for _, value in pairs}
        yield (
            event.get("time", -1), event["index"],
            dict(Counter(key for key, value in sent if (key, value) not in seen)),
        )  # fmt: skip


def test_what_is_kept_of_the_unseen_is_true_and_has_the_extremes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "BINS", 1)
    histories = some_histories()
    # Every second one has times; without, the index is the axis.
    told = [
        [{**event, "time": 10 * event["index"] + 5} for event in events] if run % 2 else events
        for run, events in enumerate(histories)
    ]
    told = [
        events if run % 2 else [{k: v for k, v in one.items() if k != "time"} for one in events]
        for run, events in enumerate(told)
    ]

    series = gathered(spark, write(tmp_path, told))

    ended = thinned = 0
    for run, events in enumerate(told):
        story = "\n".join(map(json.dumps, events))
        one = series[run].unseen
        truth = {
            (time if run % 2 else index): counts for time, index, counts in counts_of(events)
        }  # fmt: skip
        totals = [sum(counts.values()) for counts in truth.values()]
        for number, moment in enumerate(one.moments):
            shown = {layer.key: layer.counts[number] for layer in one.layers}
            assert {k: n for k, n in shown.items() if n} == truth[moment], story
        kept = [sum(layer.counts[n] for layer in one.layers) for n in range(len(one.moments))]
        assert max(kept, default=0) == max(totals, default=0), story
        assert len(one.moments) <= 4
        last = list(truth.values())[-1] if truth else {}
        left = {layer.key: layer.counts[-1] for layer in one.layers}
        assert {key: count for key, count in left.items() if count} == last, story
        for layer in one.layers:
            most = max(counts.get(str(layer.key), 0) for counts in truth.values())
            assert layer.most == most, story
        ended += bool(last)
        steps = [{}, *truth.values()]
        changes = sum(before != after for before, after in pairwise(steps))
        thinned += len(one.moments) < changes
    assert min(ended, thinned) >= 5, (ended, thinned)


def test_keys_without_a_layer_of_their_own_share_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "MOST_NAMED", 1)
    story = Story()
    for key, times in ((0, 1), (1, 3), (2, 2)):
        for n in range(times):
            value = [["send", key, [n, n]]]
            story.tell((10 * len(story.events), 10 * len(story.events) + 5), 0, "send", value)

    (series,) = gathered(spark, write(tmp_path, [story.events])).values()

    named, others = series.unseen.layers
    assert (named.key, named.counts[-1], others.key, others.counts[-1]) == ("1", 3, None, 3)
    assert series.unseen.keys == 3


def test_lags_that_are_shown_are_those_of_a_reference_and_the_worst_of_each_is_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_series, "BINS", 4)
    histories = [timed(events, seed) for seed, events in enumerate(some_histories())]

    series = gathered(spark, write(tmp_path, histories))

    shown = 0
    for run, events in enumerate(histories):
        story = "\n".join(map(json.dumps, events))
        lags = Measures(events).lags
        worst: dict[str, int] = {}
        for lag in lags:
            worst[lag.key] = max(lag.lag, worst.get(lag.key, 0))
        told = series[run].lags
        members = told[KEY].members if told else ()
        assert {one.key: one.worst.lag_ns if one.worst else 0 for one in members} == worst, story
        for grouping in told.values():
            for one in grouping.members:
                assert len(one.stretches) <= 2 * 4
                for stretch in one.stretches:
                    shown += 1
                    assert true(stretch, lags), f"{stretch}\n{story}"
    assert shown >= 15


def true(stretch: Stretch, lags: Sequence[Lag]) -> bool:
    """Return whether every poll within the stretch was as far behind as it shows."""
    mine = [lag for lag in lags if (lag.process, lag.key) == (stretch.process, stretch.key)]
    ends = Lag(stretch.process, stretch.key, stretch.op, stretch.to_ns, stretch.lag_ns) in mine
    return ends and all(
        lag.lag == stretch.lag_ns - (stretch.to_ns - lag.time)
        for lag in mine
        if stretch.from_ns < lag.time < stretch.to_ns
    )


def test_of_many_offences_the_first_of_each_anomaly_are_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "MOST_VALUES", 3)
    monkeypatch.setattr(orders, "MOST_COLUMNS", 6)
    monkeypatch.setattr(orders, "MOST_ROWS", 5)
    story = Story()
    for offset in range(40):
        story.send((offset, offset), offset)
    # All was read but offset 30, which is lost; what lies at two offsets is a duplicate.
    story.poll((50, 51), *(offset for offset in range(40) if offset != 30))
    story.tell((52, 53), 1, "poll", [["poll", {"0": [[40, 135]]}]])
    for offset in range(41, 61):
        story.send((offset, offset), offset)

    (series,) = gathered(spark, write(tmp_path, [story.events]), offences=True).values()

    order = order_of(series)
    assert order.counts == {"duplicate": 1, "lost-write": 1, "unseen": 21}
    assert [(one.value, one.anomalies) for one in order.suspects] == [
        (130, ("lost-write", "unseen")),
        (135, ("duplicate",)),
        (141, ("unseen",)),
    ]
    assert len(order.offsets) == 6
    # Each of them is there, and around the first one its neighbours are.
    assert {30, 35, 40, 41} <= set(order.offsets.values())
    assert len(order.rows) == 5
    assert (order.all_offsets, order.all_rows > 5) == (61, True)


# -- with the verdicts ---------------------------------------------------------------------------


def test_plots_are_drawn_beside_the_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    paths = [STORED / f"{name}.jsonl" for name in ("duplicate", "malformed-torn", "clean")]
    told: list[str] = []

    verdicts = verify_histories(
        paths, master="local[2]", plots=tmp_path / "plots", say=told.append
    )  # fmt: skip

    assert [one.verdict.name for one in verdicts] == ["INVALID", "UNKNOWN", "VALID"]
    folders = {path.name for path in (tmp_path / "plots").iterdir() if path.is_dir()}
    assert folders == {"duplicate", "clean"}
    assert (tmp_path / "plots" / "duplicate" / "orders" / "0.svg").is_file()
    assert "INVALID" in (tmp_path / "plots" / "duplicate" / "index.html").read_text()
    assert f"Plots: {tmp_path / 'plots' / 'index.html'}" in told


def test_whoever_asks_for_no_plots_does_not_pay_for_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verifiers.ops.plots.drawing.series_of", None)

    (verdict,) = verify_histories([STORED / "clean.jsonl"], master="local[2]")

    assert verdict.verdict is Verdict.VALID


def test_plots_that_crash_say_so_and_leave_the_verdict_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("verifiers.ops.plots.drawing.series_of", None)
    told: list[str] = []

    (verdict,) = verify_histories(
        [STORED / "clean.jsonl"], master="local[2]", plots=tmp_path / "plots", say=told.append
    )

    assert verdict.verdict is Verdict.VALID
    (sentence,) = [one for one in told if "crash" in one]
    (file,) = tmp_path.glob("kafka-chaos-crash-*/crash-plots.txt")
    assert sentence.endswith(f"its traceback is in {file}.")
