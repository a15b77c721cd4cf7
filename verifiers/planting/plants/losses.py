"""Records that are gone, or that nobody looked for."""

from collections.abc import Sequence
from typing import Any

from verifiers.planting.new_clients import new_consumer_polls, new_producer_sends
from verifiers.planting.plant import Offence, Planted, offence_at, offence_of, plant
from verifiers.planting.run_contents import (
    NothingToPlant,
    Record,
    RunContents,
)
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition

_MOST = 3


@plant("lost-write")
def lost_write(copy: RunCopy) -> Planted:
    """Leave the last records of a partition out of the final read, and out of all polls.

    From the end of a log, because a record that consumers were given all the same would be a
    dirty-read as well, and a hole in what they were given one that they skipped.
    """
    records = _tail(copy.contents)
    _forget(copy, records)
    return Planted(
        told=f"the last {len(records)} records of {_name(records[0].place)} were never read",
        offences=(
            *(offence_of("lost-write", one) for one in records),
            *_torn(copy.contents, records),
        ),
    )


@plant("unseen")
def unseen(copy: RunCopy) -> Planted:
    """The same, and the final read did not get that far."""
    records = _tail(copy.contents)
    _forget(copy, records)
    place, reached = records[0].place, records[0].offset

    def cut(ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**end, "reached": reached, "complete": False}
            if (end["topic"], end["partition"]) == place
            else end
            for end in ends
        ]

    copy.edit_json("history/ends.json", cut)
    return Planted(
        told=f"the final read of {_name(place)} ended at {reached}",
        offences=tuple(offence_of("unseen", one) for one in records),
    )


@plant("dirty-read")
def dirty_read(copy: RunCopy) -> Planted:
    """Let a consumer be given a record behind the log's end: a send in doubt, gone later."""
    place = copy.contents.some_place
    offset = copy.contents.free_offset(place)
    value = new_producer_sends(copy, "info", place, None)
    reader = new_consumer_polls(copy, place, offset, value)
    return Planted(
        told=f"a consumer was given {_name(place)} @{offset}, which the final read lacks",
        offences=(offence_at("dirty-read", place, offset, value, reader),),
    )


def _name(place: TopicPartition) -> str:
    return f"{place[0]}/{place[1]}"


def _tail(contents: RunContents) -> list[Record]:
    """Return the last records of a partition, if they are plain: where most are."""
    best: list[Record] = []
    for place in contents.places:
        rows = contents.in_place("final", place)
        offsets = contents.rows("final").numbers("offset")[rows]
        values = contents.rows("final").numbers("value")[rows]
        mine: list[Record] = []
        for at in offsets.argsort()[::-1][:_MOST]:
            record = contents.by_value.get(int(values[at]))
            if record is None:
                break
            mine.append(record)
        if len(mine) > len(best):
            best = mine
    if not best:
        raise NothingToPlant("no partition that was finally read ends in a plain record")
    return best[::-1]


def _forget(copy: RunCopy, records: Sequence[Record]) -> None:
    values = [record.value for record in records]
    for dataset in ("final", "poll"):
        copy.drop(dataset, copy.contents.of_value(dataset, values))


def _torn(contents: RunContents, records: Sequence[Record]) -> list[Offence]:
    """Return what becomes of transactions of which only a part is gone."""
    torn = []
    gone = {record.value for record in records}
    finals = set(contents.rows("final").numbers("value").tolist())
    sends = contents.rows("send")
    for key in dict.fromkeys((one.process, one.txn) for one in records if one.txn is not None):
        mine = (sends.numbers("process") == key[0]) & (sends.numbers("txn") == key[1])
        if set(sends.numbers("value")[mine].tolist()) & (finals - gone):
            first = min(
                (one for one in records if (one.process, one.txn) == key),
                key=lambda one: (one.topic, one.partition, one.offset),
            )
            because = "the rest of its transaction is still there"
            torn.append(offence_of("torn-transaction", first, because=because))
    return torn
