"""Checkers of transactions: whole or not at all, read by nobody before, ended by one client."""

import pytest
from pyspark.sql.types import Row

from harness.core.op import value_of
from tests.spark.conftest import Find, FindAll
from tests.spark.ops import TOPIC, Op, Rec, end, event, fail, final, info, ok, poll, txn

CHECKS = ("torn-transaction", "precommitted-read", "zombie-commit", "G1a")


def whole(kind: str, number: int = 0) -> list[Op]:
    """A transaction of two records in two partitions, and how it ended."""
    first, second = 2 * number, 2 * number + 1
    sends = {
        "ok": [ok(1, first, first, txn=number), ok(1, second, second, partition=1, txn=number)],
        "info": [info(1, first, txn=number), info(1, second, partition=1, txn=number)],
        "fail": [fail(1, first, txn=number), fail(1, second, txn=number)],
    }
    return [*sends[kind], txn(kind, 1, number)]


A, B = Rec(1, 0, 0), Rec(1, 1, 1, 1)


def test_nothing_is_found_where_transactions_are_whole_or_absent(find_all: FindAll) -> None:
    ops = [
        *whole("ok"),
        *whole("info", 1),
        *whole("info", 2),
        *whole("fail", 3),
        poll(9, 0, A, B),
        final(A, B, Rec(1, 2, 2), Rec(1, 3, 3, 1)),
    ]

    found = find_all(ops)

    assert found.counts == {}
    assert found.crashes == ()


@pytest.mark.parametrize("name", CHECKS)
def test_nothing_is_found_in_an_empty_history(find: Find, name: str) -> None:
    assert find(name, []) == []


@pytest.mark.parametrize("kind", ["ok", "info"])
def test_a_transaction_of_which_a_part_is_lacking_is_torn(find: Find, kind: str) -> None:
    (torn,) = find("torn-transaction", [*whole(kind), final(A)])

    assert (torn.process, torn.partition, torn.value) == (1, 1, value_of(1, 1))
    assert torn.detail == {"txn": "0", "type": kind, "found": "1", "lacking": "1"}


def test_each_torn_transaction_is_told_once(find: Find) -> None:
    ops = [*whole("ok"), *whole("ok", 1), *whole("ok", 2), final(A, Rec(1, 3, 3, 1))]

    torn = find("torn-transaction", ops)

    assert sorted(row.detail["txn"] for row in torn) == ["0", "1"]


def test_a_part_that_a_consumer_saw_and_the_log_lost_tears_it_too(find_all: FindAll) -> None:
    found = find_all([*whole("ok"), poll(9, 0, A, B), final(A)])

    assert {name for name, _ in found.counts} == {"lost-write", "dirty-read", "torn-transaction"}


def test_a_part_beyond_the_final_read_tears_nothing(find: Find) -> None:
    ends = [end(partition=0), end(partition=1, high=100, reached=1)]

    assert find("torn-transaction", [*whole("ok"), final(A)], ends=ends) == []


def test_a_record_that_the_client_refused_is_no_part(find: Find) -> None:
    refused = fail(1, 2, txn=0)

    assert find("torn-transaction", [*whole("ok"), refused, final(A, B)]) == []


def test_a_send_whose_invocation_nobody_recorded_is_no_part(find: Find) -> None:
    ops = [*whole("info"), info(1, 7, partition=None), final(A, B)]

    assert find("torn-transaction", ops) == []


def test_a_transaction_must_not_be_given_its_own_records(find: Find) -> None:
    ops = [ok(1, 0, 0, txn=4), poll(1, 0, Rec(1, 0, 0), Rec(2, 0, 1), txn=4), txn("ok", 1, 4)]

    (own,) = find("precommitted-read", [ok(2, 0, 1), *ops, final(Rec(1, 0, 0), Rec(2, 0, 1))])

    assert (own.process, own.value, own.offset) == (1, value_of(1, 0), 0)
    assert own.kind == "read_committed"
    assert own.detail == {"txn": "4", "type": "ok", "records": "1"}


def test_the_next_transaction_may_be_given_them(find: Find) -> None:
    ops = [*whole("ok"), poll(1, 0, A, B, txn=1), txn("ok", 1, 1), final(A, B)]

    assert find("precommitted-read", ops) == []


