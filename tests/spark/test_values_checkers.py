"""Checkers that ask what became of each value."""

from harness.core.op import value_of
from tests.spark.conftest import Find
from tests.spark.ops import Rec, end, fail, final, info, ok, poll

A, B, C = (1, 0), (1, 1), (1, 2)


def test_an_acknowledged_record_that_the_final_read_lacks_is_lost(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*A, 0), Rec(*C, 2))]

    (lost,) = find("lost-write", ops)

    assert (lost.topic, lost.partition, lost.offset) == ("orders", 0, 1)
    assert (lost.value, lost.process) == (value_of(*B), 1)
    assert lost.time_ns == 1_500_000_000
    assert lost.detail["sequence"] == "1"
    assert lost.detail["acked_offset"] == "1"


def test_a_lost_tail_is_lost_and_not_unseen(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), final(Rec(*A, 0))]

    assert [row.offset for row in find("lost-write", ops)] == [1]
    assert find("unseen", ops) == []


def test_a_record_without_offset_is_lost_by_its_value(find: Find) -> None:
    ops = [ok(*A, None, partition=None), ok(*B, None), ok(*C, None), final(Rec(*C, 0))]

    lost = find("lost-write", ops)

    assert {row.value for row in lost} == {value_of(*A), value_of(*B)}
    assert {row.partition for row in lost} == {None, 0}


def test_beyond_what_the_final_read_reached_nothing_is_lost_but_unseen(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), ok(*C, 2), final(Rec(*B, 1)), poll(9, 0, Rec(*A, 0))]
    ends = [end(reached=2), end(partition=1)]

    assert [row.offset for row in find("lost-write", ops, ends=ends)] == [0]
    assert [row.offset for row in find("unseen", ops, ends=ends)] == [2]


def test_a_polled_record_beyond_what_the_final_read_reached_is_seen(find: Find) -> None:
    ops = [ok(*A, 5), poll(9, 0, Rec(*A, 5))]
    ends = [end(reached=0), end(partition=1)]

    assert find("unseen", ops, ends=ends) == []
    assert find("lost-write", ops, ends=ends) == []
    assert find("dirty-read", ops, ends=ends) == []


def test_without_a_final_read_everything_nobody_polled_is_unseen(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, None, partition=None)]

    assert find("lost-write", ops, ends=[]) == []
    assert len(find("unseen", ops, ends=[])) == 2


def test_a_record_read_from_the_wrong_partition_alone_is_lost_and_a_phantom(find: Find) -> None:
    ops = [ok(*A, 0), final(Rec(*A, 0, partition=1))]

    (lost,) = find("lost-write", ops)
    (phantom,) = find("phantom", ops)

    assert (lost.partition, phantom.partition, phantom.kind) == (0, 1, "partition")


def test_a_value_at_two_offsets_of_the_final_log_is_a_duplicate(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), final(Rec(*A, 0), Rec(*B, 1), Rec(*A, 2))]

    (twice,) = find("duplicate", ops)

    assert (twice.value, twice.offset, twice.kind) == (value_of(*A), 0, "log")
    assert twice.detail["last_offset"] == "2"


def test_a_value_that_was_polled_elsewhere_than_it_lies_has_moved(find: Find) -> None:
    ops = [info(*A), poll(9, 0, Rec(*A, 3)), final(Rec(*A, 7))]

    (moved,) = find("duplicate", ops)

    assert (moved.offset, moved.kind, moved.detail["last_offset"]) == (3, "moved", "7")


def test_one_offset_read_twice_is_no_duplicate(find: Find) -> None:
    ops = [ok(*A, 0), poll(9, 0, Rec(*A, 0)), poll(8, 0, Rec(*A, 0)), final(Rec(*A, 0))]

    assert find("duplicate", ops) == []


def test_a_copy_that_only_a_poll_saw_has_moved_however_often_the_other_was_read(find: Find) -> None:
    ops = [ok(*A, 0), poll(9, 0, Rec(*A, 3)), final(Rec(*A, 0), Rec(*A, 0))]

    (moved,) = find("duplicate", ops)

    assert (moved.offset, moved.kind, moved.detail["last_offset"]) == (0, "moved", "3")


def test_copies_in_two_partitions_of_the_final_log_are_duplicates(find: Find) -> None:
    ops = [ok(*A, 0), final(Rec(*A, 0), Rec(*A, 0, partition=1))]

    (twice,) = find("duplicate", ops)

    assert (twice.offset, twice.kind, twice.detail["partitions"]) == (0, "log", "2")


def test_a_record_whose_copy_lies_in_a_lower_partition_is_not_lost(find: Find) -> None:
    ops = [ok(*A, 0, partition=1), final(Rec(*A, 0, 1), Rec(*A, 0, 0))]

    assert find("lost-write", ops) == []
    assert len(find("duplicate", ops)) == 1


