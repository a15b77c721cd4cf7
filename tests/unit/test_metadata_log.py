"""The metadata log of KRaft, from its bytes to the changes of a partition."""

from pathlib import Path

from tests.metadata import batch, change, leader_change, no_op, partition, topic, write_metadata
from verifiers.timeline.metadata_log import (
    Change,
    MetadataLog,
    NodeChange,
    furthest,
    read_metadata_logs,
)

BEGIN = batch(0, 1000, [topic("orders"), partition(0, [1, 2, 3], leader=1)])


def read(path: Path, content: bytes) -> MetadataLog:
    write_metadata(path, content)
    log = furthest(read_metadata_logs(path / "cluster"))
    assert log is not None
    return log


def states(log: MetadataLog) -> list[tuple[int | None, tuple[int, ...], int]]:
    return [(one.leader, one.isr, one.leader_epoch) for one in log.changes]


def test_a_partition_begins_with_its_first_record(tmp_path: Path) -> None:
    log = read(tmp_path, BEGIN)

    assert log.changes == [
        Change(
            topic="orders", partition=0, at_ms=1000, leader=1, isr=(1, 2, 3), replicas=(1, 2, 3),
            elr=(), leader_epoch=0,
        )
    ]  # fmt: skip
    assert (log.last_ms, log.end) == (1000, (1, 1))


def test_a_change_keeps_what_it_does_not_name(tmp_path: Path) -> None:
    content = (
        BEGIN + batch(2, 2000, [change(0, isr=[1, 3])]) + batch(3, 3000, [change(0, leader=3)])
    )

    log = read(tmp_path, content)

    assert states(log) == [(1, (1, 2, 3), 0), (1, (1, 3), 0), (3, (1, 3), 1)]
    assert [one.at_ms for one in log.changes] == [1000, 2000, 3000]


def test_a_leader_that_is_named_again_begins_an_epoch(tmp_path: Path) -> None:
    log = read(tmp_path, BEGIN + batch(2, 2000, [change(0, leader=1)]))

    assert states(log)[-1] == (1, (1, 2, 3), 1)


def test_no_leader_is_none(tmp_path: Path) -> None:
    log = read(tmp_path, BEGIN + batch(2, 2000, [change(0, isr=[1], leader=-1)]))

    assert states(log)[-1] == (None, (1,), 1)


def test_eligible_leader_replicas_are_read(tmp_path: Path) -> None:
    begin = batch(0, 1000, [topic("orders"), partition(0, [1], leader=1, elr=[2])])

    log = read(tmp_path, begin + batch(2, 2000, [change(0, isr=[1, 2], elr=[])]))

    assert [one.elr for one in log.changes] == [(2,), ()]


def test_controllers_are_told_by_their_control_batches(tmp_path: Path) -> None:
    content = leader_change(0, 900, 101, epoch=4) + batch(1, 1000, [no_op()], epoch=4)

    log = read(tmp_path, content)

    assert log.controllers == [NodeChange(at_ms=900, node_id=101, state="controller", epoch=4)]
    assert log.changes == []


def test_half_a_batch_at_the_end_is_left_out(tmp_path: Path) -> None:
    log = read(tmp_path, BEGIN + batch(2, 2000, [change(0, isr=[1])])[:-3])

    assert states(log) == [(1, (1, 2, 3), 0)]


def test_of_several_copies_the_one_that_goes_furthest_counts(tmp_path: Path) -> None:
    longer = BEGIN + batch(2, 2000, [change(0, isr=[1])])
    newer = BEGIN + batch(2, 2000, [change(0, isr=[2], leader=2)], epoch=2)
    write_metadata(tmp_path, longer + batch(3, 3000, [no_op()]), service="controller-101")
    write_metadata(tmp_path, newer, service="controller-102")

    log = furthest(read_metadata_logs(tmp_path / "cluster"))

    assert log is not None
    assert states(log)[-1] == (2, (2,), 1)


def test_a_log_without_its_beginning_tells_nothing(tmp_path: Path) -> None:
    write_metadata(tmp_path, batch(7, 2000, [change(0, isr=[1])]), first=7)

    assert furthest(read_metadata_logs(tmp_path / "cluster")) is None


def test_a_change_of_an_unknown_partition_tells_nothing(tmp_path: Path) -> None:
    write_metadata(tmp_path, batch(0, 2000, [change(0, isr=[1])]))

    assert furthest(read_metadata_logs(tmp_path / "cluster")) is None


def test_records_that_end_too_early_tell_nothing(tmp_path: Path) -> None:
    write_metadata(tmp_path, batch(0, 2000, [topic("orders")[:9]]))

    assert furthest(read_metadata_logs(tmp_path / "cluster")) is None


def test_a_run_without_a_metadata_log_has_none(tmp_path: Path) -> None:
    assert furthest(read_metadata_logs(tmp_path / "cluster")) is None
