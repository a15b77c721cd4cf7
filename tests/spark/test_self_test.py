"""Every kind of anomaly, planted into copies of one run, is found, and nothing else is."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.core.errors import UsageError
from tests.spark.everything import write_everything
from tests.spark.ops import Folder, Rec, filler, final, ok, poll
from verifiers.adequacy.rule import RULES
from verifiers.checking.checker import CHECKERS, checkers_of_runs, offences
from verifiers.planting.plant import PLANTS
from verifiers.planting.run_contents import NothingToPlant, RunContents
from verifiers.planting.run_copy import RunCopy, copy_run
from verifiers.planting.self_test import PlantOutcome, SelfTest, self_test

pytestmark = pytest.mark.usefixtures("spark")


def plant_in(path: Path, *only: str) -> SelfTest:
    return self_test(path, master="local[2]", only=only)


def write_plain(path: Path) -> Path:
    """Write a run in order without groups and transactions: few checkers have anything to do."""
    polls = [poll(9, n, Rec(50, n, n, partition=1)) for n in range(20)]
    return Folder([*filler(20), *polls], whole=True).write(path)


def named(outcome: SelfTest) -> dict[str, PlantOutcome]:
    return {one.name: one for one in outcome.plants}


def contents(path: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(file.relative_to(path)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def checkers() -> Iterator[dict[str, Any]]:
    """The registered checkers by name, to be changed for this test alone."""
    list(CHECKERS)
    known = dict(CHECKERS._entries)
    yield CHECKERS._entries
    CHECKERS._entries.clear()
    CHECKERS._entries.update(known)


def test_whatever_is_planted_into_a_run_of_everything_is_found(tmp_path: Path) -> None:
    path = write_everything(tmp_path / "run")
    before = contents(path)

    outcome = plant_in(path)

    assert [one.to_json() for one in outcome.plants if one.outcome != "found"] == []
    assert {one.checker for one in outcome.plants} == {*checkers_of_runs(), *RULES}
    assert (outcome.passed, outcome.baseline) == (True, {})
    assert contents(path) == before


def test_what_a_run_does_not_hold_is_named_and_what_it_has_already_is_its_own(
    tmp_path: Path,
) -> None:
    ops = [*filler(20), ok(1, 0, 0), ok(1, 1, 1), final(Rec(1, 0, 0))]

    outcome = plant_in(
        # Logs that lack what the history acknowledges would make another kind of loss.
        Folder(ops).write(tmp_path / "run", disks=False),
        "zombie-commit",
        "lost-write",
        "duplicate",
    )

    plants = named(outcome)
    assert plants["zombie-commit"].not_planted
    assert plants["zombie-commit"].told == "the run has no transactions"
    assert outcome.baseline == {"lost-write": 1}
    assert (plants["lost-write"].outcome, plants["duplicate"].outcome) == ("found", "found")
    assert outcome.passed


def test_a_verifier_without_a_checker_fails(tmp_path: Path, checkers: dict[str, Any]) -> None:
    path = write_plain(tmp_path / "run")
    del checkers["duplicate"]

    outcome = plant_in(path, "duplicate", "phantom")

    assert not outcome.passed
    assert named(outcome)["phantom"].passed
    (missed,) = named(outcome)["duplicate"].missed
    assert missed.anomaly == "duplicate"


def test_a_checker_that_says_too_much_fails(tmp_path: Path, checkers: dict[str, Any]) -> None:
    def phantom(values: DataFrame) -> DataFrame:
        return offences(values.where(F.col("polls") + F.col("finals") > 0), detail={})

    path = write_plain(tmp_path / "run")
    checkers["phantom"] = replace(checkers["phantom"], find=phantom)

    outcome = plant_in(path, "duplicate")

    (raised,) = named(outcome)["duplicate"].raised
    assert raised.anomaly == "phantom"
    assert not outcome.passed


def test_a_run_without_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no send in its history"):
        plant_in(Folder([]).write(tmp_path / "run"))


def test_a_plant_says_what_it_lacks_in_a_run_that_ended_before_anything_was_read(
    tmp_path: Path,
) -> None:
    path = Folder([ok(1, n, n) for n in range(5)]).write(tmp_path / "run")

    for number, plant in enumerate(PLANTS.values()):
        copy_run(path.resolve(), tmp_path / str(number), raw=False)
        with suppress(NothingToPlant):
            plant.apply(RunCopy(tmp_path / str(number), RunContents(path)))
