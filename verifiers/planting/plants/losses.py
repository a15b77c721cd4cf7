"""Plants of lost and unseen records."""

from collections.abc import Sequence
from typing import Any

from verifiers.planting.new_clients import new_consumer_polls, new_record, send
from verifiers.planting.plant import Planted, offence_of, plant, planted
from verifiers.planting.run_contents import (
    NothingToPlant,
    Offence,
    Record,
    RunContents,
)
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import name_of
from verifiers.timeline.partition_states import read_timeline

_MOST = 3


@plant("lost-write")
def lost_write(copy: RunCopy) -> Planted:
    """Leave the last records of a partition out of the final read, and out of all polls.

    From the end of a log, because a record that consumers were given all the same would be a
    dirty-read as well, and a hole in what they were given one that they skipped.
    """
    records = _tail(copy.contents)
    _forget(copy, records)
    partition = name_of(records[0].topic_partition)
    return planted(
        f"the last {len(records)} records of {partition} were never read",
        *(offence_of("lost-write", record, kind=_kind(copy)) for record in records),
        *_torn(copy.contents, records),
    )


@plant("unseen")
def unseen(copy: RunCopy) -> Planted:
    """Remove the last records of a partition, and let the final read end before them."""
    records = _tail(copy.contents)
    _forget(copy, records)
    tp, reached = records[0].topic_partition, records[0].offset

    def cut(ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**end, "reached": reached, "complete": False}
            if (end["topic"], end["partition"]) == tp
            else end
            for end in ends
        ]

    copy.edit_json("history/ends.json", cut)
    return planted(
        f"the final read of {name_of(tp)} ended at {reached}",
        *(offence_of("unseen", record) for record in records),
    )


@plant("dirty-read")
def dirty_read(copy: RunCopy) -> Planted:
    """Let a consumer be given a record behind the log's end: a send in doubt, gone later."""
    record = new_record(copy)
    send(copy, "info", record, is_told=False)
    reader = new_consumer_polls(copy, record)
    return planted(
        f"a consumer was given {record.name}, which the final read lacks",
        offence_of("dirty-read", record, process=reader),
    )


def _kind(copy: RunCopy) -> str | None:
    """Return the kind of a loss at the end of a log that nothing has damaged since."""
    if any(copy.path.glob("cluster/*/data*")):
        return "unread"
    return "unexplained" if read_timeline(copy.path).states else None


def _tail(contents: RunContents) -> list[Record]:
    """Return the last records of a partition, if they are plain: where most are."""
    best: list[Record] = []
    for tp in contents.topic_partitions:
        rows = contents.in_partition("final", tp)
        offsets = contents.rows("final").numbers("offset")[rows]
        values = contents.rows("final").numbers("value")[rows]
        records: list[Record] = []
        for at in offsets.argsort()[::-1][:_MOST]:
            record = contents.by_value.get(int(values[at]))
            if record is None:
                break
            records.append(record)
        if len(records) > len(best):
            best = records
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
    for key in dict.fromkeys(
        (record.process, record.txn) for record in records if record.txn is not None
    ):
        same_transaction = (sends.numbers("process") == key[0]) & (sends.numbers("txn") == key[1])
        if set(sends.numbers("value")[same_transaction].tolist()) & (finals - gone):
            first = min(
                (record for record in records if (record.process, record.txn) == key),
                key=lambda record: (record.topic, record.partition, record.offset),
            )
            because = "the rest of its transaction is still there"
            torn.append(offence_of("torn-transaction", first, because=because))
    return torn
