"""Checkers that ask what consumer groups processed and committed."""

import pytest

from harness.core.op import value_of
from tests.spark.conftest import Find, FindAll
from tests.spark.ops import TOPIC, Op, Rec, event, final, info, ok, poll

FIRST, SECOND = 200, 201
GROUPED = ("consume-skip", "consume-repeat", "lost-commit")


def log(*offsets: int) -> list[Op]:
    return [*(ok(1, n, n) for n in offsets), final(*(Rec(1, n, n) for n in offsets))]


def joins(process: int, commits: str = "after-processing", group: str = "g one") -> Op:
    return event(process, "subscribe", op=0, topic=TOPIC, detail=f"{commits} {group}")


def given(process: int, op: int, *offsets: int) -> Op:
    return poll(process, op, *(Rec(1, n, n) for n in offsets))


def processes(process: int, offset: int, *, op: int | None = 0) -> Op:
    return event(process, "processed", op=op, topic=TOPIC, partition=0, offset=offset)


def commits(process: int, offset: int) -> Op:
    return event(process, "committed", topic=TOPIC, partition=0, offset=offset)


def fetches(process: int, offset: int | None, *, asked_s: float) -> Op:
    asked = str(int(asked_s * 1e9))
    place = {"topic": TOPIC, "partition": 0, "offset": offset}
    return event(process, "offset-fetch", detail=asked, **place)


def test_what_was_committed_and_never_processed_is_skipped(find: Find) -> None:
    ops = [
        *log(0, 1, 2),
        joins(FIRST, "before-processing"),
        given(FIRST, 0, 0, 1, 2),
        commits(FIRST, 3),
        processes(FIRST, 0),
        event(FIRST, "crash"),
    ]

    skipped = find("consume-skip", ops)

    assert [row.offset for row in skipped] == [1, 2]
    assert [row.value for row in skipped] == [value_of(1, 1), value_of(1, 2)]
    assert {row.kind for row in skipped} == {"before-processing"}
    assert skipped[0].process == FIRST
    assert skipped[0].detail == {"group": "g one", "committed": "3", "given_to": "200"}


def test_a_successor_that_processes_them_after_all_heals_the_skip(find: Find) -> None:
    ops = [*log(0, 1), joins(FIRST), commits(FIRST, 2), processes(FIRST, 0)]
    later = [joins(SECOND), processes(SECOND, 1)]

    assert len(find("consume-skip", ops)) == 1
    assert find("consume-skip", [*ops, *later]) == []


def test_a_record_that_another_group_processed_is_skipped_all_the_same(find: Find) -> None:
    ops = [
        *log(0),
        joins(FIRST, group="a"),
        joins(SECOND, group="b"),
        commits(FIRST, 1),
        processes(SECOND, 0),
    ]

    (skipped,) = find("consume-skip", ops)

    assert skipped.detail["group"] == "a"
    # Nobody was ever given it.
    assert "given_to" not in skipped.detail


def test_of_several_ways_to_commit_the_weakest_names_the_skip(find: Find) -> None:
    ops = [*log(0), joins(FIRST), joins(SECOND, "auto-delivered"), commits(FIRST, 1)]

    assert [row.kind for row in find("consume-skip", ops)] == ["auto-delivered"]


def test_a_commit_that_only_its_successor_saw_skips_too(find: Find) -> None:
    ops = [*log(0, 1), joins(FIRST, "auto-polled"), processes(FIRST, 0)]

    assert find("consume-skip", ops) == []
    (skipped,) = find("consume-skip", [*ops, joins(SECOND), fetches(SECOND, 2, asked_s=9)])

    assert (skipped.offset, skipped.kind) == (1, "after-processing")


@pytest.mark.parametrize(
    "ops",
    [
        # Processed, or not committed yet.
        [*log(0, 1, 2), joins(FIRST), processes(FIRST, 0), commits(FIRST, 1)],
        # There is no such record: gone, or never there.
        [info(1, 0), *log(1), joins(FIRST), processes(FIRST, 1), commits(FIRST, 2)],
        # A subscriber that only polls is asked nothing.
        [*log(0), event(FIRST, "subscribe", topic=TOPIC), given(FIRST, 0, 0), commits(FIRST, 1)],
        # It asked before anything was committed, or sees more than was acknowledged.
        [*log(0), joins(FIRST), fetches(FIRST, None, asked_s=0), processes(FIRST, 0)],
        [
            *log(0, 1),
            joins(FIRST),
            processes(FIRST, 0),
            processes(FIRST, 1),
            commits(FIRST, 1),
            fetches(SECOND, 2, asked_s=99),
        ],
        [],
    ],
)
@pytest.mark.parametrize("name", GROUPED)
def test_a_group_in_order_offends_nobody(find: Find, name: str, ops: list[Op]) -> None:
    assert find(name, ops) == []


def test_what_is_processed_before_it_is_committed_may_be_repeated(find: Find) -> None:
    ops = [
        *log(0, 1),
        joins(FIRST),
        given(FIRST, 0, 0, 1),
        processes(FIRST, 0),
        commits(FIRST, 1),
        processes(FIRST, 1),
        event(FIRST, "crash"),
        joins(SECOND),
        given(SECOND, 0, 1),
        processes(SECOND, 1),
        commits(SECOND, 2),
    ]

    (again,) = find("consume-repeat", ops)

    assert (again.offset, again.process, again.kind) == (1, SECOND, "uncommitted")
    assert again.detail["after_process"] == "200"
    assert find("consume-skip", ops) == []


