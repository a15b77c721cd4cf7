"""Which checkers need not be run, because nothing that they look at is there."""

from collections.abc import Callable
from typing import Any

import pytest

from verifiers.checking.checker import (
    CHECKERS,
    NEEDED,
    RECORDED,
    SUSPECTS,
    can_find,
    checkers_of_runs,
    frames_wanted,
)

Check = Callable[..., Any]


def of_values(values: Any) -> Any:
    return values


def of_turns_and_log(turns: Any, log: Any, events: Any) -> Any:
    return turns, log, events


def of_both(values: Any, turns: Any) -> Any:
    return values, turns


def of_values_and_sends(values: Any, sends: Any) -> Any:
    return values, sends


def of_reads(polls: Any, final: Any) -> Any:
    return polls, final


def of_processing_and_reads(processing: Any, final: Any) -> Any:
    return processing, final


def of_fatals(fatals: Any, clients: Any) -> Any:
    return fatals, clients


@pytest.mark.parametrize(
    ("check", "empty", "needed"),
    [
        (of_values, set(), True),
        (of_values, {"turns", "slots"}, True),
        (of_values, {"values"}, False),
        (of_turns_and_log, {"values"}, True),
        (of_turns_and_log, {"turns"}, False),
        (of_both, {"values"}, True),
        (of_both, {"values", "turns"}, False),
        (of_values_and_sends, {"values"}, True),
        (of_reads, {"values", "turns", "slots"}, True),
        (of_processing_and_reads, {"processing"}, False),
        (of_processing_and_reads, {"values", "turns", "slots"}, True),
        # Fatal errors are told with the transaction in which they happened, if there is one.
        (of_fatals, {"txns"}, True),
        (of_fatals, {"clients"}, False),
        (CHECKERS["G1a"], {"txns"}, True),
    ],
)
def test_a_checker_is_run_if_anything_is_left_to_look_at(
    check: Check, empty: set[str], needed: bool
) -> None:
    assert can_find(check, empty) is needed


def test_in_a_history_in_order_only_what_reads_records_themselves_is_run() -> None:
    needed = {name for name in checkers_of_runs() if can_find(CHECKERS[name], SUSPECTS | NEEDED)}

    assert needed == {"corrupt-record", "nonmonotonic-send", "int-nonmonotonic-send"}
    assert all(RECORDED.intersection(frames_wanted(CHECKERS[name])) for name in needed)
