"""Which runs are verified in one Spark job."""

from types import SimpleNamespace
from typing import Any

import pytest

from verifiers.frames.history import PROCESS_BITS
from verifiers.judging import job
from verifiers.run_folder.member import most_members, span_of

FEW, MOST = 100, 250


def jobs(*rows: int, processes: int = 5) -> list[list[int]]:
    loaded: dict[int, Any] = {
        number: SimpleNamespace(history=SimpleNamespace(rows=count, processes=processes))
        for number, count in enumerate(rows)
    }
    return list(job._jobs_among(loaded))


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "FEW_ROWS", FEW)
    monkeypatch.setattr(job, "_MOST_ROWS", MOST)


def test_short_runs_share_a_job_and_a_long_one_has_its_own() -> None:
    assert jobs() == []
    assert jobs(5, 9, 99) == [[0, 1, 2]]
    assert jobs(5, FEW, 9) == [[1], [0, 2]]


def test_a_job_takes_no_more_rows_than_the_limit() -> None:
    assert jobs(90, 90, 70) == [[0, 1, 2]]
    assert jobs(90, 90, 71, 9) == [[0, 1], [2, 3]]


def test_a_job_takes_no_more_runs_than_process_numbers_tell_apart() -> None:
    processes = 1 << (PROCESS_BITS - 4)
    most = most_members(span_of(processes))

    parts = jobs(*[1] * (most + 1), processes=processes)

    assert [len(part) for part in parts] == [most, 1]
