"""Plants and checkers belong together; what `verify --self-test` says and ends with."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from verifiers.adequacy.rule import RULES
from verifiers.checking.checker import checkers_of_runs
from verifiers.planting import self_test as module
from verifiers.planting.plant import PLANTS
from verifiers.planting.run_contents import Offence
from verifiers.planting.self_test import PlantOutcome, SelfTest

MISSED = Offence(anomaly="duplicate", topic="orders", partition=0, offset=7, value=9, kind="log")


def test_every_checker_and_every_rule_has_a_plant() -> None:
    assert {plant.checker for plant in PLANTS.values() if not plant.rule} == set(checkers_of_runs())
    assert {plant.rule for plant in PLANTS.values() if not plant.checker} == set(RULES)


def test_a_plant_is_named_after_its_checker_or_rule() -> None:
    assert all(name.split(" (")[0] == plant.subject for name, plant in PLANTS.items())


def test_the_first_rules_have_several_plants() -> None:
    plants = Counter(plant.rule for plant in PLANTS.values())
    first = ("files-complete", "log-read-whole", "load-met-damage", "readers-read")
    assert all(plants[rule] > 1 for rule in first)


def outcome(*plants: PlantOutcome) -> SelfTest:
    return SelfTest(run="r", baseline={}, plants=plants, seconds=1.0)


FOUND = PlantOutcome(name="phantom", checker="phantom", told="a record", planted=1)
FAILED = PlantOutcome(
    name="duplicate", checker="duplicate", told="twice", planted=1, missed=(MISSED,)
)
LEFT_OUT = PlantOutcome(
    name="zombie-commit", checker="zombie-commit", told="none", not_planted=True
)


@pytest.mark.parametrize(
    ("plants", "code"),
    [([FOUND, LEFT_OUT], 0), ([FOUND, FAILED], 1), ([LEFT_OUT], 1)],
    ids=["found", "missed", "nothing planted"],
)
def test_the_exit_code_says_whether_all_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plants: list[PlantOutcome], code: int
) -> None:
    monkeypatch.setattr(module, "self_test", lambda *_, **__: outcome(*plants))

    ended = CliRunner().invoke(app, ["verify", "--self-test", str(tmp_path), "--json"])

    assert ended.exit_code == code
    document = json.loads(ended.stdout)
    assert document["passed"] is (code == 0)
    assert [one["outcome"] for one in document["plants"]] == [one.outcome for one in plants]


def test_what_was_missed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "self_test", lambda *_, **__: outcome(FAILED))

    ended = CliRunner().invoke(app, ["verify", "--self-test", str(tmp_path)])

    assert "duplicate at orders/0 offset 7, value 9, kind log was planted and not found" in (
        ended.stderr
    )


@pytest.mark.parametrize("words", [["a", "b"], ["nowhere"], [".", "--ww-deps"]])
def test_it_takes_one_folder(words: list[str]) -> None:
    ended: Any = CliRunner().invoke(app, ["verify", "--self-test", *words])

    assert type(ended.exception).__name__ == "UsageError"
