"""The anomalies of an op history in plain Python: slow, and as near to their definitions as can be.

Tests only. Where several values lie at one offset, the lowest takes the place in the version order,
as in the verifier (the definitions leave the choice open).
"""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Offence = tuple[str | None, int | None, int | None]
"""Key, value, op."""


@dataclass(slots=True, kw_only=True)
class Done:
    """One op, completed."""

    op: int
    process: int
    type: str
    f: str
    sends: list[tuple[str, int | None, int]] = field(default_factory=list)
    polls: list[tuple[str, int, int]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    rebalanced: set[str] = field(default_factory=set)


def ops_of(events: Iterable[dict[str, Any]]) -> list[Done]:
    """Return the ops of a history in the order of their completions; those that never did last."""
    done = []
    open_: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["type"] == "invoke":
            open_[event["process"]] = event
            continue
        del open_[event["process"]]
        done.append(_op(event, event["type"]))
    for event in open_.values():
        never = _op(event, "info")
        never.polls = []
        done.append(never)
    return done


def _op(event: dict[str, Any], kind: str) -> Done:
    op = Done(op=event["index"], process=event["process"], type=kind, f=event["f"])
    if op.f in ("assign", "subscribe"):
        op.keys = [str(key) for key in event["value"]]
    if op.f in ("send", "poll", "txn"):
        for mop in event["value"]:
            if mop[0] == "send":
                known = mop[2] if isinstance(mop[2], list) else [None, mop[2]]
                op.sends.append((str(mop[1]), known[0], known[1]))
            elif len(mop) > 1:
                op.polls += [(k, o, v) for k, pairs in mop[1].items() for o, v in pairs]
    for entry in event.get("rebalance-log", []):
        op.rebalanced |= {str(key) for key in entry["keys"]}
    return op


class Reference:
    """All anomalies of one history but cycles."""

    def __init__(self, events: Iterable[dict[str, Any]]) -> None:
        self.ops = ops_of(events)
        self.found: dict[str, list[Offence]] = defaultdict(list)
        self.read_ok = {
            (k, v): op.op for op in reversed(self.ops) if op.type == "ok" for k, _, v in op.polls
        }
        self.writer: dict[tuple[str, int], Done] = {}
        for op in sorted(self.ops, key=lambda op: op.op):
            for k, _, v in op.sends:
                self.writer[k, v] = op
        self._lay_out()
        self._values()
        self._reads()
        self._order()

    def committed(self, op: Done) -> bool:
        seen = any((k, v) in self.read_ok for k, _, v in op.sends)
        return op.type == "ok" or (op.type == "info" and seen)

    def _lay_out(self) -> None:
        log: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for op in self.ops:
            for k, o, v in op.polls:
                log[k][o].add(v)
            for k, offset, v in op.sends:
                if offset is not None and self.committed(op):
                    log[k][offset].add(v)
        self.log = {k: sorted((o, sorted(vs)) for o, vs in at.items()) for k, at in log.items()}
        self.places: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.by_value: dict[tuple[str, int], int] = {}
        for k, slots in self.log.items():
            for index, (_, values) in enumerate(slots):
                self.by_value[k, values[0]] = index
                for v in values:
                    self.places[k, v].append(index)

    def _values(self) -> None:
        for k, slots in self.log.items():
            for _, values in slots:
                if len(values) > 1:
                    self.found["inconsistent-offsets"].append((k, values[-1], None))
        for (k, v), places in self.places.items():
            writer = self.writer.get((k, v))
            if len(places) > 1:
                shown_by = writer.op if writer else self.read_ok.get((k, v))
                if writer and writer.type == "fail":
                    shown_by = self.read_ok.get((k, v), writer.op)
                self.found["duplicate"].append((k, v, shown_by))
            if writer is None:
                self.found["phantom"].append((k, v, self.read_ok.get((k, v))))
            bound = max(
                (self.places[key, w][0] for key, w in self.read_ok if key == k), default=None
            )
            if (
                bound is not None
                and places[-1] <= bound
                and (k, v) not in self.read_ok
                and writer is not None
                and self.committed(writer)
            ):
                self.found["lost-write"].append((k, v, writer.op))
        acked = {(k, v) for op in self.ops if op.type == "ok" for k, _, v in op.sends}
        for k, v in acked - set(self.read_ok):
            self.found["unseen"].append((k, v, self.writer[k, v].op))

    def _reads(self) -> None:
        for op in self.ops:
            polled = {(k, v) for k, _, v in op.polls}
            for k, v in polled:
                writer = self.writer.get((k, v))
                if self.read_ok.get((k, v)) == op.op and writer and writer.type == "fail":
                    self.found["G1a"].append((k, v, op.op))
            own = polled & {(k, v) for k, _, v in op.sends}
            for key in sorted({k for k, _ in own}):
                lowest = min(v for k, v in own if k == key)
                self.found["precommitted-read"].append((key, lowest, op.op))

    def _delta(self, k: str, before: int, after: int) -> int:
        if (k, before) not in self.by_value or (k, after) not in self.by_value:
            return 1
        return self.by_value[k, after] - self.by_value[k, before]

    def _order(self) -> None:
        polled: dict[int, dict[str, int]] = defaultdict(dict)
        sent: dict[int, dict[str, int]] = defaultdict(dict)
        for op in self.ops:
            reads = _by_key([(k, v) for k, _, v in op.polls])
            writes = _by_key([(k, v) for k, _, v in op.sends])
            calm = {k: vs for k, vs in reads.items() if k not in op.rebalanced}
            self._internal(op, calm, "int-poll-skip", "int-nonmonotonic-poll")
            self._internal(op, writes, "int-send-skip", "int-nonmonotonic-send")
            self._external(op, reads, polled[op.process], "poll-skip", "nonmonotonic-poll")
            if op.type != "fail":
                self._external(op, writes, sent[op.process], None, "nonmonotonic-send")
                sent[op.process] |= {k: vs[-1] for k, vs in writes.items()}
            if op.type == "ok":
                polled[op.process] |= {k: vs[-1] for k, vs in reads.items()}
            if op.f in ("assign", "subscribe") and op.type != "fail":
                for memory in (polled, sent):
                    kept = {k: v for k, v in memory[op.process].items() if k in op.keys}
                    memory[op.process] = kept

    def _internal(self, op: Done, values: dict[str, list[int]], skip: str, back: str) -> None:
        for k, of_key in values.items():
            for before, after in pairwise(of_key):
                delta = self._delta(k, before, after)
                if delta != 1:
                    self.found[skip if delta > 1 else back].append((k, after, op.op))

    def _external(
        self,
        op: Done,
        values: dict[str, list[int]],
        memory: dict[str, int],
        skip: str | None,
        back: str,
    ) -> None:
        for k, of_key in values.items():
            if k not in memory:
                continue
            delta = self._delta(k, memory[k], of_key[0])
            name = back if delta < 1 else skip if delta > 1 else None
            if name is not None:
                self.found[name].append((k, of_key[0], op.op))


def _by_key(pairs: list[tuple[str, int]]) -> dict[str, list[int]]:
    values: dict[str, list[int]] = defaultdict(list)
    for k, v in pairs:
        values[k].append(v)
    return values


def random_history(seed: int) -> list[dict[str, Any]]:
    """Return a history of a few ops whose records lie, and are read, more or less in order."""
    return _Draw(random.Random(seed)).history()


class _Draw:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.keys = draw.randint(1, 2)
        self.disorder = draw.choice([0.0, 0.1, 0.1, 0.3, 0.6])
        self.logs: dict[int, list[tuple[int, int]]] = {k: [] for k in range(self.keys)}
        self.values = 0
        self.position: dict[tuple[int, int], int] = {}
        self.sent: list[tuple[int, int]] = []

    def odd(self) -> bool:
        return self.draw.random() < self.disorder

    def history(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        open_: dict[int, dict[str, Any]] = {}

        def tell(event: dict[str, Any]) -> None:
            events.append({"index": len(events), **event})

        processes = self.draw.randint(1, 3)
        for _ in range(self.draw.randint(2, 16)):
            process = self.draw.randrange(processes)
            if process in open_:
                tell(self.completion(open_.pop(process)))
            else:
                open_[process] = self.invocation(process)
                tell(open_[process])
        for process in sorted(open_):
            if self.draw.random() < 0.8:
                tell(self.completion(open_.pop(process)))
        return events

    def invocation(self, process: int) -> dict[str, Any]:
        f = self.draw.choice(["txn", "txn", "txn", "send", "poll", "assign", "subscribe", "crash"])
        value: Any = None
        if f in ("assign", "subscribe"):
            value = [k for k in range(self.keys) if self.draw.random() < 0.6]
        elif f != "crash":
            kinds = {"send": ["send"], "poll": ["poll"], "txn": ["send", "poll"]}[f]
            value = [self.invoked(self.draw.choice(kinds)) for _ in range(self.draw.randint(1, 3))]
        return {"process": process, "type": "invoke", "f": f, "value": value}

    def invoked(self, kind: str) -> list[Any]:
        if kind == "poll":
            return ["poll"]
        self.values += 1
        return ["send", self.draw.randrange(self.keys), self.values]

    def completion(self, invoked: dict[str, Any]) -> dict[str, Any]:
        if invoked["f"] == "crash":
            return {**invoked, "type": "info"}
        kind = self.draw.choice(["ok", "ok", "ok", "ok", "info", "fail"])
        event = {**invoked, "type": kind}
        if invoked["f"] in ("assign", "subscribe"):
            return event
        event["value"] = [self.completed(kind, invoked["process"], m) for m in invoked["value"]]
        if self.draw.random() < 0.15:
            event["rebalance-log"] = [{"keys": [self.draw.randrange(self.keys)]}]
        return event

    def completed(self, kind: str, process: int, mop: list[Any]) -> list[Any]:
        if mop[0] == "send":
            _, key, value = mop
            offset = self.append(kind, key, value)
            return ["send", key, [offset, value] if self.draw.random() < 0.8 else value]
        return ["poll", {str(k): self.read(process, k) for k in range(self.keys)}]

    def append(self, kind: str, key: int, value: int) -> int | None:
        log = self.logs[key]
        offset = len(log) + self.draw.choice([0, 0, 1]) if log == [] else log[-1][0] + 1
        if self.odd():
            offset = self.draw.randint(0, offset + 1)
        if kind == "ok" or self.odd():
            log.append((offset, value))
            if self.odd():
                log.append((offset + 1, value))
        log.sort()
        return offset if kind == "ok" or self.draw.random() < 0.5 else None

    def read(self, process: int, key: int) -> list[list[int]]:
        log = self.logs[key]
        begin = self.position.get((process, key), 0)
        if self.odd():
            begin = max(0, begin + self.draw.randint(-2, 2))
        got = log[begin : begin + self.draw.randint(0, 3)]
        self.position[process, key] = begin + len(got)
        if self.odd() and got:
            self.draw.shuffle(got)
        if self.odd():
            got.append((self.draw.randint(0, 5), self.draw.randint(1, self.values + 2)))
        return [list(pair) for pair in got]
