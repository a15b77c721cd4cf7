"""Records that lie where they should not, or are not what they should be."""

from collections import defaultdict

from harness.core.op import value_of
from verifiers.planting.new_clients import (
    finally_read,
    new_consumer_polls,
    new_producer_ends_transaction,
    new_producer_sends,
)
from verifiers.planting.plant import Offence, Planted, plant
from verifiers.planting.run_contents import NONE, Place, Record, RunContents
from verifiers.planting.run_copy import NothingToPlant, RunCopy


@plant("duplicate")
def duplicate(copy: RunCopy) -> Planted:
    """Let a record lie a second time at the log's end, as if it had been sent again.

    The last of its producer, behind whose copy nothing of his can come to lie earlier.
    """
    record = _last_of_producer(copy.contents)
    again = copy.contents.free_offset(record.place)
    finally_read(copy, record.place, again, record.value)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} lies at @{again} as well",
        offences=(
            Offence(
                anomaly="duplicate", topic=record.topic, partition=record.partition,
                offset=record.offset, value=record.value, process=record.process, kind="log",
                detail={"last_offset": str(again)},
            ),
        ),
    )  # fmt: skip


@plant("inconsistent-offsets")
def acknowledged_twice(copy: RunCopy) -> Planted:
    """Let a second send be acknowledged at a record's offset."""
    record = some_record(copy.contents)
    value = new_producer_sends(copy, "ok", record.place, record.offset)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} was acknowledged to two producers",
        offences=(
            _of_two(record, value, copy.contents.new_process, "acks"),
            Offence(
                anomaly="lost-write", topic=record.topic, partition=record.partition,
                offset=record.offset, value=value, process=copy.contents.new_process,
                because="an acknowledged record whose offset shows another one is lost",
            ),
        ),
    )  # fmt: skip


@plant("inconsistent-offsets", "reads")
def read_twice(copy: RunCopy) -> Planted:
    """Let the final read find two records at one offset."""
    record = some_record(copy.contents)
    value = new_producer_sends(copy, "info", record.place, None)
    finally_read(copy, record.place, record.offset, value)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} was read with two values",
        offences=(_of_two(record, value, copy.contents.new_process, "reads"),),
    )


@plant("phantom")
def phantom(copy: RunCopy) -> Planted:
    """Let the final read find a record that nobody sent."""
    place = _place(copy.contents)
    offset, value = copy.contents.free_offset(place), value_of(copy.contents.new_process, 0)
    finally_read(copy, place, offset, value)
    return Planted(
        told=f"{_name(place)} @{offset} holds a record that nobody sent",
        offences=(
            Offence(
                anomaly="phantom", topic=place[0], partition=place[1], offset=offset, value=value
            ),
        ),
    )


@plant("corrupt-record")
def corrupt_record(copy: RunCopy) -> Planted:
    """Let the checksum of a record be wrong as a reader was given it."""
    contents = copy.contents
    record = some_record(contents)
    dataset = "poll" if contents.of_value("poll", [record.value]).any() else "final"
    chosen = contents.of_value(dataset, [record.value])
    chosen[int(chosen.argmax()) + 1 :] = False
    copy.put(dataset, chosen, problem="checksum")
    reader = int(contents.rows(dataset).numbers("process")[chosen][0])
    return Planted(
        told=f"{_name(record.place)} @{record.offset} was given with a wrong checksum",
        offences=(
            Offence(
                anomaly="corrupt-record", topic=record.topic, partition=record.partition,
                offset=record.offset, value=record.value, process=reader, kind="checksum",
            ),
        ),
    )  # fmt: skip


@plant("G1a")
def refused_and_read(copy: RunCopy) -> Planted:
    """Let the final read find a record whose send failed."""
    place = _place(copy.contents)
    offset = copy.contents.free_offset(place)
    value = new_producer_sends(copy, "fail", place, None)
    finally_read(copy, place, offset, value)
    return _aborted(copy, place, offset, value, None, "a record whose send had failed was read")


@plant("G1a", "read_committed")
def aborted_and_read(copy: RunCopy) -> Planted:
    """Let the final read find a record of a transaction that was aborted."""
    if not copy.contents.has("txn"):
        raise NothingToPlant("the run has no transactions")
    place = _place(copy.contents)
    offset = copy.contents.free_offset(place)
    number = new_producer_ends_transaction(copy, "fail")
    value = new_producer_sends(copy, "fail", place, offset, txn=number)
    finally_read(copy, place, offset, value)
    told = "a record of an aborted transaction was finally read"
    return _aborted(copy, place, offset, value, "read_committed", told)


@plant("G1a", "read_uncommitted")
def aborted_and_polled(copy: RunCopy) -> Planted:
    """Let a read_uncommitted consumer be given a record of a transaction that was aborted."""
    readers = sorted(copy.contents.run.uncommitted)
    if not copy.contents.has("txn"):
        raise NothingToPlant("the run has no transactions")
    if not readers:
        raise NothingToPlant("nobody read with isolation.level=read_uncommitted")
    place = _place(copy.contents)
    offset = copy.contents.free_offset(place)
    number = new_producer_ends_transaction(copy, "fail")
    value = new_producer_sends(copy, "fail", place, offset, txn=number)
    new_consumer_polls(copy, place, offset, value, process=readers[0])
    told = "a read_uncommitted consumer was given a record of an aborted transaction"
    return _aborted(copy, place, offset, value, "read_uncommitted", told)


def _aborted(
    copy: RunCopy, place: Place, offset: int, value: int, kind: str | None, told: str
) -> Planted:
    return Planted(
        told=f"{told}: {_name(place)} @{offset}",
        offences=(
            Offence(
                anomaly="G1a", topic=place[0], partition=place[1], offset=offset, value=value,
                process=copy.contents.new_process, kind=kind,
            ),
        ),
    )  # fmt: skip


def some_record(contents: RunContents) -> Record:
    """Return a plain record from the middle of the run.

    Raises:
        NothingToPlant: there is none.
    """
    if not contents.plain:
        raise NothingToPlant("no record is plainly in order")
    return contents.plain[len(contents.plain) // 2]


def _place(contents: RunContents) -> Place:
    if not contents.places:
        raise NothingToPlant("no partition was finally read to its end")
    return contents.places[0]


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _of_two(record: Record, value: int, process: int, kind: str) -> Offence:
    # A new_process's values are higher than those of all who were there.
    return Offence(
        anomaly="inconsistent-offsets", topic=record.topic, partition=record.partition,
        offset=record.offset, value=value, process=process, kind=kind,
        detail={"other_value": str(record.value)},
    )  # fmt: skip


def _last_of_producer(contents: RunContents) -> Record:
    """Return a plain record behind which its producer sent nothing to its partition."""
    sends = contents.rows("send")
    counted = (sends.words("type") == "ok") | (sends.words("type") == "info")
    partitions, processes = sends.numbers("partition"), sends.numbers("process")
    last: dict[tuple[int, int], int] = defaultdict(lambda: -1)
    for process, partition, op in zip(
        processes[counted].tolist(), partitions[counted].tolist(),
        sends.numbers("op")[counted].tolist(), strict=True,
    ):  # fmt: skip
        last[process, partition] = max(last[process, partition], op)
    for record in reversed(contents.plain):
        # One whose partition is not known may have gone to any.
        if record.op == last[record.process, record.partition] > last[record.process, NONE]:
            return record
    raise NothingToPlant("no producer's last record is plainly in order")
