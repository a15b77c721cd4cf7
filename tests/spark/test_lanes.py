"""How wide the bins of the lanes are."""

from typing import Any

import pytest

from verifiers.lanes import MOST_BINS, bin_width_ns

S = 1_000_000_000


def run_of(seconds: float) -> dict[str, Any]:
    return {"phases": [{"name": "faults", "from_ns": 5 * S, "to_ns": 5 * S + round(seconds * S)}]}


@pytest.mark.parametrize(
    ("seconds", "width_s"),
    [
        (1, 0.1),
        (199.8, 0.1),
        (200, 0.2),
        (399, 0.2),
        (600, 0.5),
        (1500, 1),
        (3600, 2),
        (8 * 3600, 20),
        (100 * 3600, 200),
    ],
)
def test_bins_are_as_fine_as_their_number_allows(seconds: float, width_s: float) -> None:
    width_ns = bin_width_ns(run_of(seconds), 5 * S)

    assert width_ns == round(width_s * S)
    assert seconds * S / width_ns + 2 <= MOST_BINS


def test_a_run_without_any_end_has_bins_of_a_second() -> None:
    assert bin_width_ns({"phases": [{"name": "start", "from_ns": 0, "to_ns": None}]}, 0) == S
