"""What is measured in op histories: stories written by hand, and hundreds held against a reference.

All histories of a test are one job.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.core.verdict import Verdict
from tests.spark.op_metrics_reference import Lag, Measures, joined, timed
from tests.spark.test_op_reference import HISTORIES, drawn
from verifiers.checking.checker import CHECKERS, offences
from verifiers.ops.checking import check_histories
from verifiers.ops.job import verify_histories
from verifiers.ops.measured import Measured
from verifiers.ops.metrics import CONSUMED, LAGS, MEASURES, METRIC_SCHEMA
from verifiers.ops.reading import read_histories

JOINED = 5
"""So many of them are joined into one, in which more happens."""
NO_LAG = {"time": 0, "lag": 0, "time_s": 0.0, "lag_s": 0.0}


class Story:
    """A history by hand: each op with the times of its invocation and its completion."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def tell(
        self, times: tuple[int, int], process: int, f: str, value: Any, **other: Any
    ) -> "Story":
        kind = other.pop("type", "ok")
        invoked = [mop[:1] if mop[0] == "poll" else mop for mop in value] if f in MOPS else value
        for time, event in zip(
            times, ({"type": "invoke", "value": invoked}, {"type": kind, "value": value, **other}),
            strict=True,
        ):  # fmt: skip
            told = {"index": len(self.events), "time": time, "process": process, "f": f}
            self.events.append({**told, **event})
        return self

    def send(self, times: tuple[int, int], offset: int | None, **other: Any) -> "Story":
        value = 100 + (offset or 0)
        return self.tell(times, 9, "send", [["send", 0, [offset, value]]], **other)

    def poll(self, times: tuple[int, int], *offsets: int, process: int = 1) -> "Story":
        polled = {"0": [[offset, 100 + offset] for offset in offsets]}
        return self.tell(times, process, "poll", [["poll", polled]])


MOPS = ("send", "poll", "txn")

LAG_STORIES: dict[str, tuple[Story, dict[str, Any]]] = {
    "a poll that got the last record there was is not behind": (
        Story().tell((0, 1), 1, "assign", [0]).send((2, 3), 0).poll((4, 5), 0),
        {"time": 4, "lag": 0, "op": 5},
    ),
    "an empty poll is behind by the age of the record that it did not get": (
        Story().tell((0, 1), 1, "assign", [0]).send((2, 30), 0).poll((100, 101)),
        {"time": 100, "lag": 70, "op": 5},
    ),
    "of empty polls in a row the last one is the furthest behind": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 30), 0)
        .poll((100, 101))
        .poll((200, 201))
        .poll((300, 301), 0),
        {"time": 200, "lag": 170, "op": 7},
    ),
    "what a poll itself got is no part of its lag": (
        Story().tell((0, 1), 1, "assign", [0]).send((2, 3), 0).send((4, 5), 1).poll((100, 101), 0),
        {"time": 100, "lag": 95, "op": 7},
    ),
    "a record of unknown outcome counts once it has an offset": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 10), 0, type="info", error="timed out")
        .poll((50, 51)),
        {"time": 50, "lag": 40, "op": 5},
    ),
    "a failed send shows nothing, and neither does one without an offset": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 10), 0, type="fail")
        .send((12, 13), None)
        .poll((50, 51)),
        {"time": 50, "lag": 0, "op": 7},
    ),
    "whoever knows of a record knows of all below it": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 10), 7)
        .send((11, 20), 0)
        .poll((50, 51)),
        {"time": 50, "lag": 40, "op": 7},
    ),
    "a poll that got less than was got before is not further behind for that": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 3), 0)
        .send((4, 5), 1)
        .poll((6, 7), 0, 1)
        .poll((100, 101), 0),
        {"time": 6, "lag": 0, "op": 7},
    ),
    "a key that is taken away is not lagged behind, one that is assigned again keeps its place": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 3), 0)
        .poll((4, 5), 0)
        .tell((6, 7), 1, "assign", [0, 1])
        .send((8, 9), 1)
        .poll((20, 21))
        .tell((22, 23), 1, "assign", [1])
        .poll((1000, 1001)),
        {"time": 20, "lag": 11, "op": 11},
    ),
    "a key that comes back after it was taken away is begun anew": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 3), 0)
        .poll((4, 5), 0)
        .tell((6, 7), 1, "assign", [])
        .tell((8, 9), 1, "assign", [0])
        .poll((50, 51)),
        {"time": 50, "lag": 47, "op": 11},
    ),
    "an assign that did not succeed changes nothing": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .send((2, 3), 0)
        .tell((4, 5), 1, "assign", [], type="info")
        .tell((6, 7), 1, "assign", [], type="fail")
        .poll((50, 51)),
        {"time": 50, "lag": 47, "op": 9},
    ),
    "who subscribed has a key only once it was given something of it": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .tell((2, 3), 1, "subscribe", [0])
        .send((4, 5), 0)
        .poll((100, 101))
        .poll((200, 201), 0)
        .send((202, 203), 1)
        .poll((210, 211)),
        {"time": 210, "lag": 7, "op": 13},
    ),
    "what a transaction sent is a position as well": (
        Story()
        .tell((0, 1), 1, "assign", [0])
        .tell((2, 3), 1, "txn", [["send", 0, [0, 1]], ["poll", {}]])
        .send((4, 10), 1)
        .poll((15, 16)),
        {"time": 15, "lag": 5, "op": 7},
    ),
}  # fmt: skip


