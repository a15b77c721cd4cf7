"""The anomalies of a run's history in plain Python: slow, and near to their definitions.

Tests only. It knows what needs no brokers: neither disks nor what leaders told.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

from tests.spark.drawn import Drawn, Row

ANY = object()
"""In place of an offset, partition or value that the definitions leave open."""


@dataclass(frozen=True)
class Offence:
    """One offence; ANY matches whatever stands there."""

    anomaly: str
    kind: str | None
    partition: object
    offset: object
    value: object


_INT_SEND = "int-nonmonotonic-send"
_EXCUSES = ("start", "assign", "subscribe", "seek", "crash")
_MAY_SKIP = ("auto-delivered", "before-processing")


class Value:
    """All that is known of one value."""

    def __init__(self, value: int, send: Row | None) -> None:
        self.value = value
        self.send = send
        self.polls: list[Row] = []
        self.finals: list[Row] = []

    @property
    def type(self) -> str | None:
        return self.send["type"] if self.send else None

    @property
    def partition(self) -> int | None:
        return self.send["partition"] if self.send else None

    @property
    def acked(self) -> tuple[int, int | None] | None:
        """The place that was acknowledged, as far as it was named."""
        if self.send is None or self.type != "ok" or self.partition is None:
            return None
        return self.partition, self.send["offset"]

    @cached_property
    def places(self) -> set[tuple[int, int | None]]:
        """Where it is known to lie."""
        known = {(read["partition"], read["offset"]) for read in (*self.polls, *self.finals)}
        if self.acked is None:
            return known
        # Without an offset it is a place of its own only where nothing else is known.
        is_own = self.acked[1] is not None or self.acked[0] not in {place[0] for place in known}
        return known | {self.acked} if is_own else known

    @property
    def offsets(self) -> list[int]:
        return sorted(offset for _, offset in self.places if offset is not None)

    @property
    def position(self) -> int:
        """Where the final log has it last, or else where it was seen last."""
        return max((read["offset"] for read in self.finals), default=self.offsets[-1])

    @property
    def is_spread(self) -> bool:
        """Whether it was seen in several partitions, so that `lowest` has no one meaning."""
        named = {partition for partition, _ in self.places}
        return len(named | ({self.partition} if self.partition is not None else set())) > 1


def lowest(reads: list[Row]) -> tuple[int, int]:
    first = min(reads, key=lambda read: (read["partition"], read["offset"]))
    return first["partition"], min(read["offset"] for read in reads)


Node = tuple[int, int]
"""A transaction: its process and number."""


def reach(edges: set[tuple[Node, Node]]) -> set[tuple[Node, Node]]:
    """Return which nodes lead to which, over any number of edges."""
    paths = set(edges)
    while further := {(a, d) for (a, b), (c, d) in product(paths, edges) if b == c} - paths:
        paths |= further
    return paths


def is_legible(read: Row) -> bool:
    return read["value"] is not None and read["problem"] not in ("run", "format")


class Reference:
    """All anomalies of one history that can be known without the brokers."""

    def __init__(self, run: Drawn) -> None:
        self.run = run
        self.found: list[Offence] = []
        self.ends = {end["partition"]: end for end in run.ends}
        self.final_values = {read["value"] for read in run.final if is_legible(read)}
        self.polls = [poll for poll in run.poll if not self._is_early(poll)]
        self.values = self._know()
        self.final_at = self._log(self.run.final)
        self.known_at = self._log([*self.polls, *self.run.final], self.values.values())
        self._losses()
        self._places()
        self._aborted()
        self._transactions()
        self._circles()
        self._polling()
        self._sending()
        self._groups()

    @property
    def spread(self) -> set[int]:
        """The values that were seen in several partitions."""
        return {value for value, one in self.values.items() if one.is_spread}

    def _add(
        self,
        anomaly: str,
        partition: object,
        offset: object,
        value: object,
        kind: str | None = None,
    ) -> None:
        self.found.append(Offence(anomaly, kind, partition, offset, value))

    @cached_property
    def _sent(self) -> dict[int, Row]:
        return {send["value"]: send for send in self.run.send}

    def _is_early(self, poll: Row) -> bool:
        """What a read_uncommitted reader saw counts nowhere if nobody knows it to be committed."""
        send = self._sent.get(poll["value"])
        return (
            poll["process"] in self.run.uncommitted
            and poll["problem"] is None
            and send is not None
            and send["txn"] is not None
            and send["type"] != "ok"
            and poll["value"] not in self.final_values
        )

    def _know(self) -> dict[int, Value]:
        values = {value: Value(value, send) for value, send in self._sent.items()}
        for reads, name in ((self.polls, "polls"), (self.run.final, "finals")):
            for read in filter(is_legible, reads):
                one = values.setdefault(read["value"], Value(read["value"], None))
                getattr(one, name).append(read)
        return values

    def _log(self, reads: Iterable[Row], sent: Iterable[Value] = ()) -> dict[int, set[int]]:
        """Which offsets of each partition are known to hold a record."""
        known: dict[int, set[int]] = defaultdict(set)
        for one in sent:
            if one.acked is not None and one.acked[1] is not None:
                known[one.acked[0]].add(one.acked[1])
        for read in reads:
            known[read["partition"]].add(read["offset"])
        return known

    def _was_read_to(self, partition: int | None, offset: int | None) -> bool:
        """Whether the final read certainly covered a place."""
        if partition is None:
            return all(end["complete"] for end in self.ends.values())
        end = self.ends[partition]
        return end["complete"] or (offset is not None and offset < end["reached"])

    def _is_searched(self, one: Value) -> bool:
        partition, offset = (
            one.partition,
            one.send["offset"] if one.type == "ok" and one.send else None,
        )
        if one.polls:
            if partition is None:
                partition = lowest(one.polls)[0]
            if offset is None:
                offset = max(poll["offset"] for poll in one.polls)
        return self._was_read_to(partition, offset)

    def _at(self, one: Value, partition: object, offset: object) -> tuple[object, object]:
        return (ANY, ANY) if one.is_spread else (partition, offset)

    def _losses(self) -> None:
        for one in self.values.values():
            searched = self._is_searched(one)
            if one.type == "ok" and one.send is not None:
                place = (one.partition, one.send["offset"])
                there = [
                    read
                    for read in one.finals
                    if one.partition is None or read["partition"] == one.partition
                ]
                if searched and not there:
                    self._add("lost-write", *place, one.value)
                if not searched and not one.polls and not one.finals:
                    self._add("unseen", *place, one.value)
            if one.polls and not one.finals and searched:
                at = (lowest(one.polls)[0], max(poll["offset"] for poll in one.polls))
                self._add("dirty-read", *self._at(one, *at), one.value)

    def _places(self) -> None:
        for one in self.values.values():
            reads = one.finals or one.polls
            if one.send is None:
                self._add("phantom", *self._at(one, *lowest(reads)), one.value)
            elif one.acked is not None and len({place[0] for place in one.places}) > 1:
                self._add("phantom", ANY, ANY, one.value, "partition")
            if len(one.places) > 1:
                finally_ = {(read["partition"], read["offset"]) for read in one.finals}
                kind = "log" if len(finally_) > 1 else "moved"
                partition = one.partition if one.partition is not None else lowest(reads)[0]
                at = self._at(one, partition, one.offsets[0])
                self._add("duplicate", *at, one.value, kind)
        self._two_at_one_place()
        for read in (*self.polls, *self.run.final):
            if read["problem"] is not None:
                at = (read["partition"], read["offset"])
                self._add("corrupt-record", *at, read["value"], read["problem"])

    def _two_at_one_place(self) -> None:
        told: dict[tuple[int, int], set[int]] = defaultdict(set)
        read_at: dict[tuple[int, int], set[int]] = defaultdict(set)
        for one in self.values.values():
            if one.acked is not None and one.acked[1] is not None:
                told[one.acked[0], one.acked[1]].add(one.value)
            for read in (*one.polls, *one.finals):
                told[read["partition"], read["offset"]].add(one.value)
                read_at[read["partition"], read["offset"]].add(one.value)
        for place, values in told.items():
            if len(values) > 1:
                kind = "reads" if len(read_at[place]) > 1 else "acks"
                self._add("inconsistent-offsets", *place, max(values), kind)

    def _aborted(self) -> None:
        transactors = {txn["process"] for txn in self.run.txn}
        for one in self.values.values():
            if one.type != "fail" or one.send is None:
                continue
            if one.polls or one.finals:
                kind = "read_committed" if one.send["process"] in transactors else None
                at = self._at(one, *lowest(one.finals or one.polls))
                self._add("G1a", *at, one.value, kind)
                continue
            early = [
                poll
                for poll in self.run.poll
                if poll["value"] == one.value and self._is_early(poll)
            ]
            if early and one.send["txn"] is not None:
                first = min(early, key=lambda poll: (poll["offset"], poll["partition"]))
                at = (first["partition"], first["offset"])
                self._add("G1a", *at, one.value, "read_uncommitted")

    def _transactions(self) -> None:
        for txn in self.run.txn:
            mine = [
                self.values[send["value"]]
                for send in self.run.send
                if (send["process"], send["txn"]) == (txn["process"], txn["txn"])
            ]
            parts = [one for one in mine if one.type in ("ok", "info")]
            lacking = [
                one
                for one in parts
                if not one.finals
                and one.send is not None
                and self._was_read_to(one.partition, one.send["offset"])
            ]
            if lacking and any(one.finals for one in parts):
                # Told at the lowest one; what is not known comes first.
                first = min(
                    lacking,
                    key=lambda one: (
                        one.partition is not None,
                        one.partition,
                        one.send["offset"] is not None if one.send else False,
                        one.send["offset"] if one.send else None,
                        one.value,
                    ),
                )
                offset = first.send["offset"] if first.send else None
                self._add("torn-transaction", first.partition, offset, first.value, "decided")
            own = {one.value for one in mine}
            given = [
                poll
                for poll in self.polls
                if (poll["process"], poll["txn"]) == (txn["process"], txn["txn"])
                and poll["value"] in own
            ]
            if given:
                first_poll = min(given, key=lambda poll: (poll["value"], poll["partition"],
                                                          poll["offset"]))  # fmt: skip
                at = (first_poll["partition"], first_poll["offset"])
                self._add("precommitted-read", *at, first_poll["value"], "read_committed")
            for event in self.run.event:
                taken = (event["f"], event["process"], event["op"])
                if taken == ("takeover", txn["process"], txn["txn"]) and txn["type"] == "ok":
                    self._add("zombie-commit", None, None, None)

    def _circles(self) -> None:
        """Each set of transactions that reach each other by what they read and by their order."""
        txns = {(txn["process"], txn["txn"]): txn for txn in self.run.txn}
        reads, later = set(), set()
        for poll in filter(is_legible, self.polls):
            send = self._sent.get(poll["value"])
            if send is not None and poll["txn"] is not None and send["txn"] is not None:
                reads.add(((send["process"], send["txn"]), (poll["process"], poll["txn"])))
        reads = {(one, two) for one, two in reads if one != two and {one, two} <= txns.keys()}
        for one, two in product(txns, txns):
            if txns[one]["type"] == "ok" and txns[one]["complete_ns"] < txns[two]["invoke_ns"]:
                later.add((one, two))
        told: set[Node] = set()
        by_reads, by_all = reach(reads), reach(reads | later)
        for node in txns:
            circle = {other for other in txns if {(node, other), (other, node)} <= by_all}
            if not circle or node in told:
                continue
            told |= circle
            is_plain = any((one, one) in by_reads for one in circle)
            self._add("G1c" if is_plain else "G1c-realtime", ANY, ANY, ANY)

    def _polling(self) -> None:
        lanes: dict[tuple[int, int], list[Row]] = defaultdict(list)
        for poll in self.polls:
            lanes[poll["process"], poll["partition"]].append(poll)
        for (process, partition), lane in lanes.items():
            lane.sort(key=lambda poll: (poll["time_ns"], poll["op"], poll["position"]))
            mine = [one for one in self.run.event if one["process"] == process]
            for before, after in pairwise(lane):
                internal = before["op"] == after["op"]
                moved = any(e["f"] == "rebalance" and e["op"] == after["op"] for e in mine)
                resets = [
                    e
                    for e in mine
                    if e["f"] in _EXCUSES
                    and before["time_ns"] <= e["time_ns"] <= after["time_ns"]
                    and e["partition"] in (None, partition)
                ]
                seeks = [e for e in resets if e["f"] == "seek" and e["offset"] is not None]
                follows = after["offset"] == before["offset"] + 1
                if follows or (moved if internal else len(seeks) < len(resets)):
                    continue
                due = before["offset"] + 1
                if seeks and not internal:
                    due = max(seeks, key=lambda e: e["time_ns"])["offset"]
                kind = "subscribe" if process in self.run.subscribed else "assign"
                at = (partition, after["offset"], after["value"])
                between = range(due, after["offset"])
                name = "int-" if internal else ""
                lasting = self._lasts(before) and self._lasts(after)
                known = self.final_at if lasting else self.known_at
                gone = "lost" if self._may_be_gone(before) or self._may_be_gone(after) else None
                if after["offset"] < due:
                    self._add(f"{name}nonmonotonic-poll", *at, gone if internal else kind)
                elif known[partition].intersection(between):
                    self._add(f"{name}poll-skip", *at, gone if internal else kind)

    def _lasts(self, read: Row) -> bool:
        """Whether the final read found what was read, and not only at other offsets."""
        known = self.values.get(read["value"])
        if known is None:
            return read["value"] is not None
        found = [final["offset"] for final in known.finals]
        return bool(found) and min(found) <= read["offset"] <= max(found)

    def _may_be_gone(self, read: Row) -> bool:
        """Whether the final read lacks what was read, or did not get to it."""
        return read["value"] in self.values and not self._lasts(read)

    def _is_gone(self, read: Row) -> bool:
        """Whether the final read got to where what was read would be, and lacks it."""
        return self._may_be_gone(read) and self._is_searched(self.values[read["value"]])

    def _sending(self) -> None:
        lanes: dict[tuple[int, int], list[tuple[int, Value]]] = defaultdict(list)
        for send in self.run.send:
            one = self.values[send["value"]]
            if one.type not in ("ok", "info"):
                continue
            partition = one.partition
            if partition is None and (one.finals or one.polls):
                partition = lowest(one.finals or one.polls)[0]
            if partition is not None:
                lanes[send["process"], partition].append((send["op"], one))
        for (process, partition), lane in lanes.items():
            for (before_op, before), (op, after) in pairwise(sorted(lane, key=lambda it: it[0])):
                rebuilt = any(
                    event["f"] == "error"
                    and event["process"] == process
                    and event["op"] is not None
                    and before_op < event["op"] <= op
                    for event in self.run.event
                )
                if rebuilt or not before.offsets or not after.offsets:
                    continue
                if before.is_spread or after.is_spread:
                    # Offsets of different partitions have no order.
                    continue
                position = after.position
                if position <= before.position:
                    kind = self._flaw(before, after)
                    txns = {one.send["txn"] for one in (before, after) if one.send is not None}
                    name = "nonmonotonic-send" if txns == {None} or len(txns) > 1 else _INT_SEND
                    self._add(name, partition, position, after.value, kind)

    def _flaw(self, *pair: Value) -> str:
        if any(not one.finals for one in pair):
            return "lost"
        return "duplicate" if any(len(set(one.offsets)) > 1 for one in pair) else "order"

    def _groups(self) -> None:
        way = {}
        for event in self.run.event:
            if event["f"] in ("subscribe", "assign") and " " in (event["detail"] or ""):
                way[event["process"]] = tuple(event["detail"].split(" ", 1))
        events = [one for one in self.run.event if one["process"] in way]
        for group in {group for _, group in way.values()}:
            mine = [one for one in events if way[one["process"]][1] == group]
            for partition in self.ends:
                self._group(
                    [one for one in mine if one["partition"] == partition],
                    partition,
                    {process: how for process, (how, of) in way.items() if of == group},
                )

    def _group(self, events: list[Row], partition: int, ways: dict[int, str]) -> None:
        commits = [e for e in events if e["f"] == "committed" and e["offset"] is not None]
        fetches = [e for e in events if e["f"] == "offset-fetch"]
        for asked in fetches:
            before = [e for e in commits if e["time_ns"] < int(asked["detail"])]
            if before:
                last = max(before, key=lambda e: e["time_ns"])["offset"]
                if (-1 if asked["offset"] is None else asked["offset"]) < last:
                    self._add("lost-commit", partition, last, None, "in-sync")
        done = sorted(
            (e for e in events if e["f"] == "processed"),
            key=lambda e: (e["time_ns"], e["process"]),
        )
        gone = {
            (poll["process"], poll["op"], poll["offset"])
            for poll in self.polls
            if poll["partition"] == partition and self._is_gone(poll)
        }
        lost = [e for e in done if (e["process"], e["op"], e["offset"]) in gone]
        told, cut_to, read_to = self._told(done, lost, [*commits, *fetches])
        processed = {e["offset"] for e in done if e not in lost}
        weak = [how for how in ways.values() if how in _MAY_SKIP]
        at: dict[int, set[int]] = defaultdict(set)
        for read in filter(is_legible, self.run.final):
            if read["partition"] == partition:
                at[read["offset"]].add(read["value"])
        for offset, values in at.items():
            if offset < max(told, default=-1) and offset not in processed:
                value = next(iter(values)) if len(values) == 1 else ANY
                leapt = not weak and cut_to <= offset < read_to
                kind = "lost" if leapt else min(weak or ways.values())
                self._add("consume-skip", partition, offset, value, kind)
        self._repeats(done, partition, commits, ways)

    def _told(
        self, done: list[Row], lost: list[Row], answers: list[Row]
    ) -> tuple[list[int], int, int]:
        """The commits of the log of today, where a log was cut off, how far it was read before."""
        told, read_to = [], max((e["offset"] + 1 for e in lost), default=0)
        for answer in answers:
            if answer["offset"] is None:
                continue
            before = [(e["time_ns"], e in lost) for e in done if e["time_ns"] <= answer["time_ns"]]
            if before and max(before)[1]:
                read_to = max(read_to, answer["offset"])
            else:
                told.append(answer["offset"])
        last_ns = max((e["time_ns"] for e in lost), default=0)
        kept = [e["offset"] + 1 for e in done if e not in lost and e["time_ns"] < last_ns]
        return told, max(kept, default=0), read_to

    def _repeats(
        self, done: list[Row], partition: int, commits: list[Row], ways: dict[int, str]
    ) -> None:
        before: dict[tuple[int, object], int] = {}
        polled = {
            (poll["process"], poll["op"], poll["offset"]): poll["value"]
            for poll in self.polls
            if poll["partition"] == partition
        }
        told = [polled.get((e["process"], e["op"], e["offset"])) for e in done]
        for event, value in zip(done, told, strict=True):
            others = [
                other
                for one, other in zip(done, told, strict=True)
                if one["offset"] == event["offset"] and other is not None
            ]
            record = event["offset"], min(others, default=None) if value is None else value
            if record in before:
                first = ways[before[record]]
                kind = self._repeat(event, partition, commits, ways)
                if kind == "uncommitted" and first == "before-processing":
                    # Who had it first had committed beyond it, too late for this one to know.
                    kind = first
                self._add("consume-repeat", partition, event["offset"], None, kind)
            before[record] = event["process"]

    def _repeat(self, event: Row, partition: int, commits: list[Row], ways: dict[int, str]) -> str:
        if ways[event["process"]] == "transactional":
            return "transactional"
        given = [
            poll["time_ns"]
            for poll in self.polls
            if (poll["process"], poll["op"], poll["partition"], poll["offset"])
            == (event["process"], event["op"], partition, event["offset"])
        ]
        given_ns = min(given, default=event["time_ns"])
        beyond = [
            commit
            for commit in commits
            if commit["offset"] > event["offset"] and commit["time_ns"] < given_ns
        ]
        return "committed" if beyond else "uncommitted"