def test_a_record_in_doubt_that_lies_in_another_partition_lies_there_once(find: Find) -> None:
    ops = [info(*A, partition=0), fail(*B), final(Rec(*A, 0, partition=1), Rec(*B, 1, partition=1))]

    assert find("duplicate", ops) == []


def test_a_value_that_no_send_wrote_is_a_phantom(find: Find) -> None:
    ops = [ok(*A, 0), poll(9, 0, Rec(*A, 0), Rec(7, 7, 1)), final(Rec(*A, 0))]

    (phantom,) = find("phantom", ops)

    assert (phantom.value, phantom.offset, phantom.process) == (value_of(7, 7), 1, 9)


def test_a_record_that_only_the_final_read_found_can_be_a_phantom(find: Find) -> None:
    (phantom,) = find("phantom", [final(Rec(7, 7, 4))])

    assert (phantom.offset, phantom.detail["finally_read"]) == (4, "1")


def test_a_record_of_another_run_is_corrupt_and_no_phantom(find: Find) -> None:
    ops = [poll(9, 0, Rec(7, 7, 1, problem="run"), Rec(7, 8, 2, problem="format"))]

    assert find("phantom", ops) == []
    assert [row.kind for row in find("corrupt-record", ops)] == ["run", "format"]


def test_a_record_with_a_wrong_checksum_is_corrupt_and_not_lost(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), final(Rec(*A, 0, problem="checksum"), Rec(*B, 1))]

    (corrupt,) = find("corrupt-record", ops)

    assert (corrupt.kind, corrupt.offset, corrupt.value) == ("checksum", 0, value_of(*A))
    assert corrupt.detail["read_by"] == "final read"
    assert find("lost-write", ops) == []


def test_a_failed_send_that_was_polled_is_an_aborted_read(find: Find) -> None:
    ops = [fail(*A), fail(*B), ok(*C, 1), poll(9, 0, Rec(*A, 0)), final(Rec(*C, 1))]

    (read,) = find("G1a", ops)

    assert (read.value, read.offset, read.detail["polled"]) == (value_of(*A), 0, "1")


def test_a_failed_send_in_the_final_log_is_an_aborted_read(find: Find) -> None:
    (read,) = find("G1a", [fail(*A), final(Rec(*A, 0))])

    assert read.detail["finally_read"] == "1"


def test_a_polled_value_that_is_gone_at_the_end_is_a_dirty_read(find: Find) -> None:
    ops = [ok(*A, 0), info(*B), poll(9, 3, Rec(*A, 0), Rec(*B, 1)), final(Rec(*A, 0))]

    (dirty,) = find("dirty-read", ops)

    assert (dirty.value, dirty.offset, dirty.process) == (value_of(*B), 1, 9)
    assert dirty.time_ns == 2_000_000_000
    assert dirty.detail["send_type"] == "info"


def test_an_offset_given_to_another_record_after_a_loss_is_inconsistent_in_acks(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 1), ok(2, 0, 1), final(Rec(*A, 0), Rec(2, 0, 1))]

    (offset,) = find("inconsistent-offsets", ops)

    assert (offset.offset, offset.kind, offset.value) == (1, "acks", value_of(2, 0))
    assert offset.detail["other_value"] == str(value_of(*B))
    assert offset.time_ns == 2_500_000_000  # the later acknowledgement, not the final read


def test_two_consumers_shown_different_values_at_one_offset_are_inconsistent_reads(
    find: Find,
) -> None:
    ops = [info(*A), info(*B), poll(8, 0, Rec(*A, 5)), poll(9, 0, Rec(*B, 5)), final(Rec(*B, 5))]

    assert [(r.offset, r.kind) for r in find("inconsistent-offsets", ops)] == [(5, "reads")]


def test_a_conflict_at_the_middle_of_three_places_is_found(find: Find) -> None:
    ops = [
        info(*A),
        ok(*B, 700),
        poll(8, 0, Rec(*A, 5)),
        poll(8, 1, Rec(*A, 700)),
        poll(8, 2, Rec(*A, 1900)),
        final(Rec(*B, 700)),
    ]

    assert [r.offset for r in find("inconsistent-offsets", ops)] == [700]


def test_a_final_read_that_gives_one_offset_twice_is_inconsistent(find: Find) -> None:
    ops = [ok(*A, 63), ok(*B, 63), final(Rec(*A, 63), Rec(*B, 63))]

    assert [(r.offset, r.kind) for r in find("inconsistent-offsets", ops)] == [(63, "reads")]


def test_offsets_of_two_partitions_do_not_conflict(find: Find) -> None:
    ops = [ok(*A, 0), ok(*B, 0, partition=1), final(Rec(*A, 0), Rec(*B, 0, partition=1))]

    assert find("inconsistent-offsets", ops) == []
