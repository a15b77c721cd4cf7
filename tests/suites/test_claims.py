"""Claims on real clusters: the two headlines, and the controls that must lose or repeat records.

All claims on one version of Kafka are one `claims run`: they share clusters, and what is recorded
is judged behind the next run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.suites.recorded import lost_records, values

pytestmark = pytest.mark.docker

OLDEST = "0.10.2.2"
FIRST_WITH_EPOCHS = "0.11.0.3"
NEWEST = "4.3.1"

HEADLINES = ("kip101-hw-truncation-loss", "kip101-divergence")
CONTROLS = {
    "acks0-loss": ("lost-write", 500),
    "acks1-loss-on-leader-kill": ("lost-write", 1000),
    "acksall-minisr1-shrinks-to-self": ("lost-write", 100),
    "retry-duplicates-no-idempotence": ("duplicate", 101),
}
"""What each must be caught with, and how often at the least."""

MOST_ROUNDS = 3
"""How often a claim is tried whose precondition a busy machine did not meet."""

Results = Mapping[str, Mapping[str, Any]]
ResultsOn = Callable[[str], Results]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claims")


@pytest.fixture(scope="module")
def results_on(store: Path) -> ResultsOn:
    """Run everything that this module asks of a version as a user would; return it by claim."""

    def run(claims: list[str], kafka: str) -> Results:
        ran = subprocess.run(
            [sys.executable, "-m", "harness.cli.main", "claims", "run", *claims, "--kafka", kafka,
             "--json", "--store", str(store)],
            capture_output=True, text=True, timeout=1500, check=False,
            env={**os.environ, "CI": "1"},
        )  # fmt: skip
        assert ran.stdout, ran.stderr
        results = {trial["claim"]: trial for trial in json.loads(ran.stdout)["trials"]}
        outcomes = {trial["outcome"] for trial in results.values()}
        expected = 1 if "REFUTED" in outcomes else 3 if "UNKNOWN" in outcomes else 0
        assert ran.returncode == expected, ran.stderr
        return results

    @cache
    def results(kafka: str) -> Results:
        results: dict[str, Mapping[str, Any]] = {}
        left = [*HEADLINES, *(CONTROLS if kafka == NEWEST else ())]
        for _ in range(MOST_ROUNDS):
            results |= run(left, kafka)
            left = [claim for claim in left if results[claim]["outcome"] == "UNKNOWN"]
            if not left:
                break
        return results

    return results


@pytest.mark.parametrize(
    "kafka", [OLDEST, pytest.param(FIRST_WITH_EPOCHS, marks=pytest.mark.nightly), NEWEST]
)
def test_a_stale_high_watermark_costs_the_batch_up_to_0_10_2(
    results_on: ResultsOn, store: Path, kafka: str
) -> None:
    result = results_on(kafka)["kip101-hw-truncation-loss"]

    assert result["outcome"] == "CONFIRMED", result
    expected = set(range(10, 110)) if kafka == OLDEST else set()
    assert set(lost_records(store / result["run"]).values()) == expected
    assert result["anomalies"].get("lost-write", 0) == len(expected)
    if expected:
        (stretch,) = result["located"]["stretches"]
        assert (stretch["first"], stretch["last"]) == (10, 109)
        # B still has it; C cut it away when it followed A, and A when it followed C.
        assert stretch["held_by"] == "2"
        assert "3" in stretch["cut_by"].split(",")
        assert set(stretch["cut_to"].split(",")) == {"10"}
        assert stretch["cut_at_utc"]


@pytest.mark.parametrize(
    "kafka", [OLDEST, pytest.param(FIRST_WITH_EPOCHS, marks=pytest.mark.nightly), NEWEST]
)
def test_two_crashed_replicas_diverge_for_ever_up_to_0_10_2(
    results_on: ResultsOn, store: Path, kafka: str
) -> None:
    result = results_on(kafka)["kip101-divergence"]

    assert result["outcome"] == "CONFIRMED", result
    found = json.loads((store / result["run"] / "verdict.json").read_text())["anomalies"]
    assert set(lost_records(store / result["run"]).values()) == set(range(5, 10))
    if kafka == OLDEST:
        examples = found["replica-divergence"]["examples"]
        assert {example["offset"] for example in examples} == set(range(5, 10))
        assert all(example["detail"]["holds"] for example in examples)
        assert all(example["detail"]["other_holds"] for example in examples)
    else:
        assert "replica-divergence" not in found


# A night in which these are not caught proves nothing.
@pytest.mark.parametrize("claim", CONTROLS)
def test_a_control_is_caught_and_to_the_last_record(
    results_on: ResultsOn, store: Path, claim: str
) -> None:
    anomaly, fewest = CONTROLS[claim]

    result = results_on(NEWEST)[claim]

    assert result["outcome"] == "CONFIRMED", result
    folder = store / result["run"]
    lost = set(lost_records(folder))
    repeated = {value for value, count in values(folder, "final").items() if count > 1}
    caught = lost if anomaly == "lost-write" else repeated
    assert len(caught) == result["anomalies"].get(anomaly, 0) >= fewest
    assert lost == set() or anomaly == "lost-write"
