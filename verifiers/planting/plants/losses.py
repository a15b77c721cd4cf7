"""Plants of lost and unseen records."""

from collections.abc import Sequence
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any

from harness.core.grouping import by_key
from verifiers.planting.new_clients import new_consumer_polls, new_record
from verifiers.planting.plant import Planted, offence_of, plant, planted
from verifiers.planting.run_contents import NothingToPlant, Offence, Record, RunContents
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition, partition_name

_MOST = 3


@plant("lost-write")
def lost_write(copy: RunCopy) -> Planted:
    """Leave the last records of a partition out of the final read, and out of all polls.

    From the end of a log, because a record that consumers were given all the same would be a
    dirty-read as well, and a hole in what they were given one that they skipped.
    """
    records = _tail(copy.contents)
    _forget(copy, records)
    partition = partition_name(records[0].topic_partition)
    return planted(
        f"the last {len(records)} records of {partition} were never read",
        *(offence_of("lost-write", record, kind=_kind(copy.contents)) for record in records),
        *_torn(copy.contents, records),
    )


@plant("unseen")
def unseen(copy: RunCopy) -> Planted:
    """Remove the last records of a partition, and let the final read end before them."""
    records = _tail(copy.contents)
    _forget(copy, records)
    tp, reached = records[0].topic_partition, records[0].offset

    def cut(ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for end in ends:
            if (end["topic"], end["partition"]) == tp:
                end |= {"reached": reached, "complete": False}
        return ends

    copy.edit_json("history/ends.json", cut)
    return planted(
        f"the final read of {partition_name(tp)} ended at {reached}",
        *(offence_of("unseen", record) for record in records),
    )


@plant("dirty-read")
def dirty_read(copy: RunCopy) -> Planted:
    """Let a consumer be given a record behind the log's end: a send in doubt, gone later."""
    record = new_record(copy, "info")
    reader = new_consumer_polls(copy, record)
    return planted(
        f"a consumer was given {record.name}, which the final read lacks",
        offence_of("dirty-read", record, process=reader),
    )


def _kind(contents: RunContents) -> str | None:
    """Return the kind of a loss at the end of a log that nothing has damaged since."""
    if contents.has_disks:
        return "unread"
    return "unexplained" if contents.timeline.states else None


def _tail(contents: RunContents) -> list[Record]:
    """Return the last records of a partition, if they are plain: where most are."""
    tails = [_plain_end(contents, tp) for tp in contents.topic_partitions]
    longest = max(tails, key=len, default=[])
    if not longest:
        raise NothingToPlant("no partition that was finally read ends in a plain record")
    return longest[::-1]


def _plain_end(contents: RunContents, tp: TopicPartition) -> list[Record]:
    """Return the plain records at the end of a partition, the last one first."""
    cells = contents.rows("final").cells(contents.in_partition("final", tp), "offset", "value")
    values = [value for _, _, value in sorted(cells, key=itemgetter(1), reverse=True)[:_MOST]]
    plain = takewhile(contents.by_value.__contains__, values)
    return [contents.by_value[value] for value in plain]


def _forget(copy: RunCopy, records: Sequence[Record]) -> None:
    values = [record.value for record in records]
    for dataset in ("final", "poll"):
        copy.drop(dataset, copy.contents.of_value(dataset, values))


def _torn(contents: RunContents, records: Sequence[Record]) -> list[Offence]:
    """Return what becomes of transactions of which only a part is gone."""
    torn = []
    sends = contents.rows("send")
    gone = {record.value for record in records}
    there = set(contents.rows("final").numbers("value").tolist()) - gone
    within = [record for record in records if record.txn is not None]
    for (process, txn), lost in by_key(within, attrgetter("process", "txn")).items():
        same_transaction = sends.among("process", process) & sends.among("txn", txn)
        if there.intersection(sends.numbers("value")[same_transaction].tolist()):
            because = "the rest of its transaction is still there"
            torn.append(offence_of("torn-transaction", lost[0], kind="decided", because=because))
    return torn
