"""Op histories in JSON lines (docs/op-history.md): written while clients work, and merged."""

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from harness.core.clock import clock_name
from harness.core.errors import UsageError

Event = dict[str, Any]
"""One line of an op history."""

PROCESS_BITS = 20
"""A recording's ops are of processes `recording << 20 | n`."""
UNKNOWN_PARTITION = "?"
"""Stands in a key for the number of a partition that the recorder could not learn."""
NAMES = "names"
"""The field of an invocation that says, by value in decimal digits, how a user knows the record."""
_MARK = "recorder"


def key_of(topic: str, partition: int | None) -> str:
    """Return the key of a partition in an op history; of an unknown one for None."""
    return f"{topic}-{UNKNOWN_PARTITION if partition is None else partition}"


class OpHistoryFile:
    """An op history that is being written, by any number of threads.

    A line is handed to the operating system before `write` returns, so the death of the process
    loses none; that of the machine may.

    Attributes:
        path: the file.
        recording: the number that keeps processes and values of several files apart.
        lock: held while lines are written; it may be held longer to write in a certain order.
        foreign: how many records without an identity were read, by topic.
    """

    def __init__(self, path: Path, recording: int) -> None:
        """Begin a history.

        Raises:
            UsageError: the file exists, or cannot be made.
        """
        self.path, self.recording = path, recording
        self.lock = threading.RLock()
        self.foreign: Counter[str] = Counter()
        self._lines = self._processes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        try:
            self._file: int | None = os.open(path, flags, 0o644)
        except OSError as error:
            raise UsageError(
                f"The history {path} cannot be begun ({error.strerror}): a recorder needs a new "
                "file in a folder that exists."
            ) from error
        self._mark(clock=clock_name(), recording=recording)

    @property
    def closed(self) -> bool:
        """Whether nothing more is written."""
        return self._file is None

    def new_process(self) -> int:
        """Return the number of a process that has no op yet."""
        with self.lock:
            self._processes += 1
            return self.recording << PROCESS_BITS | (self._processes - 1)

    def write(self, *events: Event) -> None:
        """Append events, in this order and with no other between; now is the time of those without.

        Raises:
            UsageError: the history is closed.
        """
        with self.lock:
            if self._file is None:
                raise UsageError(
                    f"The history {self.path} is closed, and a client that it records is still "
                    "used: close the recorder when its clients are."
                )
            now = time.monotonic_ns()
            events = tuple(
                {"index": self._lines + n, "time": now, **event} for n, event in enumerate(events)
            )
            data = memoryview(b"".join(map(_line, events)))
            while data:
                data = data[os.write(self._file, data) :]
            self._lines += len(events)

    def close(self) -> None:
        """End the history; more than once is as good as once."""
        with self.lock:
            if self._file is not None:
                self._mark(foreign=dict(self.foreign))
                os.close(self._file)
                self._file = None

    def _mark(self, **facts: object) -> None:
        # What a verifier passes over: it speaks of the file, not of a client.
        self.write({"process": "nemesis", "type": "info", "f": _MARK, "value": facts})


def pair(process: int, f: str, asked: object, value: object, **more: object) -> tuple[Event, Event]:
    """Return the invocation of an op, and its completion as ok with `value`; `more` is of both."""
    common = {"process": process, "f": f, **more}
    return (
        {**common, "type": "invoke", "value": asked},
        {**common, "type": "ok", "value": value},
    )


def merge(paths: Sequence[Path | str], into: Path | str) -> Path:
    """Write one op history of what recorders have recorded, in the order of time; return its path.

    The sends of a producer become ops of one process in the order in which they were made, so that
    their order can be judged; those of a transaction become one op. This is sound, for nothing
    depends on when a send was acknowledged: without a poll in it, an op is in no cycle that it is
    not in if it ends at once. Half a line at the end, which a process leaves that is killed while
    it writes, is left out. All lines are held in memory.

    Args:
        paths: files of recorders, also of processes that were killed, and merged histories.
        into: the file to write; it may be one of `paths`.

    Raises:
        UsageError: a file cannot be read, has a line that is no event, or was recorded on another
            machine, or before this one was started, so that times cannot be compared.
    """
    recorded = [_Recorded.read(Path(path)) for path in paths]
    if len({clock for file in recorded for clock in file.clocks}) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))} were recorded by different clocks, whose times cannot "
            "be compared: merge what one machine recorded since it was started."
        )
    ops = [op for file in recorded for op in file.ops]
    _find_partitions(ops)
    events = [*_timed_events(ops), *((at, (mark,)) for file in recorded for at, mark in file.marks)]
    # Sorting is stable: what has one time stays in the order of its file.
    ordered = (event for _, group in sorted(events, key=itemgetter(0)) for event in group)
    return write_history(ordered, Path(into))


def names_in(path: Path, values: Collection[int]) -> dict[int, str]:
    """Return how the user of a recorder knows the records that some values stand for.

    Args:
        path: an op history.
        values: those of interest; one whose record has no name is left out.
    """
    wanted = {str(value) for value in values}
    found: dict[int, str] = {}
    with path.open("rb") as lines:
        # Most lines have none: they need not be parsed.
        for line in lines:
            if f'"{NAMES}":'.encode() in line:
                names = orjson.loads(line).get(NAMES, {})
                found |= {int(value): names[value] for value in wanted & names.keys()}
    return found


