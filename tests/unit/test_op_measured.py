"""What was measured in an op history, as it is told."""

from verifiers.ops.measured import Measured
from verifiers.ops.metrics import CAUSES, LAGS, OF_KEY, OF_PROCESS, REPEATED, WORST

WORST_LAG = {"process": 3, "key": "0", "op": 77, "time": 12_000_000_000, "lag": 1_234_000_000}


def test_where_there_is_nothing_to_say_nothing_is_said() -> None:
    assert Measured().sentence is None
    assert Measured(records={WORST: [{**WORST_LAG, "lag": 0, "of": 1}]}).sentence is None


def test_all_there_is_to_say_stands_in_one_line() -> None:
    causes: list[dict[str, object]] = [
        {"error": "timed out", "ops": 9, "of": 5},
        {"ops": 3, "of": 5},
        {"error": "x" * 99, "ops": 2, "of": 5},
        {"error": "rare", "ops": 1, "of": 5},
    ]
    measured = Measured(
        records={
            WORST: [{**WORST_LAG, "of": 1}],
            REPEATED: [{"process": 1, "key": "0", "value": 5, "times": 2, "of": 40}],
            CAUSES: causes,
        }
    )

    assert measured.sentence == (
        "worst realtime lag 1.23 s (process 3, key 0, op 77); "
        "40 values given out more than once to one subscriber; "
        f"outcomes unknown by timed out (9), no reason recorded (3), {'x' * 60}… (2), 2 more"
    )


def test_lags_are_told_in_nanoseconds_and_in_seconds() -> None:
    record = {**WORST_LAG, "of": 40}
    told = Measured(records={WORST: [record], OF_PROCESS: [record], OF_KEY: [record]}).to_json()

    assert told["worst-realtime-lag"] == {**WORST_LAG, "time_s": 12.0, "lag_s": 1.234}
    assert told["realtime-lag"]["processes"] == told["realtime-lag"]["keys"] == 40
    assert told["realtime-lag"]["by-process"] == [told["worst-realtime-lag"]]


def test_what_could_not_be_measured_is_null_and_says_why() -> None:
    told = Measured(crashes={LAGS: "The metric realtime-lag crashed."}).to_json()

    assert told["worst-realtime-lag"] is None
    assert told["realtime-lag"] is None
    assert told["consume-counts"] == {"distribution": {}, "repeated": 0, "examples": []}
    assert told["crashed"] == ["The metric realtime-lag crashed."]
