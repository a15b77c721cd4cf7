"""Benchmarks end with 1 below their goals, and say by how much."""

import re
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from tests.bench import verify
from tests.bench._goals import Goal, exit_code


@pytest.mark.parametrize(
    ("goal", "code"),
    [
        (Goal(name="seconds", measured=20.0, at_most=20.0), 0),
        (Goal(name="seconds", measured=20.1, at_most=20.0), 1),
        (Goal(name="ratio", measured=0.75, at_least=0.75), 0),
        (Goal(name="ratio", measured=0.74, at_least=0.75), 1),
        (Goal(name="losses", measured=9, at_least=10, at_most=10), 1),
        (Goal(name="losses", measured=11, at_least=10, at_most=10), 1),
    ],
    ids=str,
)
def test_a_figure_on_the_wrong_side_of_its_goal_ends_with_1(goal: Goal, code: int) -> None:
    assert exit_code([Goal(name="met", measured=1, at_most=1), goal]) == code


def test_the_goal_that_was_missed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code([Goal(name="median, s", measured=0.4, at_most=0.3)])

    assert capsys.readouterr().err == "missed: median, s: 0.4 (goal: at most 0.3)\n"


@pytest.mark.parametrize("anomaly", ["lost-write", "duplicate", "inconsistent-offsets"])
def test_the_verifier_has_to_count_each_anomaly_as_duckdb_does(anomaly: str) -> None:
    queried = {"lost": 3, "duplicate": 4, "inconsistent": 5}
    verified = {"lost-write": 3, "duplicate": 4, "inconsistent-offsets": 5}

    assert verify.agree(verified, queried)
    assert not verify.agree({**verified, anomaly: 6}, queried)
    assert not verify.agree({k: n for k, n in verified.items() if k != anomaly}, queried)


def test_every_figure_of_a_verification_has_its_goal() -> None:
    case = {"ratio": 1.0, "verify": {"peak_mib": 900}}
    slow = {"ratio": 4.1, "verify": {"peak_mib": 5000}}
    document = {"cases": {"clean": case, "damaged": slow, "tenth": case}, "growth": 11.0}
    document["start_up"] = 0.61

    missed = {goal.name for goal in verify.goals_of(document) if not goal.is_met}

    assert missed == {"damaged, ratio to DuckDB", "start_up", "peak_mib", "growth"}


BENCHES = {path.stem for path in Path(verify.__file__).parent.glob("[a-z]*.py")}


def test_make_runs_benchmarks_that_are_there() -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    listed = re.search(r"^BENCHES \?= (.+)$", makefile.read_text(encoding="utf-8"), re.M)

    assert listed is not None
    assert {name.replace("-", "_") for name in listed[1].split()} <= BENCHES


@pytest.mark.parametrize("name", sorted(BENCHES))
def test_a_benchmark_takes_the_arguments_of_its_command(name: str) -> None:
    main = import_module(f"tests.bench.{name}").main

    assert list(signature(main).parameters) == ["arguments"]