def write(folder: Path, histories: Sequence[Sequence[Mapping[str, Any]]]) -> list[Path]:
    paths = [folder / f"{number}.jsonl" for number in range(len(histories))]
    for path, events in zip(paths, histories, strict=True):
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return paths


@pytest.fixture(scope="module")
def told(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("stories")
    stories = {**{name: story for name, (story, _) in LAG_STORIES.items()}, **OTHERS}
    paths = write(folder, [story.events for story in stories.values()])
    torn = folder / "torn.jsonl"
    torn.write_text('{"index": 0')
    verdicts = verify_histories([*paths, torn], master="local[2]")
    documents = [one.to_json()["metrics"] for one in verdicts]
    return dict(zip([*stories, "torn"], documents, strict=True))


OTHERS = {
    "untimed": Story().tell((0, 1), 1, "assign", [0]).send((2, 3), 0).poll((4, 5)),
    "two processes and keys": (
        Story()
        .tell((0, 1), 1, "assign", [0, 1])
        .tell((0, 1), 2, "assign", [0, 1])
        .send((2, 3), 0)
        .tell((4, 5), 9, "send", [["send", 1, [0, 1]]])
        .poll((10, 11))
        .poll((20, 21), 0, process=2)
    ),
    "consumed": (
        Story()
        .send((0, 1), 0)
        .send((0, 1), 1)
        .poll((2, 3), 0)
        .tell((4, 5), 1, "subscribe", [0])
        .poll((6, 7), 0, 1)
        .tell((8, 9), 1, "assign", [0])
        .poll((10, 11), 1)
        .poll((12, 13), 1)
        .poll((14, 15), 0, process=2)
        .poll((14, 15), 0, process=2)
    ),
    "causes": (
        Story()
        .send((0, 1), 0, type="info", error="timed out")
        .send((2, 3), 1, type="info", error="disconnected")
        .send((4, 5), 2, type="info", error=["a", 1])
        .send((6, 7), 3, type="info", error="timed out")
        .send((8, 9), 4, type="info")
        .send((10, 11), 5, type="fail", error="refused")
        .tell((12, 13), 1, "assign", [0], type="info", error="is no send")
    ),
    "nothing": Story(),
}
for event in OTHERS["untimed"].events:
    del event["time"]


@pytest.mark.parametrize("name", LAG_STORIES)
def test_the_worst_lag(name: str, told: Mapping[str, dict[str, Any]]) -> None:
    worst = told[name]["worst-realtime-lag"]

    expected = LAG_STORIES[name][1]
    assert worst == {
        "process": 1, "key": "0", **expected,
        "time_s": expected["time"] / 1e9, "lag_s": expected["lag"] / 1e9,
    }  # fmt: skip


def test_lags_are_told_by_process_and_by_key(told: Mapping[str, dict[str, Any]]) -> None:
    metrics = told["two processes and keys"]

    by_process = metrics["realtime-lag"]["by-process"]
    assert [(one["process"], one["key"], one["lag"]) for one in by_process] == [
        (2, "1", 15),
        (1, "0", 7),
    ]
    by_key = metrics["realtime-lag"]["by-key"]
    assert [(one["key"], one["process"], one["lag"]) for one in by_key] == [
        ("1", 2, 15),
        ("0", 1, 7),
    ]
    assert (metrics["realtime-lag"]["processes"], metrics["realtime-lag"]["keys"]) == (2, 2)
    assert metrics["worst-realtime-lag"] == by_process[0]


@pytest.mark.parametrize("name", ["untimed", "nothing", "causes"])
def test_where_nothing_could_be_measured_there_is_no_lag(
    name: str, told: Mapping[str, dict[str, Any]]
) -> None:
    assert told[name]["worst-realtime-lag"] == NO_LAG
    assert told[name]["realtime-lag"] == {
        "processes": 0, "keys": 0, "by-process": [], "by-key": [],
    }  # fmt: skip


def test_values_are_counted_from_the_first_subscription_on(
    told: Mapping[str, dict[str, Any]],
) -> None:
    assert told["consumed"]["consume-counts"] == {
        "distribution": {"1": 1, "3": 1},
        "repeated": 1,
        "examples": [{"process": 1, "key": "0", "value": 101, "times": 3}],
    }
    assert told["causes"]["consume-counts"] == {"distribution": {}, "repeated": 0, "examples": []}


def test_errors_of_unknown_ops_are_counted(told: Mapping[str, dict[str, Any]]) -> None:
    assert told["causes"]["info-txn-causes"] == {
        "distinct": 4,
        "causes": [
            {"error": "timed out", "ops": 2},
            {"error": '["a",1]', "ops": 1},
            {"error": "disconnected", "ops": 1},
            {"error": None, "ops": 1},
        ],
    }
    assert told["nothing"]["info-txn-causes"] == {"distinct": 0, "causes": []}


def test_what_cannot_be_judged_is_not_measured(told: Mapping[str, dict[str, Any]]) -> None:
    assert told["torn"] == {}


def test_spark_measures_what_a_reference_measures(spark: SparkSession, tmp_path: Path) -> None:
    short = drawn(HISTORIES)
    joints = [joined(short[at : at + JOINED]) for at in range(0, HISTORIES, JOINED)]
    histories = [timed(events, seed) for seed, events in enumerate([*short[:80], *joints])]
    read = read_histories(spark, write(tmp_path, histories))
    checked = check_histories(read)
    read.close()

    assert (checked.crashes, checked.unmeasured) == ((), {})
    seen: Counter[str] = Counter()
    for run, events in enumerate(histories):
        story = "\n".join(map(json.dumps, events))
        measures = Measures(events)
        metrics = Measured(records=checked.found_in(run).measured).to_json()
        same_lags(metrics, measures.lags, story)
        counted = Counter(measures.consumed.values())
        consumed = metrics["consume-counts"]
        assert consumed["distribution"] == {str(n): counted[n] for n in sorted(counted)}, story
        assert {
            (one["process"], one["key"], one["value"]): one["times"] for one in consumed["examples"]
        } == {what: times for what, times in measures.consumed.items() if times > 1}, story
        causes = metrics["info-txn-causes"]["causes"]
        assert {one["error"]: one["ops"] for one in causes} == measures.causes, story
        seen["lag"] += any(one.lag for one in measures.lags)
        seen["no lag"] += not measures.lags
        seen["again"] += consumed["repeated"] > 0
        seen["causes"] += len(causes) > 1
    # The draw is worth something only if there is a good deal of everything.
    fewest = len(histories) // 30
    assert min(seen[what] for what in ("lag", "no lag", "again", "causes")) >= fewest, seen


def same_lags(metrics: Mapping[str, Any], lags: Sequence[Lag], story: str) -> None:
    told = metrics["realtime-lag"]
    for name in ("process", "key"):
        worst: dict[int | str, int] = {}
        for lag in lags:
            whose = lag.process if name == "process" else lag.key
            worst[whose] = max(lag.lag, worst.get(whose, 0))
        assert {one[name]: one["lag"] for one in told[f"by-{name}"]} == worst, story
    # Whatever is named happened just so.
    for one in (*told["by-process"], *told["by-key"]):
        assert Lag(one["process"], one["key"], one["op"], one["time"], one["lag"]) in lags, story
    assert metrics["worst-realtime-lag"]["lag"] == max((one.lag for one in lags), default=0), story


CLEAN = Path(__file__).parent / "histories" / "clean.jsonl"


def failing(ops: DataFrame) -> DataFrame:
    """Return measures that fail only once their rows are asked for."""
    failure = F.raise_error(F.lit("no good"))
    given = {"run": F.col("run"), "detail": F.lit("{}")}
    return ops.select(
        *(
            F.coalesce(given.get(f.name, F.lit(None)), failure).cast(f.dataType).alias(f.name)
            for f in METRIC_SCHEMA.fields
        )
    )


def broken_plan(ops: DataFrame) -> DataFrame:
    raise ValueError(f"no plan for {len(ops.columns)} columns")


def failing_plan(ops: DataFrame) -> DataFrame:
    failure = F.raise_error(F.lit("no good")).cast("long")
    return offences(ops, topic=F.concat("run", F.lit("/k")), value=failure, process=None, detail={})


@pytest.mark.parametrize(("check", "why"), [(broken_plan, "no plan"), (failing_plan, "no good")])
def test_a_checker_that_crashes_leaves_its_traceback_and_makes_the_verdict_unknown(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: Any,
    why: str,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    CHECKERS.load()
    broken = replace(CHECKERS["unseen"], find=check)
    monkeypatch.setattr(CHECKERS, "_entries", {**CHECKERS._entries, "unseen": broken})

    (verdict,) = verify_histories([CLEAN], master="local[2]")

    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.checkers["unseen"] == "crashed"
    assert set(verdict.checkers.values()) == {"ran", "crashed"}
    (file,) = tmp_path.glob("kafka-chaos-crash-*/*")
    (reason,) = verdict.reasons
    assert reason.startswith("The checker unseen crashed (")
    assert reason.endswith(f"): its traceback is in {file}.")
    assert file.name == "crash-unseen.txt"
    assert "Traceback" in file.read_text()
    assert why in file.read_text()


def test_a_crash_is_told_where_its_traceback_cannot_be_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "gone"
    CHECKERS.load()
    broken = replace(CHECKERS["unseen"], find=broken_plan)
    monkeypatch.setattr(CHECKERS, "_entries", {"unseen": broken})
    read = read_histories(spark, [CLEAN])
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))

    checked = check_histories(read)
    read.close()

    assert checked.checkers == {"unseen": "crashed", "cycles": "ran"}
    (sentence,) = checked.crashes
    assert sentence.endswith("its traceback could not be written down (No such file or directory).")


def test_a_metric_that_crashes_says_so_and_leaves_the_verdict_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(ops: DataFrame, mops: DataFrame) -> DataFrame:
        return failing(ops).select(F.lit("late").alias("anomaly"), "*")

    def early(ops: DataFrame, mops: DataFrame) -> DataFrame:
        return broken_plan(ops)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken = {**MEASURES, LAGS: late, CONSUMED: early}
    monkeypatch.setattr("verifiers.ops.checking.MEASURES", broken)

    (verdict,) = verify_histories([CLEAN], master="local[2]")

    assert verdict.verdict is Verdict.VALID
    metrics = verdict.to_json()["metrics"]
    assert metrics["worst-realtime-lag"] is None
    assert metrics["realtime-lag"] is None
    assert metrics["consume-counts"] is None
    assert metrics["info-txn-causes"] == {"distinct": 0, "causes": []}
    assert len(metrics["crashed"]) == 2
    assert sorted(file.name for file in tmp_path.rglob("crash-*.txt")) == [
        "crash-consume-counts.txt",
        "crash-realtime-lag.txt",
    ]
    assert verdict.measured is not None
    assert "The metric realtime-lag crashed (" in str(verdict.measured.sentence)
