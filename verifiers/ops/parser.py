"""The parser of op histories: every line is checked against the format and turned into rows."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from verifiers.ops import schema

COMPLETIONS = ("ok", "fail", "info")
WITH_MOPS: Final = {"send": ("send",), "poll": ("poll",), "txn": ("send", "poll")}
"""The micro-ops that each f may hold."""

WITH_KEYS = ("assign", "subscribe")
_KNOWN = (*WITH_MOPS, *WITH_KEYS, "crash")
IGNORED = ("debug-topic-partitions",)
MOST_PROBLEMS = 8
"""So many problems of a split are described."""

IN_FLIGHT = (
    "invokes an op of process %d, whose op of index %d is not completed: a process has one op in "
    "flight"
)
NOT_INVOKED = "completes an op of process %d that was not invoked, or is completed already"
OF_ANOTHER_F = "completes a %s of process %d, which invoked a %s at index %d"

_LIMIT = 1 << 63
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_SHOWN = 80

Row = tuple[Any, ...]
"""The columns of OP_COLUMNS."""

OP_COLUMNS = (
    "row", "line", "op", "invoked", "process", "type", "f", "invoke_ns", "complete_ns",
    "keys", "rebalanced", "error",
)  # fmt: skip

STRETCH_COLUMNS = (
    "row", "op", "invoked", "process", "type", "f", "mop", "position", "kind", "key", "offset",
    "value",
)  # fmt: skip
"""A stretch are consecutive values of one micro-op and key, with what they have in common.

