"""Plants of records that were polled or sent out of order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

from harness.core.grouping import by_key
from verifiers.checking.polling import RESETS
from verifiers.planting.plant import Planted, offence_at, offence_of, plant, planted
from verifiers.planting.run_contents import NONE, Offence, Record, RunContents, first_of
from verifiers.planting.run_copy import RunCopy
from verifiers.run_folder.folder import TopicPartition, partition_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record as a consumer was given it: its row among the polls, and what stands there."""

    row: int
    process: int
    topic_partition: TopicPartition
    op: int
    offset: int
    value: int
    time_ns: int

    @property
    def name(self) -> str:
        """Topic, partition and offset, for a sentence."""
        return f"{partition_name(self.topic_partition)} @{self.offset}"


Breaks = Sequence[tuple[str, int | None, int]]
"""Events after which a consumer may go on anywhere, RESETS or a rebalance: f, op and time_ns."""

_POLL_ANOMALIES = ("nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip")


@plant("nonmonotonic-poll")
def nonmonotonic_poll(copy: RunCopy) -> Planted:
    """Give a consumer its last record of a partition once more, in a poll of its own."""
    last = _last_given(copy.contents)
    _give_again(copy, last, op=last.op + (1 << 30), position=0, time_ns=last.time_ns + 1)
    partition = partition_name(last.topic_partition)
    return planted(
        f"process {last.process} was given its last record of {partition} again",
        _turn("nonmonotonic-poll", last, kind=_mode(copy.contents, last)),
    )


@plant("int-nonmonotonic-poll")
def int_nonmonotonic_poll(copy: RunCopy) -> Planted:
    """Give a consumer its last record of a partition twice in one poll."""
    last = _last_given(copy.contents)
    polls = copy.contents.rows("poll")
    same_poll = polls.among("process", last.process) & polls.among("op", last.op)
    position = int(polls.numbers("position")[same_poll].max()) + 1
    _give_again(copy, last, op=last.op, position=position, time_ns=last.time_ns)
    partition = partition_name(last.topic_partition)
    return planted(
        f"process {last.process} was given its last record of {partition} twice in a poll",
        _turn("int-nonmonotonic-poll", last),
    )


@plant("poll-skip")
def poll_skip(copy: RunCopy) -> Planted:
    """Withhold a record from a consumer, the last one of a poll."""
    lacking = "no consumer was given plain records of a partition in two polls"
    return _withheld(copy, "poll-skip", lacking, one_poll=False)


@plant("int-poll-skip")
def int_poll_skip(copy: RunCopy) -> Planted:
    """Withhold a record from a consumer, from the middle of a poll."""
    lacking = "no poll gave a consumer three plain records of a partition"
    return _withheld(copy, "int-poll-skip", lacking, one_poll=True)


def _withheld(copy: RunCopy, anomaly: str, lacking: str, *, one_poll: bool) -> Planted:
    """Withhold a record whose neighbours came in one poll, or in two."""
    fit = (
        (record, after)
        for lane, breaks in _lanes(copy.contents)
        for before, record, after in zip(lane, lane[1:], lane[2:], strict=False)
        if before.offset + 1 == record.offset == after.offset - 1
        and (before.op == after.op) == one_poll
        and _is_calm(copy.contents, breaks, (before, record, after))
    )
    record, after = first_of(fit, lacking)
    copy.drop_row("poll", record.row)
    between = ", between two others of one poll" if one_poll else ""
    kind = None if one_poll else _mode(copy.contents, after)
    return planted(
        f"process {record.process} was not given {record.name}{between}",
        _turn(anomaly, after, kind=kind, detail={"skipped": "1"}),
    )


@plant("nonmonotonic-send")
def nonmonotonic_send(copy: RunCopy) -> Planted:
    """Let two neighbouring records of a producer change places, wherever they were seen."""
    return _reversed(copy, "nonmonotonic-send", in_txn=False)


@plant("int-nonmonotonic-send")
def int_nonmonotonic_send(copy: RunCopy) -> Planted:
    """Let two neighbouring records of a transaction change places, wherever they were seen."""
    return _reversed(copy, "int-nonmonotonic-send", in_txn=True)


def _reversed(copy: RunCopy, anomaly: str, *, in_txn: bool) -> Planted:
    within = " in one transaction" if in_txn else ""
    lacking = "no producer sent two plain records to a partition one after the other" + within
    first, second = first_of(_neighbours(copy.contents, in_txn=in_txn), lacking)
    for record, other in ((first, second), (second, first)):
        copy.put("send", copy.contents.of_value("send", [record.value]), offset=other.offset)
        for dataset in ("poll", "final"):
            copy.put(dataset, copy.contents.of_value(dataset, [record.value]), value=other.value)
    return planted(
        f"process {first.process} finds @{first.offset} and @{second.offset} of "
        f"{partition_name(first.topic_partition)} reversed",
        offence_of(
            anomaly, second, offset=first.offset, kind="order",
            detail={"after_value": str(first.value), "after_offset": str(second.offset)},
        ),
    )  # fmt: skip


