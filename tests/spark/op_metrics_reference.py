"""The measures of an op history in plain Python, every lag of every poll. Tests only."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.spark.op_reference import Done, ops_of


@dataclass(frozen=True)
class Lag:
    """How far behind a process was in one key, when it invoked one poll."""

    process: int
    key: str
    op: int
    time: int
    lag: int


def joined(histories: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return one history of some, one behind the other; what never completed is only in the last.

    Values are sent again and offsets begin anew, which anomalies are not defined for, and measures
    are.
    """
    events: list[dict[str, Any]] = []
    for number, history in enumerate(histories):
        ended = {event["index"] for event in _ended(history)}
        last = number == len(histories) - 1
        events += [event for event in history if last or event["index"] in ended]
    return [{**event, "index": index} for index, event in enumerate(events)]


def _ended(history: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of all ops that completed."""
    open_: dict[int, dict[str, Any]] = {}
    for event in history:
        if event["type"] == "invoke":
            open_[event["process"]] = event
        else:
            yield open_.pop(event["process"])
            yield event


def timed(events: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Return the events with times that never go back, and now and then with none."""
    draw = random.Random(seed)
    gaps = draw.choice([0.0, 0.0, 0.1, 1.0])
    now, told = draw.randint(-3, 5), []
    causes = ["timed out", "disconnected", None, {"code": 7}]
    for event in events:
        now += draw.choice([0, 1, 1, 2, 10])
        more: dict[str, Any] = {} if draw.random() < gaps else {"time": now}
        if event["type"] == "info":
            cause = draw.choice(causes)
            more |= {} if cause is None else {"error": cause}
        told.append({**event, **more})
    return told


class Measures:
    """All measures of one history."""

    def __init__(self, events: Sequence[dict[str, Any]]) -> None:
        self.ops = sorted(ops_of(events), key=lambda op: op.op)
        self.completed: dict[int, int | None] = {}
        self.invoked: dict[int, int | None] = {}
        open_: dict[int, dict[str, Any]] = {}
        for event in events:
            if event["type"] == "invoke":
                open_[event["process"]] = event
            else:
                self.invoked[event["index"]] = open_.pop(event["process"]).get("time")
                self.completed[event["index"]] = event.get("time")
        self.causes = self._causes(events, [e["f"] for e in open_.values()])
        self.lags = self._lags()
        self.consumed = self._consumed()

    def _causes(
        self, events: Sequence[dict[str, Any]], never: list[str]
    ) -> Counter[str | dict[str, Any] | None]:
        told: Counter[Any] = Counter(None for f in never if f in ("send", "poll", "txn"))
        for event in events:
            if event["type"] == "info" and event["f"] in ("send", "poll", "txn"):
                error = event.get("error")
                told[error if isinstance(error, str | None) else '{"code":7}'] += 1
        return told

    def _known_since(self, key: str, offset: int) -> int | None:
        """Return when it was first known that something lies at an offset, or above."""
        times = [
            time
            for op in self.ops
            if op.type in ("ok", "info") and _highest(op).get(key, -1) >= offset
            if (time := self.completed.get(op.op)) is not None
        ]
        return min(times, default=None)

    def _lags(self) -> list[Lag]:
        positions: dict[int, dict[str, int]] = defaultdict(dict)
        lags = []
        for op in self.ops:
            if op.type != "ok":
                continue
            mine = positions[op.process]
            if op.f == "assign":
                positions[op.process] = {key: mine.get(key, -1) for key in op.keys}
            elif op.f == "subscribe":
                positions[op.process] = {}
            elif op.f in ("poll", "txn"):
                for key, offset in _highest(op).items():
                    mine[key] = max(offset, mine.get(key, -1))
                invoked = self.invoked[op.op]
                if invoked is None:
                    continue
                for key, position in mine.items():
                    since = self._known_since(key, position + 1)
                    lag = 0 if since is None else max(0, invoked - since)
                    lags.append(Lag(op.process, key, op.op, invoked, lag))
        return lags

    def _consumed(self) -> Counter[tuple[int, str, int]]:
        subscribed: set[int] = set()
        counts: Counter[tuple[int, str, int]] = Counter()
        for op in self.ops:
            if op.type == "ok" and op.f == "subscribe":
                subscribed.add(op.process)
            elif op.type == "ok" and op.process in subscribed:
                counts.update((op.process, key, value) for key, _, value in op.polls)
        return counts


def _highest(op: Done) -> dict[str, int]:
    highest: dict[str, int] = {}
    for key, offset, _ in (*op.sends, *op.polls):
        if offset is not None:
            highest[key] = max(offset, highest.get(key, -1))
    return highest
