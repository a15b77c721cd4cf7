"""Plants of records that were polled or sent out of order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from verifiers.checking.polling import RESETS
from verifiers.planting.plant import Planted, offence_at, offence_of, plant, planted
from verifiers.planting.run_contents import (
    NONE,
    NothingToPlant,
    Numbers,
    Offence,
    Record,
    RunContents,
)
from verifiers.planting.run_copy import RunCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record as a consumer was given it: its row among the polls, and what stands there."""

    row: int
    process: int
    topic: str
    partition: int
    op: int
    position: int
    offset: int
    value: int
    time_ns: int


@plant("nonmonotonic-poll")
def nonmonotonic_poll(copy: RunCopy) -> Planted:
    """Give a consumer its last record of a partition once more, in a poll of its own."""
    last = _last_given(copy.contents)
    _give_again(copy, last, op=last.op + (1 << 30), position=0, time_ns=last.time_ns + 1)
    return planted(
        f"process {last.process} was given its last record of {_name(last)} again",
        _turn("nonmonotonic-poll", last, kind=_mode(copy.contents, last)),
    )


@plant("int-nonmonotonic-poll")
def int_nonmonotonic_poll(copy: RunCopy) -> Planted:
    """Give a consumer its last record of a partition twice in one poll."""
    last = _last_given(copy.contents)
    polls = copy.contents.rows("poll")
    same_poll = (polls.numbers("process") == last.process) & (polls.numbers("op") == last.op)
    position = int(polls.numbers("position")[same_poll].max()) + 1
    _give_again(copy, last, op=last.op, position=position, time_ns=last.time_ns)
    return planted(
        f"process {last.process} was given its last record of {_name(last)} twice in a poll",
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
    for before, record, after in _in_order(copy.contents):
        if (before.op == after.op) == one_poll:
            copy.drop_row("poll", record.row)
            between = ", between two others of one poll" if one_poll else ""
            kind = None if one_poll else _mode(copy.contents, after)
            return planted(
                f"process {record.process} was not given {_name(record)} @{record.offset}{between}",
                _turn(anomaly, after, kind=kind, skipped=1),
            )
    raise NothingToPlant(lacking)


@plant("nonmonotonic-send")
def nonmonotonic_send(copy: RunCopy) -> Planted:
    """Let two neighbouring records of a producer change places, wherever they were seen."""
    return _reversed(copy, "nonmonotonic-send", in_txn=False)


@plant("int-nonmonotonic-send")
def int_nonmonotonic_send(copy: RunCopy) -> Planted:
    """Let two neighbouring records of a transaction change places, wherever they were seen."""
    return _reversed(copy, "int-nonmonotonic-send", in_txn=True)


def _reversed(copy: RunCopy, anomaly: str, *, in_txn: bool) -> Planted:
    first, second = _neighbours(copy.contents, in_txn=in_txn)
    for record, other in ((first, second), (second, first)):
        copy.put("send", copy.contents.of_value("send", [record.value]), offset=other.offset)
        for dataset in ("poll", "final"):
            copy.put(dataset, copy.contents.of_value(dataset, [record.value]), value=other.value)
    return planted(
        f"process {first.process} finds @{first.offset} and @{second.offset} of "
        f"{first.topic}/{first.partition} reversed",
        offence_of(
            anomaly, second, offset=first.offset, kind="order",
            detail={"after_value": str(first.value), "after_offset": str(second.offset)},
        ),
    )  # fmt: skip


def _turn(anomaly: str, given: Given, *, kind: str | None = None, skipped: int = 0) -> Offence:
    tp, detail = ((given.topic, given.partition), {"skipped": str(skipped)} if skipped else {})
    return offence_at(
        anomaly, tp, given.offset, given.value, given.process, kind=kind, detail=detail
    )


def _name(given: Given) -> str:
    return f"{given.topic}/{given.partition}"


def _mode(contents: RunContents, given: Given) -> str:
    return "subscribe" if given.process in contents.run.subscribed else "assign"


def _give_again(copy: RunCopy, given: Given, *, op: int, position: int, time_ns: int) -> None:
    again = copy.contents.rows("poll").row(given.row)
    copy.add("poll", **(again | {"op": op, "position": position, "time_ns": time_ns, "txn": None}))


def _lanes(contents: RunContents) -> Iterator[list[Given]]:
    """Yield what each consumer was given of each partition, in order; assigned ones first.

    Not of read_uncommitted ones, whose polls of undecided transactions do not count.
    """
    polls = contents.rows("poll")
    names = ("process", "partition", "time_ns", "op", "position", "offset", "value")
    columns = [polls.numbers(name) for name in names]
    topics = polls.words("topic").astype(str)
    order = np.lexsort((columns[4], columns[3], columns[2], columns[1], topics, columns[0]))
    lanes: dict[tuple[int, str, int], list[int]] = {}
    for row in order.tolist():
        key = (int(columns[0][row]), str(topics[row]), int(columns[1][row]))
        lanes.setdefault(key, []).append(row)
    chosen = [key for key in lanes if key[0] not in contents.run.uncommitted]
    for key in sorted(chosen, key=lambda key: (key[0] in contents.run.subscribed, key)):
        yield [
            Given(
                row=row, topic=key[1],
                **{name: int(column[row]) for name, column in zip(names, columns, strict=True)},
            )
            for row in lanes[key]
        ]  # fmt: skip


def _last_given(contents: RunContents) -> Given:
    """Return a plain record that was the last that its consumer received of a partition."""
    for lane in _lanes(contents):
        last = lane[-1]
        if (
            last.value in contents.by_value
            and not contents.has_any(_POLL_ANOMALIES, (last.topic, last.partition))
            and not _is_disturbed(contents, last.process, last.time_ns, last.time_ns + 1, {last.op})
        ):
            return last
    raise NothingToPlant("no consumer's last record of a partition is plainly in order")


_POLL_ANOMALIES = ("nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip")


def _in_order(contents: RunContents) -> Iterator[tuple[Given, Given, Given]]:
    """Yield three consecutive plain records that a consumer received in order, without a reset."""
    for lane in _lanes(contents):
        if not lane or contents.has_any(_POLL_ANOMALIES, (lane[0].topic, lane[0].partition)):
            continue
        resets = _resets(contents, lane[0].process)
        moved = _moved(contents, lane[0].process)
        for before, record, after in zip(lane, lane[1:], lane[2:], strict=False):
            if (
                before.offset + 1 == record.offset == after.offset - 1
                and all(given.value in contents.by_value for given in (before, record, after))
                and not moved & {before.op, record.op, after.op}
                and not ((resets >= before.time_ns) & (resets <= after.time_ns)).any()
            ):
                yield before, record, after


def _resets(contents: RunContents, process: int) -> Numbers:
    events = contents.rows("event")
    resets = (events.numbers("process") == process) & np.isin(
        events.words("f").astype(str), list(RESETS)
    )
    times: Numbers = events.numbers("time_ns")[resets]
    return times


def _moved(contents: RunContents, process: int) -> set[int]:
    events = contents.rows("event")
    rebalances = (events.numbers("process") == process) & (events.words("f") == "rebalance")
    return set(events.numbers("op")[rebalances].tolist())


def _is_disturbed(
    contents: RunContents, process: int, from_ns: int, to_ns: int, ops: set[int]
) -> bool:
    resets = _resets(contents, process)
    between = (resets >= from_ns) & (resets <= to_ns)
    return bool(between.any()) or bool(_moved(contents, process) & ops)


def _neighbours(contents: RunContents, *, in_txn: bool) -> tuple[Record, Record]:
    """Return two plain records that a producer sent to a partition one after the other.

    Both are of one transaction, or neither is of any.
    """
    sends, events = contents.rows("send"), contents.rows("event")
    counted = (sends.words("type") == "ok") | (sends.words("type") == "info")
    unplaced: set[int] = set(
        sends.numbers("process")[counted & (sends.numbers("partition") == NONE)].tolist()
    )
    rebuilt: set[int] = set(events.numbers("process")[events.words("f") == "error"].tolist())
    tainted = {
        row.process
        for row in contents.found
        if row.anomaly.endswith("nonmonotonic-send") and row.process is not None
    }
    calm = counted & ~np.isin(
        sends.numbers("process"), np.array(sorted(unplaced | rebuilt | tainted), dtype=np.int64)
    )
    lanes: dict[tuple[int, str, int], list[tuple[int, int]]] = {}
    topics = sends.words("topic")
    for row in np.flatnonzero(calm).tolist():
        key = (
            int(sends.numbers("process")[row]),
            str(topics[row]),
            int(sends.numbers("partition")[row]),
        )
        lanes.setdefault(key, []).append((int(sends.numbers("op")[row]), row))
    for lane in lanes.values():
        pairs = list(pairwise(sorted(lane)))
        middle = len(pairs) // 2
        for (_, one), (_, other) in pairs[middle:] + pairs[:middle]:
            first, second = (
                contents.by_value.get(int(sends.numbers("value")[row])) for row in (one, other)
            )
            if (
                first is not None
                and second is not None
                and first.offset < second.offset
                and first.txn == second.txn
                and (first.txn is not None) == in_txn
            ):
                return first, second
    within = " in one transaction" if in_txn else ""
    raise NothingToPlant(
        f"no producer sent two plain records to a partition one after the other{within}"
    )
