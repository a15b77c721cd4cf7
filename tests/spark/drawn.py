"""Small histories of runs, drawn at random: what a cluster did, and whatever may go wrong with it.

A log is written first, record by record; then producers are told of it, consumers and the final
read are shown it, and each of them is lied to now and then.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from harness.core.op import value_of

Row = dict[str, Any]

PRODUCERS = (1, 2)
TRANSACTOR = 3
ASSIGNED, SUBSCRIBED, UNCOMMITTED = 10, 11, 12
MEMBERS = (13, 14)
READER = 15
PROCESSES = 32
"""All processes of a history have numbers below this."""

_PARTITIONS = (0, 1)
_STEP_NS = 1_000_000
SPAN_NS = 10**10
"""Every history takes less time than this."""
_WAYS = ("before-processing", "after-processing", "auto-stored", "transactional")


@dataclass(kw_only=True)
class Drawn:
    """The rows of one history, as docs/run-folder.md has them but for the topic."""

    send: list[Row] = field(default_factory=list)
    txn: list[Row] = field(default_factory=list)
    poll: list[Row] = field(default_factory=list)
    final: list[Row] = field(default_factory=list)
    event: list[Row] = field(default_factory=list)
    ends: list[Row] = field(default_factory=list)

    subscribed = frozenset({SUBSCRIBED, *MEMBERS})
    uncommitted = frozenset({UNCOMMITTED})


class _Draw:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ns = 0
        self.drawn = Drawn()
        self.log: dict[int, list[tuple[int, int]]] = {p: [] for p in _PARTITIONS}
        self.next: dict[int, int] = dict.fromkeys(_PARTITIONS, 0)
        # Most histories have few faults, or the anomalies of one would hide those of the other.
        self.wild = self.chance.choice((0.0, 0.03, 0.12))

    def tick(self) -> int:
        self.now_ns += _STEP_NS
        return self.now_ns

    def odd(self, times: float = 1.0) -> bool:
        return self.chance.random() < self.wild * times

    # -- producers -------------------------------------------------------------------------------

    def append(self, partition: int, value: int) -> int:
        offset = self.next[partition]
        # Markers of transactions take offsets too.
        self.next[partition] += 1 + (self.chance.random() < 0.15)
        self.log[partition].append((offset, value))
        return offset

    def send(self, process: int, op: int, *, txn: int | None = None, kind: str = "") -> None:
        chosen = self.chance.choice(_PARTITIONS)
        value = value_of(process, op)
        outcome = kind or self.chance.choices(("ok", "info", "fail"), (8, 2, 1))[0]
        appended = {"ok": not self.odd(), "info": self.chance.random() < 0.5, "fail": self.odd(4)}
        if txn is not None and outcome == "fail":
            # Aborted records lie in the log, for those who may see them.
            appended["fail"] = True
        offset = None
        begin_ns = self.tick()
        if appended[outcome]:
            where = 1 - chosen if self.odd(0.3) else chosen
            offset = self.append(where, value)
            if self.odd():
                self.append(where, value)
        if outcome == "ok" and offset is None:
            offset = self.next[chosen]
        if outcome == "ok" and self.odd(0.5):
            offset = max(0, (offset or 0) + self.chance.choice((-1, 1)))
        told = outcome == "ok" or txn is not None
        if outcome == "ok" and self.chance.random() < 0.08:
            told = False
        partition: int | None = chosen
        if outcome != "ok" and self.chance.random() < 0.3:
            partition = None
        self.drawn.send.append(
            {
                "process": process, "op": op, "type": outcome, "partition": partition,
                "offset": offset if told and partition is not None else None, "value": value,
                "invoke_ns": begin_ns, "complete_ns": self.tick(),
                "error": None if outcome == "ok" else "drawn", "txn": txn,
            }
        )  # fmt: skip
        if self.odd(0.5):
            self.event(process, "error", op=op + 1)

    def produce(self) -> None:
        for op in range(self.chance.randint(1, 5)):
            for process in PRODUCERS:
                if self.chance.random() < 0.8:
                    self.send(process, op)
        op = 0
        for number in range(self.chance.randint(0, 3)):
            kind = self.chance.choice(("ok", "ok", "info", "fail"))
            begin_ns = self.tick()
            for _ in range(self.chance.randint(1, 3)):
                self.send(TRANSACTOR, op, txn=number, kind=kind)
                op += 1
            if self.odd(2):
                self.event(TRANSACTOR, "takeover", op=number)
            self.drawn.txn.append(
                {
                    "process": TRANSACTOR, "txn": number, "type": kind,
                    # Some were begun while the ones before them were still going on.
                    "invoke_ns": begin_ns - self.chance.choice((0, 0, 3)) * _STEP_NS,
                    "complete_ns": self.tick(), "committing": kind != "fail", "error": None,
                }
            )  # fmt: skip
        # Producers that were overtaken: neighbours change places.
        for records in self.log.values():
            if len(records) > 1 and self.odd(4):
                at = self.chance.randrange(len(records) - 1)
                (one, first), (other, second) = records[at : at + 2]
                records[at : at + 2] = [(one, second), (other, first)]

    def event(self, process: int, f: str, **other: Any) -> None:
        row = {"process": process, "op": None, "f": f, "partition": None, "offset": None}
        self.drawn.event.append({**row, "time_ns": self.tick(), "detail": None, **other})

    # -- consumers -------------------------------------------------------------------------------

    def visible(self, process: int) -> dict[int, list[tuple[int, int]]]:
        aborted = {one["value"] for one in self.drawn.send if one["txn"] is not None
                   and one["type"] == "fail"}  # fmt: skip
        hidden = set() if process == UNCOMMITTED or self.odd() else aborted
        return {p: [one for one in log if one[1] not in hidden] for p, log in self.log.items()}

    def consume(self, process: int, *, txns: bool = False) -> None:
        seen = self.visible(process)
        places = dict.fromkeys(_PARTITIONS, 0)
        for op in range(self.chance.randint(1, 4)):
            if self.chance.random() < 0.15:
                f = self.chance.choice(("assign", "seek", "crash", "rebalance"))
                partition = self.chance.choice((None, *_PARTITIONS)) if f != "crash" else None
                sought = self.chance.choice((None, 0, 1, 2)) if f == "seek" else None
                self.event(
                    process, f, op=op if f == "rebalance" else None, partition=partition,
                    offset=sought,
                )  # fmt: skip
                if self.chance.random() < 0.5:
                    places = dict.fromkeys(_PARTITIONS, 0)
            time_ns, position = self.tick(), 0
            txn = self.chance.choice((0, 1, 2)) if txns else None
            for _ in range(self.chance.randint(0, 5)):
                partition = self.chance.choice(_PARTITIONS)
                if self.odd():
                    places[partition] = max(0, places[partition] + self.chance.choice((-1, -1, 1)))
                if places[partition] >= len(seen[partition]):
                    continue
                offset, value = seen[partition][places[partition]]
                places[partition] += 1
                self.read(
                    self.drawn.poll, process, op, position, partition, offset, value,
                    time_ns=time_ns, txn=txn,
                )  # fmt: skip
                position += 1

    def read(
        self,
        rows: list[Row],
        process: int,
        op: int,
        position: int,
        partition: int,
        offset: int,
        value: int,
        *,
        time_ns: int,
        txn: int | None = None,
    ) -> None:
        problem, shown = None, value
        if process != UNCOMMITTED and txn is None and self.odd(0.4):
            problem = self.chance.choice(("checksum", "run", "topic", "format"))
        elif self.odd(0.4):
            shown = value_of(self.chance.choice((1, 2, 7)), self.chance.randrange(8))
        rows.append(
            {
                "process": process, "op": op, "position": position, "partition": partition,
                "offset": offset, "value": None if problem == "format" else shown,
                "time_ns": time_ns, "problem": problem, "txn": txn,
            }
        )  # fmt: skip

    # -- groups ----------------------------------------------------------------------------------

    def work(self) -> None:
        ways = [self.chance.choice(_WAYS)] * 2
        if self.chance.random() < 0.3:
            ways[1] = self.chance.choice(_WAYS)
        position = dict.fromkeys(_PARTITIONS, 0)
        committed: dict[int, int] = {}
        for process, way in zip(MEMBERS, ways, strict=True):
            for partition in _PARTITIONS:
                offset = committed.get(partition)
                if self.odd(2):
                    offset = self.chance.choice((None, 0, 1))
                asked_ns = self.tick()
                told = {"partition": partition, "offset": offset, "detail": str(asked_ns)}
                self.event(process, "offset-fetch", **told)
            self.event(process, "subscribe", op=0, detail=f"{way} the group")
            seen = self.visible(process)
            for op in range(self.chance.randint(0, 3)):
                partition = self.chance.choice(_PARTITIONS)
                time_ns = self.tick()
                due = [one for one in seen[partition] if one[0] >= position[partition]][:2]
                for number, (offset, value) in enumerate(due):
                    self.read(
                        self.drawn.poll, process, op, number, partition, offset, value,
                        time_ns=time_ns,
                    )  # fmt: skip
                for offset, _ in due:
                    if not self.odd():
                        self.event(process, "processed", op=op, partition=partition, offset=offset)
                    position[partition] = offset + 1
                if due and self.chance.random() < 0.7:
                    committed[partition] = position[partition]
                    told = {"partition": partition, "offset": position[partition]}
                    self.event(process, "committed", **told)
            # The next member begins where it was committed, and may do some again.
            position = {p: committed.get(p, 0) for p in _PARTITIONS}

    # -- the end ---------------------------------------------------------------------------------

    def finish(self) -> None:
        seen = self.visible(READER)
        self.tick()
        for partition, records in seen.items():
            high, reached = self.next[partition], self.next[partition]
            if self.odd(2) or self.chance.random() < 0.05:
                reached = self.chance.randrange(high + 1)
            position = 0
            for offset, value in records:
                if offset < reached and not self.odd():
                    for _ in range(1 + self.odd(0.3)):
                        self.read(
                            self.drawn.final, READER, 0, position, partition, offset, value,
                            time_ns=self.tick(),
                        )  # fmt: skip
                        position += 1
            self.drawn.ends.append(
                {
                    "partition": partition, "low": 0, "high": high, "reached": reached,
                    "complete": reached == high,
                }
            )  # fmt: skip


def draw_run(seed: int) -> Drawn:
    """Return a history; the same for the same seed."""
    draw = _Draw(seed)
    draw.produce()
    for process in (ASSIGNED, SUBSCRIBED, UNCOMMITTED):
        if draw.chance.random() < 0.8:
            draw.consume(process)
    if draw.odd(3):
        draw.consume(TRANSACTOR, txns=True)
    if draw.chance.random() < 0.5:
        draw.work()
    draw.finish()
    return draw.drawn
