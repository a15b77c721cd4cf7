"""Plants of duplicate, unexpected and damaged records."""

from collections import defaultdict
from dataclasses import replace

from verifiers.planting.new_clients import (
    finally_read,
    new_consumer_polls,
    new_producer_ends_transaction,
    new_record,
)
from verifiers.planting.plant import Planted, offence_of, plant, planted
from verifiers.planting.run_contents import Offence, Record, RunContents, first_of
from verifiers.planting.run_copy import RunCopy


@plant("duplicate")
def duplicate(copy: RunCopy) -> Planted:
    """Let the log hold a record a second time, at its end, as if it had been sent again.

    It is the last record of its producer, so that no later record lies before the copy.
    """
    record = _last_of_producer(copy.contents)
    offset = copy.contents.free_offset(record.topic_partition)
    finally_read(copy, replace(record, offset=offset))
    return planted(
        f"{record.name} lies at @{offset} as well",
        offence_of("duplicate", record, kind="log", detail={"last_offset": str(offset)}),
    )


@plant("inconsistent-offsets")
def acknowledged_twice(copy: RunCopy) -> Planted:
    """Let a second send be acknowledged at a record's offset."""
    record = copy.contents.some_plain
    other = new_record(copy, "ok", at=record)
    because = "an acknowledged record whose offset shows another one is lost"
    return planted(
        f"{record.name} was acknowledged to two producers",
        _of_two(record, other, "acks"),
        offence_of(
            "lost-write", other, because=because,
            # It was sent after everything else, and nothing has happened since.
            kind="unexplained" if copy.contents.timeline.states else None,
        ),
    )  # fmt: skip


@plant("inconsistent-offsets", "reads")
def read_twice(copy: RunCopy) -> Planted:
    """Let the final read find two records at one offset."""
    record = copy.contents.some_plain
    other = new_record(copy, "info", at=record)
    finally_read(copy, other)
    return planted(f"{record.name} was read with two values", _of_two(record, other, "reads"))


@plant("phantom")
def phantom(copy: RunCopy) -> Planted:
    """Let the final read find a record that nobody sent."""
    record = new_record(copy)
    finally_read(copy, record)
    return planted(
        f"{record.name} holds a record that nobody sent",
        offence_of("phantom", record, process=None),
    )


@plant("corrupt-record")
def corrupt_record(copy: RunCopy) -> Planted:
    """Let a reader be given a record with a wrong checksum."""
    contents = copy.contents
    record = contents.some_plain
    dataset = "poll" if contents.of_value("poll", [record.value]).any() else "final"
    chosen = contents.of_value(dataset, [record.value])
    chosen[int(chosen.argmax()) + 1 :] = False
    copy.put(dataset, chosen, problem="checksum")
    reader = int(contents.rows(dataset).numbers("process")[chosen][0])
    return planted(
        f"{record.name} was given with a wrong checksum",
        offence_of("corrupt-record", record, process=reader, kind="checksum"),
    )


@plant("G1a")
def refused_and_read(copy: RunCopy) -> Planted:
    """Let the final read find a record whose send failed."""
    record = new_record(copy, "fail")
    finally_read(copy, record)
    return _aborted(record, None, "a record whose send had failed was read")


@plant("G1a", "read_committed")
def aborted_and_read(copy: RunCopy) -> Planted:
    """Let the final read find a record of a transaction that was aborted."""
    record = _sent_and_aborted(copy)
    finally_read(copy, record)
    what = "a record of an aborted transaction was finally read"
    return _aborted(record, "read_committed", what)


@plant("G1a", "read_uncommitted")
def aborted_and_polled(copy: RunCopy) -> Planted:
    """Let a read_uncommitted consumer be given a record of a transaction that was aborted."""
    copy.contents.demand_transactions()
    readers = sorted(copy.contents.run.uncommitted)
    reader = first_of(readers, "nobody read with isolation.level=read_uncommitted")
    record = _sent_and_aborted(copy)
    new_consumer_polls(copy, record, process=reader)
    what = "a read_uncommitted consumer was given a record of an aborted transaction"
    return _aborted(record, "read_uncommitted", what)


def _sent_and_aborted(copy: RunCopy) -> Record:
    """Add a record of an aborted transaction, and return it."""
    number = new_producer_ends_transaction(copy, "fail")
    return new_record(copy, "fail", txn=number)


def _aborted(record: Record, kind: str | None, what: str) -> Planted:
    return planted(f"{what}: {record.name}", offence_of("G1a", record, kind=kind))


def _of_two(record: Record, other: Record, kind: str) -> Offence:
    # The values of a new process are higher than those of all others.
    detail = {"other_value": str(record.value)}
    return offence_of("inconsistent-offsets", other, kind=kind, detail=detail)


def _last_of_producer(contents: RunContents) -> Record:
    """Return a plain record behind which its producer sent nothing to its partition."""
    last: dict[tuple[int, int | None], int] = defaultdict(lambda: -1)
    cells = contents.rows("send").cells(contents.sent, "process", "partition", "op")
    for _, process, partition, op in cells:
        last[process, partition] = max(last[process, partition], op)
    fit = (
        record
        for record in reversed(contents.plain)
        # A send of unknown partition may have gone to any.
        if record.op == last[record.process, record.partition] > last[record.process, None]
    )
    return first_of(fit, "no producer's last record is plainly in order")
