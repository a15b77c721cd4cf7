"""Checkers that ask in which order things were sent and given."""

import pytest

from harness.core.op import value_of
from tests.spark.conftest import Find
from tests.spark.ops import Op, Rec, event, final, info, ok, poll

SENT = [ok(1, n, n) for n in range(4)]
LOG = final(*(Rec(1, n, n) for n in range(4)))


def given(*offsets: int) -> list[Rec]:
    return [Rec(1, offset, offset) for offset in offsets]


@pytest.mark.parametrize("offsets", [(1,), (0,)])
def test_a_poll_that_begins_at_or_below_the_last_is_nonmonotonic(
    find: Find, offsets: tuple[int, ...]
) -> None:
    ops = [*SENT, poll(9, 0, *given(0, 1)), poll(9, 1, *given(*offsets)), LOG]

    (back,) = find("nonmonotonic-poll", ops)

    assert (back.offset, back.process, back.kind) == (offsets[0], 9, "assign")
    assert back.detail["after_offset"] == "1"
    assert back.detail["after_poll"] == "0"
    assert find("int-nonmonotonic-poll", ops) == []


def test_a_group_may_have_moved_a_subscribed_consumer(find: Find) -> None:
    ops = [*SENT, poll(9, 0, *given(0, 1)), poll(9, 1, *given(0)), LOG]

    (back,) = find("nonmonotonic-poll", ops, subscribed=frozenset({9}))

    assert back.kind == "subscribe"


@pytest.mark.parametrize("reset", ["assign", "subscribe", "seek", "crash"])
def test_a_reset_between_two_polls_excuses_them(find: Find, reset: str) -> None:
    between = [poll(9, 0, *given(0, 1)), event(9, reset), poll(9, 1, *given(0))]

    assert find("nonmonotonic-poll", [*SENT, *between, LOG]) == []


@pytest.mark.parametrize(
    "other",
    [
        event(8, "seek"),
        event(9, "seek", topic="orders", partition=1),
        event(9, "error"),
    ],
)
def test_what_happens_elsewhere_between_two_polls_excuses_nothing(find: Find, other: Op) -> None:
    between = [poll(9, 0, *given(0, 1)), other, poll(9, 1, *given(0))]

    assert len(find("nonmonotonic-poll", [*SENT, *between, LOG])) == 1


def test_a_poll_beyond_a_known_record_skips_it(find: Find) -> None:
    ops = [*SENT, poll(9, 0, *given(0)), poll(9, 1, *given(3)), LOG]

    (skip,) = find("poll-skip", ops)

    assert (skip.offset, skip.kind, skip.detail["skipped"]) == (3, "assign", "2")
    assert find("int-poll-skip", ops) == []


def test_offsets_that_hold_no_record_are_nothing_to_skip(find: Find) -> None:
    ops = [ok(1, 0, 0), ok(1, 9, 9), poll(9, 0, *given(0)), poll(9, 1, *given(9))]

    assert find("poll-skip", [*ops, final(*given(0, 9))]) == []


@pytest.mark.parametrize("between", [63, 64, 127, 128, 191])
def test_a_single_record_far_within_a_gap_is_skipped(find: Find, between: int) -> None:
    ops = [poll(9, 0, *given(62)), poll(9, 1, *given(192)), final(*given(62, between, 192))]

    (skip,) = find("poll-skip", ops)

    assert skip.detail["skipped"] == "1"


def test_what_lies_at_the_edges_of_a_gap_is_not_skipped(find: Find) -> None:
    ops = [poll(9, 0, *given(63)), poll(9, 1, *given(128)), final(*given(0, 62, 63, 128, 129))]

    assert find("poll-skip", ops) == []


def test_a_reset_excuses_a_skip(find: Find) -> None:
    ops = [*SENT, poll(9, 0, *given(0)), event(9, "seek"), poll(9, 1, *given(3)), LOG]

    assert find("poll-skip", ops) == []


def test_one_poll_that_goes_back_is_internally_nonmonotonic(find: Find) -> None:
    ops = [*SENT, poll(9, 4, *given(0, 2, 1)), LOG]

    (back,) = find("int-nonmonotonic-poll", ops)

    assert (back.offset, back.detail["after_offset"], back.detail["poll"]) == (1, "2", "4")
    assert back.kind is None
    assert find("nonmonotonic-poll", ops) == []


