"""The two headlines among the claims, each on three Kafkas."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from harness.campaigns.claim_result import Trial
from harness.lab.claim import Outcome

pytestmark = pytest.mark.docker

RunClaim = Callable[..., Trial]


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Path:
    return Path(request.config.getoption("--chaos-store"))


def lost_offsets(run_dir: Path) -> set[int]:
    """What was acknowledged and is not in the final read: plain set difference, no Spark."""
    sends = ds.dataset(run_dir / "history" / "send").to_table(columns=["value", "type", "offset"])
    acked = sends.filter(pc.equal(sends["type"], "ok"))
    final = set(
        ds.dataset(run_dir / "history" / "final").to_table(columns=["value"])[0].to_pylist()
    )
    pairs = zip(acked["value"].to_pylist(), acked["offset"].to_pylist(), strict=True)
    return {offset for value, offset in pairs if value not in final}


# One version after the other, so that clusters can be shared.
@pytest.mark.parametrize("kafka", ["0.10.2.2", "0.11.0.3", "4.3.1"])
def test_a_stale_high_watermark_costs_the_batch_up_to_0_10_2(
    run_claim: RunClaim, store: Path, kafka: str
) -> None:
    trial = run_claim("kip101-hw-truncation-loss", kafka=kafka)

    assert trial.outcome is Outcome.CONFIRMED, trial.words
    expected = set(range(10, 110)) if kafka == "0.10.2.2" else set()
    assert lost_offsets(store / trial.run) == expected
    assert trial.anomalies.get("lost-write", 0) == len(expected)
    if expected:
        (stretch,) = trial.located["stretches"]
        assert (stretch["first"], stretch["last"]) == (10, 109)
        # B still has it; C cut it away when it followed A, and A when it followed C.
        assert stretch["held_by"] == "2"
        assert "3" in stretch["cut_by"].split(",")
        assert set(stretch["cut_to"].split(",")) == {"10"}
        assert stretch["cut_at_utc"]


@pytest.mark.parametrize("kafka", ["0.10.2.2", "0.11.0.3", "4.3.1"])
def test_two_crashed_replicas_diverge_for_ever_up_to_0_10_2(
    run_claim: RunClaim, store: Path, kafka: str
) -> None:
    trial = run_claim("kip101-divergence", kafka=kafka)

    assert trial.outcome is Outcome.CONFIRMED, trial.words
    found = json.loads((store / trial.run / "verdict.json").read_text())["anomalies"]
    assert lost_offsets(store / trial.run) == set(range(5, 10))
    if kafka == "0.10.2.2":
        examples = found["replica-divergence"]["examples"]
        assert {example["offset"] for example in examples} == set(range(5, 10))
        assert all(example["detail"]["holds"] for example in examples)
        assert all(example["detail"]["other_holds"] for example in examples)
    else:
        assert "replica-divergence" not in found