def test_the_same_number_of_another_client_is_another_transaction(find: Find) -> None:
    ops = [*whole("ok"), poll(2, 0, A, B, txn=0), txn("ok", 2, 0), final(A, B)]

    assert find("precommitted-read", ops) == []


def test_a_zombie_must_not_commit(find: Find) -> None:
    ops = [event(1, "takeover", op=0), *whole("ok"), *whole("ok", 1)]

    (zombie,) = find("zombie-commit", ops)

    assert (zombie.process, zombie.detail["txn"]) == (1, "0")


def test_a_zombie_that_was_refused_is_no_offence(find: Find) -> None:
    ops = [event(1, "takeover", op=0), *whole("fail"), event(1, "fenced", op=0)]

    assert find("zombie-commit", ops) == []


def test_who_reads_uncommitted_may_see_what_is_aborted(find: Find) -> None:
    (seen,) = find(
        "G1a", [*whole("fail"), poll(8, 0, A), txn("ok", 1, 1)], uncommitted=frozenset({8})
    )

    assert (seen.kind, seen.process, seen.offset) == ("read_uncommitted", 1, 0)
    assert seen.detail == {"txn": "0", "polled": "1", "last_reader": "8"}


def test_who_reads_committed_may_not(find: Find) -> None:
    ops = [*whole("fail"), poll(8, 0, A), poll(9, 0, A)]

    (seen,) = find("G1a", ops, uncommitted=frozenset({8}))

    assert seen.kind == "read_committed"
    assert seen.detail["last_reader"] == "9"


def test_a_refused_record_without_a_transaction_may_be_read_by_nobody(find: Find) -> None:
    (seen,) = find("G1a", [fail(1, 0), poll(8, 0, A)], uncommitted=frozenset({8}))

    assert seen.kind is None


def test_reads_of_what_was_not_committed_trip_nobody_else(find_all: FindAll) -> None:
    """The read_uncommitted reader is given all, the other one passes over what was aborted."""
    ops = [
        *whole("ok"),
        *whole("fail", 1),
        *whole("info", 2),
        *whole("ok", 3),
        poll(8, 0, A, Rec(1, 2, 2), Rec(1, 4, 4), Rec(1, 6, 6)),
        poll(9, 0, A, Rec(1, 6, 6)),
        final(A, B, Rec(1, 6, 6), Rec(1, 7, 7, 1)),
    ]

    found = find_all(ops, uncommitted=frozenset({8}))

    assert found.counts == {("G1a", "read_uncommitted"): 1}


def test_a_committed_record_that_only_an_uncommitted_reader_saw_is_missed(
    find_all: FindAll,
) -> None:
    found = find_all([*whole("ok"), poll(8, 0, A, B), final(A)], uncommitted=frozenset({8}))

    assert ("dirty-read", None) in found.counts


def consumes(*offsets: int, member: int = 1) -> list[Op]:
    return [
        event(member, "processed", op=n, topic=TOPIC, partition=0, offset=offset)
        for n, offset in enumerate(offsets)
    ]


def joins(member: int = 1) -> Op:
    return event(member, "assign", topic=TOPIC, partition=0, detail="transactional g")


def repeated(find: Find, *ops: Op) -> list[Row]:
    return find("consume-repeat", [ok(2, 0, 0), joins(), *ops, final(Rec(2, 0, 0))])


def test_what_a_transaction_consumed_is_not_consumed_again(find: Find) -> None:
    (again,) = repeated(find, *consumes(0, 0))

    assert again.kind == "transactional"
    assert repeated(find, *consumes(0)) == []


def test_what_a_transaction_committed_over_was_consumed(find: Find) -> None:
    ops = [ok(2, 0, 0), ok(2, 1, 1), joins(), *consumes(0)]
    committed = event(1, "committed", topic=TOPIC, partition=0, offset=2)

    (skipped,) = find("consume-skip", [*ops, committed, final(Rec(2, 0, 0), Rec(2, 1, 1))])

    assert (skipped.kind, skipped.offset) == ("transactional", 1)