def test_one_poll_that_leaves_a_record_out_skips_internally(find: Find) -> None:
    ops = [*SENT, poll(9, 4, *given(0, 3)), LOG]

    (skip,) = find("int-poll-skip", ops)

    assert (skip.offset, skip.detail["skipped"]) == (3, "2")
    assert find("poll-skip", ops) == []


@pytest.mark.parametrize("name", ["int-nonmonotonic-poll", "int-poll-skip"])
def test_a_poll_in_which_partitions_moved_is_passed_over(find: Find, name: str) -> None:
    ops = [*SENT, event(9, "rebalance", op=4), poll(9, 4, *given(0, 3, 1)), LOG]

    assert find(name, ops) == []


def test_a_later_send_at_an_earlier_offset_is_nonmonotonic(find: Find) -> None:
    ops = [ok(1, 0, 5), ok(1, 1, 3), ok(1, 2, 6), final(Rec(1, 1, 3), Rec(1, 0, 5), Rec(1, 2, 6))]

    (swapped,) = find("nonmonotonic-send", ops)

    assert (swapped.value, swapped.offset, swapped.kind) == (value_of(1, 1), 3, "order")
    assert swapped.detail["after_offset"] == "5"
    assert swapped.detail["after_sequence"] == "0"


def test_sends_are_ordered_by_sequence_and_not_by_completion(find: Find) -> None:
    ops = [ok(1, 1, 6), ok(1, 0, 5), final(Rec(1, 0, 5), Rec(1, 1, 6))]

    assert find("nonmonotonic-send", ops) == []


def test_an_indeterminate_send_counts_where_it_was_read(find: Find) -> None:
    ops = [ok(1, 0, 5), info(1, 1, partition=None), final(Rec(1, 1, 3), Rec(1, 0, 5))]

    assert [row.value for row in find("nonmonotonic-send", ops)] == [value_of(1, 1)]


def test_an_unread_indeterminate_send_breaks_the_chain(find: Find) -> None:
    ops = [ok(1, 0, 5), info(1, 1), ok(1, 2, 3), final(Rec(1, 2, 3), Rec(1, 0, 5))]

    assert find("nonmonotonic-send", ops) == []


def test_a_send_without_offset_counts_where_it_was_read(find: Find) -> None:
    ops = [ok(1, 0, None), ok(1, 1, None), final(Rec(1, 1, 0), Rec(1, 0, 1))]

    assert [row.offset for row in find("nonmonotonic-send", ops)] == [0]


def test_a_duplicate_counts_at_its_last_offset(find: Find) -> None:
    ops = [ok(1, 0, 5), ok(1, 1, 6), final(Rec(1, 0, 5), Rec(1, 1, 6), Rec(1, 0, 9))]

    (row,) = find("nonmonotonic-send", ops)

    assert (row.kind, row.detail["after_offset"]) == ("duplicate", "9")


def test_order_broken_by_a_lost_record_says_so(find: Find) -> None:
    ops = [ok(1, 0, 100), ok(1, 1, 60), final(Rec(1, 1, 60))]

    assert [row.kind for row in find("nonmonotonic-send", ops)] == ["lost"]


def test_the_sends_before_and_after_a_rebuilt_producer_are_not_compared(find: Find) -> None:
    # P1:1 lies in the socket of a frozen broker; P1:2 is the first send of the new producer.
    before = [ok(1, 0, 0), info(1, 1)]
    after = [event(1, "error", op=2, detail="new producer after: _FATAL"), ok(1, 2, 1), ok(1, 3, 2)]
    log = final(Rec(1, 0, 0), Rec(1, 2, 1), Rec(1, 3, 2), Rec(1, 1, 3))

    assert find("nonmonotonic-send", [*before, *after, log]) == []


@pytest.mark.parametrize("first_op", [None, 0, 1, 3])
def test_an_error_that_rebuilt_no_producer_between_two_sends_excuses_nothing(
    find: Find, first_op: int | None
) -> None:
    error = event(1, "error", op=first_op)
    other = event(2, "error", op=2)
    ops = [ok(1, 1, 5), error, other, ok(1, 2, 3), final(Rec(1, 2, 3), Rec(1, 1, 5))]

    assert [row.value for row in find("nonmonotonic-send", ops)] == [value_of(1, 2)]


def test_producers_are_compared_apart(find: Find) -> None:
    ops = [ok(1, 0, 5), ok(2, 1, 3), final(Rec(2, 1, 3), Rec(1, 0, 5))]

    assert find("nonmonotonic-send", ops) == []
