"""Records that lie where they should not, or are not what they should be."""

from collections import defaultdict

from harness.core.op import value_of
from verifiers.planting.plant import Offence, Planted, plant
from verifiers.planting.plot import NothingToPlant, Plot
from verifiers.planting.stock import NONE, Place, Record, Stock
from verifiers.planting.strangers import (
    finally_read,
    stranger_ends_transaction,
    stranger_polls,
    stranger_sends,
)


@plant("duplicate")
def duplicate(plot: Plot) -> Planted:
    """Let a record lie a second time at the log's end, as if it had been sent again.

    The last of its producer, behind whose copy nothing of his can come to lie earlier.
    """
    record = _last_of_producer(plot.stock)
    copy = plot.stock.free_offset(record.place)
    finally_read(plot, record.place, copy, record.value)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} lies at @{copy} as well",
        offences=(
            Offence(
                anomaly="duplicate", topic=record.topic, partition=record.partition,
                offset=record.offset, value=record.value, process=record.process, kind="log",
                detail={"last_offset": str(copy)},
            ),
        ),
    )  # fmt: skip


@plant("inconsistent-offsets")
def acknowledged_twice(plot: Plot) -> Planted:
    """Let a second send be acknowledged at a record's offset."""
    record = some_record(plot.stock)
    value = stranger_sends(plot, "ok", record.place, record.offset)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} was acknowledged to two producers",
        offences=(
            _of_two(record, value, plot.stock.newcomer, "acks"),
            Offence(
                anomaly="lost-write", topic=record.topic, partition=record.partition,
                offset=record.offset, value=value, process=plot.stock.newcomer,
                because="an acknowledged record whose offset shows another one is lost",
            ),
        ),
    )  # fmt: skip


@plant("inconsistent-offsets", "reads")
def read_twice(plot: Plot) -> Planted:
    """Let the final read find two records at one offset."""
    record = some_record(plot.stock)
    value = stranger_sends(plot, "info", record.place, None)
    finally_read(plot, record.place, record.offset, value)
    return Planted(
        told=f"{_name(record.place)} @{record.offset} was read with two values",
        offences=(_of_two(record, value, plot.stock.newcomer, "reads"),),
    )


@plant("phantom")
def phantom(plot: Plot) -> Planted:
    """Let the final read find a record that nobody sent."""
    place = _place(plot.stock)
    offset, value = plot.stock.free_offset(place), value_of(plot.stock.newcomer, 0)
    finally_read(plot, place, offset, value)
    return Planted(
        told=f"{_name(place)} @{offset} holds a record that nobody sent",
        offences=(
            Offence(
                anomaly="phantom", topic=place[0], partition=place[1], offset=offset, value=value
            ),
        ),
    )


@plant("corrupt-record")
def corrupt_record(plot: Plot) -> Planted:
    """Let the checksum of a record be wrong as a reader was given it."""
    stock = plot.stock
    record = some_record(stock)
    dataset = "poll" if stock.of_value("poll", [record.value]).any() else "final"
    chosen = stock.of_value(dataset, [record.value])
    chosen[int(chosen.argmax()) + 1 :] = False
    plot.put(dataset, chosen, problem="checksum")
    reader = int(stock.rows(dataset).numbers("process")[chosen][0])
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
def refused_and_read(plot: Plot) -> Planted:
    """Let the final read find a record whose send failed."""
    place = _place(plot.stock)
    offset = plot.stock.free_offset(place)
    value = stranger_sends(plot, "fail", place, None)
    finally_read(plot, place, offset, value)
    return _aborted(plot, place, offset, value, None, "a record whose send had failed was read")


@plant("G1a", "read_committed")
def aborted_and_read(plot: Plot) -> Planted:
    """Let the final read find a record of a transaction that was aborted."""
    if not plot.stock.has("txn"):
        raise NothingToPlant("the run has no transactions")
    place = _place(plot.stock)
    offset = plot.stock.free_offset(place)
    number = stranger_ends_transaction(plot, "fail")
    value = stranger_sends(plot, "fail", place, offset, txn=number)
    finally_read(plot, place, offset, value)
    told = "a record of an aborted transaction was finally read"
    return _aborted(plot, place, offset, value, "read_committed", told)


@plant("G1a", "read_uncommitted")
def aborted_and_polled(plot: Plot) -> Planted:
    """Let a read_uncommitted consumer be given a record of a transaction that was aborted."""
    readers = sorted(plot.stock.run.uncommitted)
    if not plot.stock.has("txn"):
        raise NothingToPlant("the run has no transactions")
    if not readers:
        raise NothingToPlant("nobody read with isolation.level=read_uncommitted")
    place = _place(plot.stock)
    offset = plot.stock.free_offset(place)
    number = stranger_ends_transaction(plot, "fail")
    value = stranger_sends(plot, "fail", place, offset, txn=number)
    stranger_polls(plot, place, offset, value, process=readers[0])
    told = "a read_uncommitted consumer was given a record of an aborted transaction"
    return _aborted(plot, place, offset, value, "read_uncommitted", told)


def _aborted(
    plot: Plot, place: Place, offset: int, value: int, kind: str | None, told: str
) -> Planted:
    return Planted(
        told=f"{told}: {_name(place)} @{offset}",
        offences=(
            Offence(
                anomaly="G1a", topic=place[0], partition=place[1], offset=offset, value=value,
                process=plot.stock.newcomer, kind=kind,
            ),
        ),
    )  # fmt: skip


def some_record(stock: Stock) -> Record:
    """Return a plain record from the middle of the run.

    Raises:
        NothingToPlant: there is none.
    """
    if not stock.plain:
        raise NothingToPlant("no record is plainly in order")
    return stock.plain[len(stock.plain) // 2]


def _place(stock: Stock) -> Place:
    if not stock.places:
        raise NothingToPlant("no partition was finally read to its end")
    return stock.places[0]


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _of_two(record: Record, value: int, process: int, kind: str) -> Offence:
    # A newcomer's values are higher than those of all who were there.
    return Offence(
        anomaly="inconsistent-offsets", topic=record.topic, partition=record.partition,
        offset=record.offset, value=value, process=process, kind=kind,
        detail={"other_value": str(record.value)},
    )  # fmt: skip


def _last_of_producer(stock: Stock) -> Record:
    """Return a plain record behind which its producer sent nothing to its partition."""
    sends = stock.rows("send")
    counted = (sends.words("type") == "ok") | (sends.words("type") == "info")
    partitions, processes = sends.numbers("partition"), sends.numbers("process")
    last: dict[tuple[int, int], int] = defaultdict(lambda: -1)
    for process, partition, op in zip(
        processes[counted].tolist(), partitions[counted].tolist(),
        sends.numbers("op")[counted].tolist(), strict=True,
    ):  # fmt: skip
        last[process, partition] = max(last[process, partition], op)
    for record in reversed(stock.plain):
        # One whose partition is not known may have gone to any.
        if record.op == last[record.process, record.partition] > last[record.process, NONE]:
            return record
    raise NothingToPlant("no producer's last record is plainly in order")
