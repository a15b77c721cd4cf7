"""Histories in which no checker may find anything."""

from tests.spark.conftest import FindAll
from tests.spark.ops import Op, Rec, event, fail, final, info, ok, poll
from verifiers.checking.checker import CHECKERS

A, B, C = (1, 0), (1, 1), (1, 2)


def assert_nothing_found(find_all: FindAll, ops: list[Op]) -> None:
    found = find_all(ops)

    assert found.counts == {}
    assert found.crashes == ()
    assert set(found.checkers) == set(CHECKERS)


def test_nothing_is_found_in_a_history_in_order(find_all: FindAll) -> None:
    ops = [
        ok(*A, 0),
        ok(*B, 1),
        ok(2, 0, 0, partition=1),
        poll(9, 0, Rec(*A, 0), Rec(2, 0, 0, partition=1), Rec(*B, 1)),
        poll(8, 0, Rec(*B, 1)),
        final(Rec(*A, 0), Rec(*B, 1), Rec(2, 0, 0, partition=1)),
    ]

    assert_nothing_found(find_all, ops)


def test_nothing_is_found_in_an_empty_history(find_all: FindAll) -> None:
    assert_nothing_found(find_all, [])


def test_sends_of_unknown_outcome_are_no_offence_seen_or_not(find_all: FindAll) -> None:
    ops = [
        info(*A),
        info(*B, partition=None),
        info(*C, partition=None),
        poll(9, 0, Rec(*A, 0)),
        final(Rec(*A, 0), Rec(*C, 1)),
    ]

    assert_nothing_found(find_all, ops)


def test_a_failed_send_that_nobody_saw_is_no_offence(find_all: FindAll) -> None:
    assert_nothing_found(find_all, [fail(*A), ok(*B, 0), final(Rec(*B, 0))])


def test_gaps_that_transactions_leave_are_no_offence(find_all: FindAll) -> None:
    ops = [
        ok(*A, 0),
        ok(*B, 2),
        ok(*C, 5),
        poll(9, 0, Rec(*A, 0), Rec(*B, 2)),
        poll(9, 1, Rec(*C, 5)),
        final(Rec(*A, 0), Rec(*B, 2), Rec(*C, 5)),
    ]

    assert_nothing_found(find_all, ops)


def test_a_consumer_that_starts_over_after_an_assignment_is_no_offence(find_all: FindAll) -> None:
    ops = [
        ok(*A, 0),
        ok(*B, 1),
        poll(9, 0, Rec(*A, 0), Rec(*B, 1)),
        event(9, "assign"),
        poll(9, 1, Rec(*A, 0)),
        event(9, "rebalance", op=2),
        poll(9, 2, Rec(*B, 1), Rec(*A, 0)),
        event(9, "seek", topic="orders", partition=0, offset=1),
        poll(9, 3, Rec(*B, 1)),
        final(Rec(*A, 0), Rec(*B, 1)),
    ]

    assert_nothing_found(find_all, ops)