`position` is that of the first, offset and value are sequences.
"""

_KIND = STRETCH_COLUMNS.index("kind")
_Head = tuple[int, int, int | None, int, str, str]
"""The first columns of a stretch, which the values of an op have in common."""


class Malformed(ValueError):
    """A line that is no event of an op history; says what is wrong with it."""


class Parser:
    """Parses the lines of one split, in order.

    Args:
        first: whether it is the first split of its file, so that nothing lies before it.
        last: whether it is the last one, so that an op that is open at its end never completes.

    Attributes:
        ops: rows that are no values, in OP_COLUMNS; whoever reads them may clear them.
        mops: the values, as stretches; whoever reads them may clear them, too.
        problems: how many lines have one.
    """

    def __init__(self, *, first: bool, last: bool = False) -> None:
        self.ops: list[Row] = []
        self.mops: list[Row] = []
        self.problems = 0
        self._described: list[tuple[int, str]] = []
        self._first = first
        self._is_last = last
        self._line = 0
        self._first_index: int | None = None
        self._last = -1
        self._open: dict[int, tuple[int, int | None, str, object, int]] = {}
        self._seen: set[int] = set()
        self._keys: dict[str, str] = {}
        self._integers: dict[int, str] = {}
        self._key_lines: dict[str, int] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def feed(self, lines: list[bytes]) -> None:
        """Parse some lines; blank ones only count."""
        for line in lines:
            try:
                if line and not line.isspace():
                    self._take(line)
            except Malformed as error:
                self._note(str(error))
            self._line += 1

    def finish(self) -> None:
        """Add the ops that are open at the end of the split."""
        lines = self._line
        of_op, of_mop = (schema.OP, schema.MOP) if self._is_last else (schema.OPEN, schema.OPEN_MOP)
        for process, (index, time, f, value, line) in self._open.items():
            self._line = line
            try:
                mops = self._mops(f, value, (of_mop, index, index, process, "info", f))
                keys = self._assigned(value) if f in WITH_KEYS else None
            except Malformed as error:
                self._note(str(error))
                continue
            # It is unknown what it polled.
            sends = [mop for mop in mops if mop[_KIND] == "send"]
            self.mops += sends
            common = (of_op, self._line, index, index, process, "info", f, time)
            self.ops.append((*common, None, keys, None, None))
            if self._is_last:
                self._counts["open", "info"] += 1
                self._counts["pending", "info"] += len(sends)
        self._line = lines

    def summary(self) -> dict[str, Any]:
        """Return what there is to tell of the split as a whole; lines count from 0.

        Returns:
            lines: how many there are.
            first, last: its first and last index; None without events.
            problems: pairs of a line and what is wrong with it, at most MOST_PROBLEMS.
            problem_count: how many lines have one.
            keys: the first line that takes keys for integers (int) or strings (str).
            counts: triples of what, type and how many: of completed ops (op) and their values
                (send, poll); of ops that never complete (open), and values that these may have
                sent (pending).
        """
        return {
            "lines": self._line,
            "first": self._first_index,
            "last": None if self._first_index is None else self._last,
            "problems": self._described,
            "problem_count": self.problems,
            "keys": self._key_lines,
            "counts": [(*counted, number) for counted, number in self._counts.items()],
        }

    def _note(self, sentence: str) -> None:
        self.problems += 1
        if self.problems <= MOST_PROBLEMS:
            self._described.append((self._line, sentence))

    def _take(self, line: bytes) -> None:
        event = _event(line)
        index, process = event.get("index"), event.get("process")
        self._in_order(index)
        f = event.get("f")
        if process == "nemesis" or f in IGNORED:
            return
        if type(process) is not int or not -_LIMIT <= process < _LIMIT:
            raise Malformed(f"has no process, a whole number, but {_json(process)}")
        time = event.get("time")
        if time is not None and (type(time) is not int or time >= _LIMIT):
            raise Malformed(f"has a time that is no whole number of nanoseconds: {_json(time)}")
        if not isinstance(f, str) or f not in _KNOWN:
            raise Malformed(f"has f {_json(f)}: none of {', '.join(_KNOWN)}")
        kind = event.get("type")
        if kind == "invoke":
            self._invoke(event, time)
        elif kind in COMPLETIONS:
            self._complete(event, time)
        else:
            raise Malformed(f"has type {_json(kind)}: none of invoke, ok, fail, info")

    def _in_order(self, index: object) -> None:
        if type(index) is not int or not 0 <= index < _LIMIT:
            raise Malformed(f"has no index, a whole number from 0 on, but {_json(index)}")
        if index <= self._last:
            raise Malformed(f"has index {index} after {self._last}: indices must rise line by line")
        if self._first_index is None:
            self._first_index = index
        self._last = index

    def _invoke(self, event: Mapping[str, Any], time: int | None) -> None:
        index, process, f = event["index"], event["process"], event["f"]
        if process in self._open:
            raise Malformed(IN_FLIGHT % (process, self._open[process][0]))
        if process not in self._seen:
            self._seen.add(process)
            if not self._first:
                row = (schema.BEGIN, self._line, index, index, process, "info", f, time)
                self.ops.append((*row, None, None, None, None))
        self._open[process] = (index, time, f, event.get("value"), self._line)

    def _complete(self, event: Mapping[str, Any], time: int | None) -> None:
        index, process = event["index"], event["process"]
        kind, f, value = event["type"], event["f"], event.get("value")
        invoked = self._open.pop(process, None)
        if invoked is None and (process in self._seen or self._first):
            raise Malformed(NOT_INVOKED % process)
        self._seen.add(process)
        if invoked is not None and invoked[2] != f:
            raise Malformed(OF_ANOTHER_F % (f, process, invoked[2], invoked[0]))
        before = None if invoked is None else invoked[0]
        mops = self._mops(f, value, (schema.MOP, index, before, process, kind, f))
        for mop in mops:
            self._counts[mop[_KIND], kind] += len(mop[-1])
        self.mops += mops
        self._counts["op", kind] += 1
        keys = self._assigned(value) if f in WITH_KEYS else None
        log = event.get("rebalance-log")
        rebalanced = None if log is None else self._rebalanced(log)
        error = event.get("error")
        reason = None if error is None else error if isinstance(error, str) else _json(error)
        common = (process, kind, f, None if invoked is None else invoked[1], time)
        row = (schema.OP, None) if invoked else (schema.ORPHAN, self._line)
        self.ops.append((*row, index, before, *common, keys, rebalanced, reason))

    def _mops(self, f: str, value: object, head: _Head) -> list[Row]:
        if f not in WITH_MOPS:
            return []
        if not isinstance(value, list):
            raise Malformed(f"has no list of micro-ops as its value, but {_json(value)}")
        stretches: list[Row] = []
        position = 0
        for number, mop in enumerate(value):
            name = mop[0] if isinstance(mop, list) and mop else None
            if name not in WITH_MOPS[f]:
                raise Malformed(f"has, in a {f}, the micro-op {_json(mop)}")
            if name == "send":
                stretches.append((*head, number, position, "send", *self._send(mop)))
                position += 1
            elif len(mop) > 1 and mop[1] is not None:
                for key, offsets, values in self._poll(mop):
                    stretches.append((*head, number, position, "poll", key, offsets, values))
                    position += len(values)
        return stretches

    def _send(self, mop: list[Any]) -> tuple[str, Sequence[int | None], Sequence[int]]:
        if len(mop) != 3:
            raise Malformed(f'has {_json(mop)}: a send is ["send", key, value]')
        key, offset, sent = self._key(mop[1]), None, mop[2]
        if isinstance(sent, list) and len(sent) == 2:
            offset, sent = sent
            if offset is not None and (type(offset) is not int or not 0 <= offset < _LIMIT):
                raise Malformed(f"has an offset that is none: {_json(mop)}")
        if type(sent) is not int or not -_LIMIT <= sent < _LIMIT:
            raise Malformed(f"has a value that is no integer of 64 bits: {_json(mop)}")
        return key, (offset,), (sent,)

    def _poll(self, mop: list[Any]) -> Iterator[tuple[str, Sequence[int], Sequence[int]]]:
        if len(mop) != 2 or not isinstance(mop[1], dict):
            raise Malformed(f'has {_json(mop)}: a poll is ["poll", {{key: [[offset, value], …]}}]')
        for name, pairs in mop[1].items():
            key = self._keys.get(name) or self._name(name)
            if pairs or not isinstance(pairs, list):
                yield key, *_polled(name, pairs)

    def _key(self, key: object) -> str:
        if type(key) is int:
            known = self._integers.get(key)
            if known is None:
                known = self._integers[key] = str(key)
                self._key_lines.setdefault("int", self._line)
            return known
        if isinstance(key, str):
            self._key_lines.setdefault("str", self._line)
            return self._keys.setdefault(key, key)
        raise Malformed(f"has the key {_json(key)}: a key is a whole number or a string")

    def _name(self, name: str) -> str:
        # Names in JSON are strings: only a name that is no number shows that keys are strings.
        if _INTEGER.fullmatch(name) is None:
            self._key_lines.setdefault("str", self._line)
        return self._keys.setdefault(name, name)

    def _assigned(self, value: object) -> list[str]:
        if not isinstance(value, list):
            raise Malformed(f"has no list of keys as its value, but {_json(value)}")
        return [self._key(key) for key in value]

    def _rebalanced(self, log: object) -> list[str]:
        if not isinstance(log, list) or not all(isinstance(entry, dict) for entry in log):
            raise Malformed(f"has a rebalance-log that is no list of {{keys: […]}}: {_json(log)}")
        keys = {key for entry in log for key in self._assigned(entry.get("keys"))}
        return sorted(keys)


def _polled(name: str, pairs: Any) -> tuple[Sequence[int], Sequence[int]]:  # noqa: ANN401  (JSON)
    """Return the offsets and the values that were polled of a key."""
    try:
        offsets, values = zip(*pairs, strict=True)
    except (TypeError, ValueError):
        raise Malformed(
            f"polled {_json(pairs)} of key {name}: not a list of [offset, value]"
        ) from None
    # Whole columns are checked at once, because most of a history are polled values.
    if (
        set(map(type, offsets)) | set(map(type, values)) == {int}
        and 0 <= min(offsets) <= max(offsets) < _LIMIT
        and -_LIMIT <= min(values) <= max(values) < _LIMIT
    ):
        return offsets, values
    for pair, offset, value in zip(pairs, offsets, values, strict=True):
        if type(value) is not int or not -_LIMIT <= value < _LIMIT:
            raise Malformed(
                f"polled a value that is no integer of 64 bits: {_json(pair)} of key {name}"
            )
        if type(offset) is not int or not 0 <= offset < _LIMIT:
            raise Malformed(f"polled at no offset: {_json(pair)} of key {name}")
    return offsets, values


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"is not JSON ({error}): {_shown(line)}") from None
    if not isinstance(event, dict):
        raise Malformed(f"is no event, which is a JSON object: {_shown(line)}")
    return event


def _json(value: object) -> str:
    return _shown(orjson.dumps(value))


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