def write_history(events: Iterable[Event], path: Path) -> Path:
    """Write events as an op history, numbered in their order, and put it in place as a whole."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.writelines(_line({**event, "index": n}) for n, event in enumerate(events))
    return fresh.replace(path)


@dataclass(slots=True)
class _RecordedOp:
    """An op as it was recorded; `end` is None if it never completed."""

    begin: Event
    end: Event | None = None

    @property
    def outcome(self) -> str:
        return "info" if self.end is None else self.end["type"]

    @property
    def end_ns(self) -> int:
        return int((self.end or self.begin)["time"])

    def sends(self) -> list[list[Any]]:
        """Return the micro-ops of its completion, or of its invocation if there is none."""
        return (self.end or self.begin)["value"] or []


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The ops of one file in the order of their invocations, and its marks with their times."""

    ops: list[_RecordedOp]
    marks: list[tuple[int, Event]]

    @property
    def clocks(self) -> set[str]:
        return {mark["value"]["clock"] for _, mark in self.marks if "clock" in mark["value"]}

    @classmethod
    def read(cls, path: Path) -> "_Recorded":
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise UsageError(f"The history {path} cannot be read: {error.strerror}.") from error
        recorded = cls([], [])
        under_way: dict[int, _RecordedOp] = {}
        # The last piece is empty, or half a line.
        for number, line in enumerate(lines[:-1], 1):
            try:
                event = orjson.loads(line)
                process, time_ns = event["process"], int(event["time"])
                if event["f"] == _MARK:
                    recorded.marks.append((time_ns, event))
                elif event["type"] == "invoke":
                    under_way[process] = op = _RecordedOp(event)
                    recorded.ops.append(op)
                else:
                    under_way.pop(process).end = event
            except (ValueError, KeyError, TypeError) as error:
                raise UsageError(
                    f"{path}, line {number}, is nothing that a recorder wrote ({error!r})."
                ) from error
        return recorded


def _timed_events(ops: Sequence[_RecordedOp]) -> Iterator[tuple[int, tuple[Event, ...]]]:
    """Yield events that stay together, and the time that orders them."""
    transactions: dict[tuple[int, int], list[_RecordedOp]] = defaultdict(list)
    for op in ops:
        if "txn" in op.begin:
            transactions[op.begin["producer"], op.begin["txn"]].append(op)
        elif op.begin["f"] == "txn":
            yield op.begin["time"], (op.begin,)
            if op.end is not None:
                yield op.end_ns, (op.end,)
        elif "producer" in op.begin:
            yield op.begin["time"], _at_once(op, op.begin["producer"])
        else:
            # A poll may be recorded as if it took no time: it was given what it was given.
            yield op.end_ns, (op.begin, op.end) if op.end else (op.begin,)
    for (producer, _), sends in transactions.items():
        yield from _transaction_events(producer, sends)


def _transaction_events(
    producer: int, sends: Sequence[_RecordedOp]
) -> Iterator[tuple[int, tuple[Event, ...]]]:
    outcome = min((op.outcome for op in sends), key=("ok", "info", "fail").index)
    alike = [op for op in sends if op.outcome == outcome]
    # Such as a record that librdkafka did not take, in a transaction that was committed.
    for op in sends:
        if op.outcome != outcome:
            yield op.begin["time"], _at_once(op, op.begin["process"])
    head = {"process": producer, "f": "txn", "producer": producer}
    asked = [mop for op in alike for mop in op.begin["value"]]
    begin = {**head, "time": alike[0].begin["time"], "type": "invoke", "value": asked}
    if names := {value: n for op in alike for value, n in op.begin.get(NAMES, {}).items()}:
        begin[NAMES] = names
    yield begin["time"], (begin,)
    if all(op.end is not None for op in alike):
        end_ns = max(op.end_ns for op in alike)
        done = [mop for op in alike for mop in op.sends()]
        error = next((op.end["error"] for op in alike if op.end and "error" in op.end), None)
        yield end_ns, ({**head, "time": end_ns, "type": outcome, "value": done, "error": error},)


def _at_once(op: _RecordedOp, process: int) -> tuple[Event, Event]:
    """Return the two events of a send; one that never completed ends as info."""
    unknown = {**op.begin, "type": "info", "error": "never completed"}
    begin, end = {**op.begin, "process": process}, {**(op.end or unknown), "process": process}
    for event in (begin, end):
        event.pop("txn", None)
    return begin, end


def _find_partitions(ops: Sequence[_RecordedOp]) -> None:
    """Name the partitions of sends that are not known, by where their values were read."""
    places: dict[tuple[str, int], str] = {}
    unplaced = [
        mop
        for op in ops
        if op.begin["f"] in ("send", "txn")
        for event in (op.begin, op.end)
        for mop in (event["value"] if event else ())
        if mop[0] == "send" and mop[1].endswith(f"-{UNKNOWN_PARTITION}")
    ]
    if not unplaced:
        return
    wanted = {mop[2] if isinstance(mop[2], int) else mop[2][1] for mop in unplaced}
    for op in ops:
        if op.begin["f"] == "poll" and op.end is not None:
            for _, polled in op.end["value"]:
                for key, records in polled.items():
                    for _, value in records:
                        if value in wanted:
                            places.setdefault((key.rpartition("-")[0], value), key)
    for mop in unplaced:
        value = mop[2] if isinstance(mop[2], int) else mop[2][1]
        mop[1] = places.get((mop[1].rpartition("-")[0], value), mop[1])


def _line(event: Mapping[str, Any]) -> bytes:
    return orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