def _turn(anomaly: str, given: Given, **more: Any) -> Offence:  # noqa: ANN401  (as in offence_at)
    return offence_at(
        anomaly, given.topic_partition, given.offset, given.value, given.process, **more
    )


def _mode(contents: RunContents, given: Given) -> str:
    return "subscribe" if given.process in contents.run.subscribed else "assign"


def _give_again(copy: RunCopy, given: Given, *, op: int, position: int, time_ns: int) -> None:
    again = copy.contents.rows("poll").row(given.row)
    copy.add("poll", **(again | {"op": op, "position": position, "time_ns": time_ns, "txn": None}))


def _last_given(contents: RunContents) -> Given:
    """Return a plain record that was the last that its consumer received of a partition."""
    ends = (lane[-1] for lane, breaks in _lanes(contents) if _is_calm(contents, breaks, lane[-1:]))
    return first_of(ends, "no consumer's last record of a partition is plainly in order")


def _lanes(contents: RunContents) -> Iterator[tuple[list[Given], Breaks]]:
    """Yield what each consumer was given of each partition, in order; assigned ones first.

    With what happened to the consumer meanwhile. Not of partitions with an anomaly of polls, nor of
    read_uncommitted consumers, whose polls of undecided transactions do not count.
    """
    polls, events = contents.rows("poll"), contents.rows("event")
    breaking = events.among("f", "rebalance", *RESETS)
    columns = ("process", "topic", "partition")
    lanes = polls.table.group_by(columns).aggregate([]).select(columns).to_pylist()
    by_lane = [(lane["process"], (lane["topic"], lane["partition"])) for lane in lanes]
    for process, tp in sorted(by_lane, key=lambda lane: (lane[0] in contents.run.subscribed, lane)):
        if process in contents.run.uncommitted or contents.has_any(_POLL_ANOMALIES, tp):
            continue
        chosen = contents.in_partition("poll", tp) & polls.among("process", process)
        cells = polls.cells(chosen, "time_ns", "op", "position", "offset", "value")
        lane = [
            Given(
                row=row, process=process, topic_partition=tp, op=op, offset=offset, value=value,
                time_ns=time_ns,
            )
            for row, time_ns, op, _, offset, value in sorted(cells, key=itemgetter(1, 2, 3))
        ]  # fmt: skip
        met = events.cells(breaking & events.among("process", process), "f", "op", "time_ns")
        yield lane, [(f, op, time_ns) for _, f, op, time_ns in met]


def _is_calm(contents: RunContents, breaks: Breaks, given: Sequence[Given]) -> bool:
    """Tell whether records that a consumer was given are plain, and nothing came between them.

    Neither a reset, from the first of them until right after the last, nor a rebalance in a poll.
    """
    polls = {record.op for record in given}
    between = range(given[0].time_ns, given[-1].time_ns + 2)
    return all(record.value in contents.by_value for record in given) and not any(
        op in polls if f == "rebalance" else time_ns in between for f, op, time_ns in breaks
    )


def _neighbours(contents: RunContents, *, in_txn: bool) -> Iterator[tuple[Record, Record]]:
    """Yield two plain records that a producer sent to a partition one after the other.

    Both are of one transaction, or neither is of any.
    """
    sends, events = contents.rows("send"), contents.rows("event")
    unplaced = contents.sent & (sends.numbers("partition") == NONE)
    tainted = {
        *sends.numbers("process")[unplaced].tolist(),
        # Rebuilt after an error.
        *events.numbers("process")[events.among("f", "error")].tolist(),
        *(row.process for row in contents.found if row.anomaly.endswith("nonmonotonic-send")),
    }
    calm = contents.sent & ~sends.among("process", *(tainted - {None}))
    cells = sends.cells(calm, "process", "topic", "partition", "op", "value")
    for lane in by_key(cells, itemgetter(1, 2, 3)).values():
        values = [value for *_, value in sorted(lane, key=itemgetter(4))]
        pairs = list(pairwise(map(contents.by_value.get, values)))
        middle = len(pairs) // 2
        for first, second in pairs[middle:] + pairs[:middle]:
            if (
                first is not None
                and second is not None
                and first.offset < second.offset
                and first.txn == second.txn
                and (first.txn is not None) == in_txn
            ):
                yield first, second
