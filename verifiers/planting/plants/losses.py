"""Records that are gone, or that nobody looked for."""

from collections.abc import Sequence
from typing import Any

from verifiers.planting.plant import Offence, Planted, plant
from verifiers.planting.plot import NothingToPlant, Plot
from verifiers.planting.stock import Place, Record, Stock
from verifiers.planting.strangers import stranger_polls, stranger_sends

_MOST = 3


@plant("lost-write")
def lost_write(plot: Plot) -> Planted:
    """Leave the last records of a partition out of the final read, and out of all polls.

    From the end of a log, because a record that consumers were given all the same would be a
    dirty-read as well, and a hole in what they were given one that they skipped.
    """
    records = _tail(plot.stock)
    _forget(plot, records)
    return Planted(
        told=f"the last {len(records)} records of {_name(records[0].place)} were never read",
        offences=(*(_of_send("lost-write", one) for one in records), *_torn(plot.stock, records)),
    )


@plant("unseen")
def unseen(plot: Plot) -> Planted:
    """The same, and the final read did not get that far."""
    records = _tail(plot.stock)
    _forget(plot, records)
    place, reached = records[0].place, records[0].offset

    def cut(ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**end, "reached": reached, "complete": False}
            if (end["topic"], end["partition"]) == place
            else end
            for end in ends
        ]

    plot.edit_json("history/ends.json", cut)
    return Planted(
        told=f"the final read of {_name(place)} ended at {reached}",
        offences=tuple(_of_send("unseen", one) for one in records),
    )


@plant("dirty-read")
def dirty_read(plot: Plot) -> Planted:
    """Let a consumer be given a record behind the log's end: a send in doubt, gone later."""
    place = some_place(plot.stock)
    offset = plot.stock.free_offset(place)
    value = stranger_sends(plot, "info", place, None)
    reader = stranger_polls(plot, place, offset, value)
    return Planted(
        told=f"a consumer was given {_name(place)} @{offset}, which the final read lacks",
        offences=(
            Offence(
                anomaly="dirty-read", topic=place[0], partition=place[1], offset=offset,
                value=value, process=reader,
            ),
        ),
    )  # fmt: skip


def some_place(stock: Stock) -> Place:
    """Return a partition that was finally read to its end.

    Raises:
        NothingToPlant: there is none.
    """
    if not stock.places:
        raise NothingToPlant("no partition was finally read to its end")
    return stock.places[0]


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"


def _tail(stock: Stock) -> list[Record]:
    """Return the last records of a partition, if they are plain: where most are."""
    best: list[Record] = []
    for place in stock.places:
        rows = stock.in_place("final", place)
        offsets = stock.rows("final").numbers("offset")[rows]
        values = stock.rows("final").numbers("value")[rows]
        mine: list[Record] = []
        for at in offsets.argsort()[::-1][:_MOST]:
            record = stock.by_value.get(int(values[at]))
            if record is None:
                break
            mine.append(record)
        if len(mine) > len(best):
            best = mine
    if not best:
        raise NothingToPlant("no partition that was finally read ends in a plain record")
    return best[::-1]


def _forget(plot: Plot, records: Sequence[Record]) -> None:
    values = [record.value for record in records]
    for dataset in ("final", "poll"):
        plot.drop(dataset, plot.stock.of_value(dataset, values))


def _of_send(anomaly: str, record: Record, because: str = "") -> Offence:
    return Offence(
        anomaly=anomaly, topic=record.topic, partition=record.partition, offset=record.offset,
        value=record.value, process=record.process, because=because,
    )  # fmt: skip


def _torn(stock: Stock, records: Sequence[Record]) -> list[Offence]:
    """Return what becomes of transactions of which only a part is gone."""
    torn = []
    gone = {record.value for record in records}
    finals = set(stock.rows("final").numbers("value").tolist())
    sends = stock.rows("send")
    for key in dict.fromkeys((one.process, one.txn) for one in records if one.txn is not None):
        mine = (sends.numbers("process") == key[0]) & (sends.numbers("txn") == key[1])
        if set(sends.numbers("value")[mine].tolist()) & (finals - gone):
            first = min(
                (one for one in records if (one.process, one.txn) == key),
                key=lambda one: (one.topic, one.partition, one.offset),
            )
            torn.append(
                _of_send("torn-transaction", first, "the rest of its transaction is still there")
            )
    return torn
