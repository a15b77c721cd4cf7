"""Claims on real clusters: the two headlines, and the controls that must lose or repeat records.

All claims on one version of Kafka are one `claims run`: they share clusters, and what is recorded
is judged behind the next run. The versions go side by side.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.suites.recorded import lost_records, values

pytestmark = pytest.mark.docker

OLDEST = "0.10.2.2"
FIRST_WITH_EPOCHS = "0.11.0.3"
NEWEST = "4.3.1"

HIGH_WATERMARK, DIVERGENCE = "kip101-hw-truncation-loss", "kip101-divergence"
SHRINKS_TO_SELF = "acksall-minisr1-shrinks-to-self"
CONTROLS = {
    "acks0-loss": ("lost-write", 500),
    "acks1-loss-on-leader-kill": ("lost-write", 1000),
    SHRINKS_TO_SELF: ("lost-write", 100),
    "retry-duplicates-no-idempotence": ("duplicate", 101),
}
"""What each must be caught with, and how often at the least."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A claim as `claims run --json` tells of it, and the folder of its run."""

    result: Mapping[str, Any]
    folder: Path


TriedOn = Callable[[str], Mapping[str, Tried]]


def run_claims(claims: Sequence[str], kafka: str, store: Path) -> dict[str, Tried]:
    """Run claims as a user would, and return what came of them by name."""
    ran = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "claims", "run", *claims, "--kafka", kafka,
         "--json", "--store", str(store)],
        capture_output=True, text=True, timeout=1500, check=False, env={**os.environ, "CI": "1"},
    )  # fmt: skip
    assert ran.stdout, ran.stderr
    results = json.loads(ran.stdout)["trials"]
    outcomes = {result["outcome"] for result in results}
    expected = 1 if "REFUTED" in outcomes else 3 if "UNKNOWN" in outcomes else 0
    assert ran.returncode == expected, ran.stderr
    return {result["claim"]: Tried(result, store / result["run"]) for result in results}


@pytest.fixture(scope="module")
def tried_on(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TriedOn]:
    """What came of each claim on a version; the versions are run side by side.

    A claim mostly waits: for an ISR to shrink, for a session to end.
    """
    store = tmp_path_factory.mktemp("claims")
    asked: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            given = item.callspec.params
            asked.setdefault(str(given["kafka"]), []).append(str(given["claim"]))
    with ThreadPoolExecutor(len(asked)) as threads:
        begun = {
            kafka: threads.submit(run_claims, claims, kafka, store / kafka)
            for kafka, claims in asked.items()
        }
        yield lambda kafka: begun[kafka].result()


@pytest.mark.parametrize(
    "kafka", [OLDEST, pytest.param(FIRST_WITH_EPOCHS, marks=pytest.mark.nightly), NEWEST]
)
@pytest.mark.parametrize("claim", [HIGH_WATERMARK])
def test_a_stale_high_watermark_costs_the_batch_up_to_0_10_2(
    tried_on: TriedOn, claim: str, kafka: str
) -> None:
    tried = tried_on(kafka)[claim]

    result = tried.result
    assert result["outcome"] == "CONFIRMED", result["words"]
    expected = set(range(10, 110)) if kafka == OLDEST else set()
    assert set(lost_records(tried.folder).values()) == expected
    assert result["anomalies"].get("lost-write", 0) == len(expected)
    if expected:
        (stretch,) = result["located"]["stretches"]
        assert (stretch["first"], stretch["last"]) == (10, 109)
        # B still has it; C cut it away when it followed A, and A when it followed C.
        assert stretch["held_by"] == "2"
        assert "3" in stretch["cut_by"].split(",")
        assert set(stretch["cut_to"].split(",")) == {"10"}
        assert stretch["cut_at_utc"]


# By day every run on the newest version compares its replicas.
@pytest.mark.parametrize(
    "kafka",
    [
        OLDEST,
        pytest.param(FIRST_WITH_EPOCHS, marks=pytest.mark.nightly),
        pytest.param(NEWEST, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("claim", [DIVERGENCE])
def test_two_crashed_replicas_diverge_for_ever_up_to_0_10_2(
    tried_on: TriedOn, claim: str, kafka: str
) -> None:
    tried = tried_on(kafka)[claim]

    assert tried.result["outcome"] == "CONFIRMED", tried.result["words"]
    found = json.loads((tried.folder / "verdict.json").read_text())["anomalies"]
    assert set(lost_records(tried.folder).values()) == set(range(5, 10))
    if kafka == OLDEST:
        examples = found["replica-divergence"]["examples"]
        assert {example["offset"] for example in examples} == set(range(5, 10))
        assert all(example["detail"]["holds"] for example in examples)
        assert all(example["detail"]["other_holds"] for example in examples)
    else:
        assert "replica-divergence" not in found


# A night in which these are not caught proves nothing; by day two others lose records.
@pytest.mark.parametrize("kafka", [NEWEST])
@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim, marks=pytest.mark.nightly if claim == SHRINKS_TO_SELF else ())
        for claim in CONTROLS
    ],
)
def test_a_control_is_caught_and_to_the_last_record(
    tried_on: TriedOn, claim: str, kafka: str
) -> None:
    anomaly, fewest = CONTROLS[claim]

    tried = tried_on(kafka)[claim]

    assert tried.result["outcome"] == "CONFIRMED", tried.result["words"]
    lost = set(lost_records(tried.folder))
    repeated = {value for value, count in values(tried.folder, "final").items() if count > 1}
    caught = lost if anomaly == "lost-write" else repeated
    assert len(caught) == tried.result["anomalies"].get(anomaly, 0) >= fewest
    assert lost == set() or anomaly == "lost-write"