def test_what_had_been_committed_is_not_to_be_given_out_again(find: Find) -> None:
    ops = [
        *log(0),
        joins(FIRST),
        given(FIRST, 0, 0),
        processes(FIRST, 0),
        commits(FIRST, 1),
        joins(SECOND),
        given(SECOND, 0, 0),
        processes(SECOND, 0),
    ]

    (again,) = find("consume-repeat", ops)

    assert (again.kind, again.detail["committed"]) == ("committed", "1")


def test_who_commits_before_processing_and_is_repeated_was_taken_for_alive_too_long(
    find: Find,
) -> None:
    # Both were given the record before either had committed, and both commits were taken.
    ops = [
        *log(0),
        joins(FIRST, "before-processing"),
        joins(SECOND, "before-processing"),
        given(FIRST, 0, 0),
        given(SECOND, 0, 0),
        commits(FIRST, 1),
        processes(FIRST, 0),
        commits(SECOND, 1),
        processes(SECOND, 0),
    ]

    (again,) = find("consume-repeat", ops)

    assert (again.kind, again.process) == ("before-processing", SECOND)


def test_who_processed_before_committing_may_be_repeated_by_one_that_commits_first(
    find: Find,
) -> None:
    ops = [
        *log(0),
        joins(FIRST, "after-processing"),
        joins(SECOND, "before-processing"),
        given(FIRST, 0, 0),
        processes(FIRST, 0),
        given(SECOND, 0, 0),
        commits(SECOND, 1),
        processes(SECOND, 0),
    ]

    assert [row.kind for row in find("consume-repeat", ops)] == ["uncommitted"]


def test_what_an_auditor_is_told_at_the_end_counts_as_committed(find: Find) -> None:
    audit = event(350, "audit", topic=TOPIC, detail="after-processing g one")
    ops = [*log(0, 1, 2), joins(FIRST), processes(FIRST, 0), commits(FIRST, 1)]

    assert find("consume-skip", ops) == []
    told_more = [*ops, audit, fetches(350, 3, asked_s=99)]
    assert [row.offset for row in find("consume-skip", told_more)] == [1, 2]
    told_less = [*ops, audit, fetches(350, 0, asked_s=99)]
    assert [row.process for row in find("lost-commit", told_less)] == [350]


def test_a_commit_after_the_record_was_given_out_again_excuses_nobody_and_nothing(
    find: Find,
) -> None:
    # The automatic commit of the second delivery may come before its processing.
    ops = [
        *log(0),
        joins(FIRST, "auto-delivered"),
        given(FIRST, 0, 0),
        processes(FIRST, 0),
        given(FIRST, 1, 0),
        commits(FIRST, 1),
        processes(FIRST, 0, op=1),
    ]

    assert [row.kind for row in find("consume-repeat", ops)] == ["uncommitted"]


def test_a_client_that_does_not_tell_its_polls_is_dated_by_its_processing(find: Find) -> None:
    ops = [
        *log(0),
        joins(FIRST),
        processes(FIRST, 0, op=None),
        commits(FIRST, 1),
        processes(FIRST, 0, op=None),
    ]

    assert [row.kind for row in find("consume-repeat", ops)] == ["committed"]


def test_every_time_after_the_first_is_one_repeat(find: Find) -> None:
    ops = [*log(0), joins(FIRST), *(processes(FIRST, 0, op=n) for n in range(3))]

    assert len(find("consume-repeat", ops)) == 2


@pytest.mark.parametrize("told", [None, 1])
def test_an_acknowledged_commit_that_is_gone_is_lost(find: Find, told: int | None) -> None:
    ops = [joins(FIRST), commits(FIRST, 1), commits(FIRST, 2), joins(SECOND)]

    (gone,) = find("lost-commit", [*ops, fetches(SECOND, told, asked_s=3.5)])

    assert (gone.offset, gone.process, gone.detail["committed_by"]) == (2, SECOND, "200")
    assert gone.detail.get("fetched") == (None if told is None else "1")


def test_the_last_commit_counts_and_not_the_highest(find: Find) -> None:
    ops = [joins(FIRST), commits(FIRST, 9), commits(FIRST, 2), joins(SECOND)]

    assert find("lost-commit", [*ops, fetches(SECOND, 2, asked_s=9)]) == []


def test_a_commit_acknowledged_only_after_it_was_asked_for_is_not_lost(find: Find) -> None:
    ops = [joins(FIRST), joins(SECOND), commits(FIRST, 2), fetches(SECOND, 1, asked_s=1.5)]

    assert find("lost-commit", ops) == []


def test_a_whole_verification_finds_what_groups_did(find_all: FindAll) -> None:
    ops = [
        *log(0, 1),
        joins(FIRST),
        processes(FIRST, 0),
        processes(FIRST, 0),
        commits(FIRST, 2),
        joins(SECOND),
        fetches(SECOND, 0, asked_s=99),
    ]

    found = find_all(ops)

    assert found.crashes == ()
    assert found.counts == {
        ("consume-skip", "after-processing"): 1,
        ("consume-repeat", "uncommitted"): 1,
        ("lost-commit", None): 1,
    }
