"""Each claim about fetch sessions: what confirms it, what refutes it, and what decides nothing."""

from pathlib import Path

import pytest

from harness.lab.claim import find_claim
from harness.lab.finding import Finding, Outcome
from harness.lab.recorded import RecordedRun
from tests.unit.lab_fixture import batch, fact, lost, recorded_run

CONFIRMED, REFUTED, UNKNOWN = Outcome.CONFIRMED, Outcome.REFUTED, Outcome.UNKNOWN


def finding_of(claim: str, run: RecordedRun) -> Finding:
    """Return what a claim says of a run folder."""
    expectation = find_claim(claim)[1].expectation(run.kafka)
    assert expectation is not None
    return expectation.test(run)


@pytest.mark.parametrize(
    ("kafka", "bytes_each", "sessions", "outcome"),
    [
        ("4.3.1", 400, [2], CONFIRMED),
        ("4.3.1", 8000, [2], REFUTED),
        ("4.3.1", 400, [200], REFUTED),
        ("4.3.1", 400, [], REFUTED),
        ("0.11.0.3", 8000, [], CONFIRMED),
        ("0.11.0.3", 400, [], REFUTED),
        ("0.11.0.3", 8000, [2], REFUTED),
    ],
)
def test_an_idle_fetch_is_nearly_empty_since_sessions(
    tmp_path: Path, kafka: str, bytes_each: int, sessions: list[int], outcome: Outcome
) -> None:
    lines = [fact("bytes_each", bytes_each), *(fact("sessions", count) for count in sessions)]

    finding = finding_of(
        "fetch-session-incremental", recorded_run(tmp_path, lines=lines, kafka=kafka)
    )

    assert finding.outcome is outcome


@pytest.mark.parametrize(
    ("sessions", "fresh", "stale", "outcome"),
    [
        ([8, 8], 0, 3, CONFIRMED),
        ([9, 8], 0, 3, REFUTED),
        ([8, 8], 2, 3, REFUTED),
        ([8, 8], 0, 0, REFUTED),
        ([7, 8], 0, 3, UNKNOWN),
        ([8], 0, 3, UNKNOWN),
    ],
)
def test_only_stale_sessions_are_evicted_from_a_full_cache(
    tmp_path: Path, sessions: list[int], fresh: int, stale: int, outcome: Outcome
) -> None:
    folder = recorded_run(
        tmp_path,
        lines=[
            batch("flow", 0, 10),
            *(fact("sessions", count) for count in sessions),
            fact("evictions_while_fresh", fresh),
            fact("evictions_of_stale", stale),
        ],
    )

    assert finding_of("fetch-session-eviction", folder).outcome is outcome


@pytest.mark.parametrize(
    ("before", "after", "gone", "outcome"),
    [(2, 2, 0, CONFIRMED), (2, 1, 0, REFUTED), (3, 2, 0, REFUTED), (2, 2, 1, REFUTED)],
)
def test_new_sessions_after_a_bounce_skip_nothing(
    tmp_path: Path, before: int, after: int, gone: int, outcome: Outcome
) -> None:
    folder = recorded_run(
        tmp_path,
        lines=[
            batch("flow", 0, 10),
            fact("sessions_before", before),
            fact("sessions_after", after),
        ],
        anomalies=lost(range(gone)),
    )

    assert finding_of("fetch-session-after-bounce", folder).outcome is outcome
