"""The group member: polls, processes what it polled record by record, and commits.

What counts for a group is not what its members were given but what they had done with it when they
died. To have processed a record is, here, to have written that down: a `processed` event, handed to
the operating system at once. Who commits before processing and is not told that it was done does
not process either, but goes back: so it is at most once indeed.

A commit is recorded when it has been acknowledged (`committed`). Before it subscribes, a member
asks where its group is (`offset-fetch`). Orders, one JSON object a line on stdin:

    {"do": "hold", "before": …, "count": n, "order": …}   hold as above, counted from now on;
                                  answered when it knows, between two polls
    {"do": "held", "order": …}    answered when it holds, see below
    {"do": "go", "order": …}      go on
    {"do": "hurry", "order": …}   from now on processing takes no time; answered between two polls

The answer of a member that holds tells which of the records that it was given it has not processed,
and which of those it has processed no acknowledged commit of its own covers:

    {"reply": order, "delivered": n, "processed": n, "committed": {partition: offset, …},
     "unprocessed": [[partition, offset], …], "uncommitted": [[partition, offset], …]}
"""

import queue
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from harness.core.wait import pause
from harness.core.workload import Act
from workloads.consumer import RecordingConsumer
from workloads.control import Control, main
from workloads.errors import words_of
from workloads.group_config import Commits
from workloads.settings import ClientSettings

_FETCH_S, _ASK_S, _AGAIN_S = 60.0, 10.0, 0.1
_HOLD_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings(ClientSettings):
    """What a member is told; `config` has a `group.id`.

    Attributes:
        commits: how the group's offsets are committed: "auto-delivered", automatically, a record
            counts as consumed when it is handed over (librdkafka's default); "auto-stored",
            automatically, it counts when it has been processed (enable.auto.offset.store=false);
            "before-processing", each poll, before the first of its records is processed;
            "after-processing", after every `commit_every` records, and at a poll's end.
        poll_records: at most so many records a poll.
        poll_s: how long a poll gathers them, seconds.
        commit_every: see above.
        commit_position: whether a commit names where the consumer says it is (`position`), as that
            of an application that names no offsets does, instead of the end of what was processed.
            It is made at a poll's end then, since before the position is ahead of the processing,
            and after a poll that brought no record if the position is another one.
        process_s: how long the processing of a record takes, seconds.
        hold: where to stop and wait: {"before": "processing" or "commit", "count": n} is right
            before the n-th record is processed, or the n-th commit is made.
        audit: it only asks where its group is, says so (`audit`), and ends.
    """

    commits: Commits
    poll_records: int
    poll_s: float
    commit_every: int
    process_s: float
    commit_position: bool = False
    hold: dict[str, Any] | None = None
    audit: bool = False


class GroupMember(RecordingConsumer):
    """A member of a group that processes what it is given.

    Attributes:
        processed: how many records it has processed.
        rebalances: how often partitions came or went.
        fetched: of how many partitions it was told where its group is.
    """

    def __init__(self, settings: MemberSettings, control: Control) -> None:
        self.processed = 0
        self.rebalances = 0
        self.fetched = 0
        self._control = control
        self._settings = settings
        self._hold = settings.hold
        self._process_s = settings.process_s
        self._steps: Counter[Act] = Counter()
        self._delivered = 0
        self._commits_acked = 0
        self._committed: dict[int, int] = {}
        self._owed: dict[int, int] = {}
        self._unprocessed: list[tuple[int, int]] = []
        self._uncommitted: list[tuple[int, int]] = []
        config = settings.kafka_config("member") | {
            "enable.auto.commit": settings.commits.startswith("auto-"),
            "enable.auto.offset.store": settings.commits == "auto-delivered",
        }
        recorder = settings.begin_polls("reader" if settings.audit else "consumer")
        super().__init__(config, recorder, settings.topic, on_commit=self._on_commit)

    @property
    def described(self) -> str:
        """How it commits, and its group: the detail of an event that says what it is."""
        return f"{self._settings.commits} {self._settings.config['group.id']}"

    def fetch_offsets(self) -> None:
        """Ask the coordinator where the group is, and record what it says.

        Asked again while there is no coordinator: a group's first question makes it one, and after
        a fault it may take a while. If none answers nothing is recorded, and nothing was learnt.
        """
        last_ns = time.monotonic_ns() + int(_FETCH_S * 1e9)
        while not self._control.stop.is_set() and time.monotonic_ns() < last_ns:
            try:
                metadata = self._consumer.list_topics(self._topic, timeout=_ASK_S)
                partitions = sorted(metadata.topics[self._topic].partitions)
                known = self.committed(partitions, timeout_s=_ASK_S)
            except KafkaException as error:
                words = words_of(error.args[0])
                self.recorder.event("error", op=self.op, detail=f"offset-fetch: {words}")
                known = None
            if known is not None:
                self.fetched = len(partitions)
                return
            pause(_AGAIN_S, self._control.stop)

    def turn(self) -> None:
        """Poll once, and process and commit what came."""
        self._take_orders()
        records = self.poll(self._settings.poll_records, self._settings.poll_s)
        self._delivered += len(records)
        # Whoever dies from here on has been given these records.
        self.recorder.flush()
        self.report()
        if not records:
            if self._settings.commit_position:
                moved = self._positions(self._committed).items() - self._committed.items()
                self._owed |= dict(moved)
            if self._owed:
                self._commit_owed()
            return
        self._unprocessed = [_place(record) for record in records]
        if self._settings.commits == "before-processing" and not self._commit(records):
            self._go_back(records)
            return
        every = len(records) if self._settings.commit_position else self._settings.commit_every
        uncommitted: list[Message] = []
        for record in records:
            if not self._step("processing"):
                return
            self._process(record)
            uncommitted.append(record)
            if self._settings.commits == "after-processing" and len(uncommitted) >= every:
                self._commit(uncommitted)
                uncommitted = []
        if self._settings.commits == "after-processing" and uncommitted:
            self._commit(uncommitted)

    def _take_orders(self) -> None:
        """Learn where to hold, or to hurry; whatever else is wanted is for one that holds."""
        for order in list(self._control.taken_orders()):
            if order["do"] == "hold":
                count = self._steps[order["before"]] + order["count"]
                self._hold = {"before": order["before"], "count": count}
            elif order["do"] == "hurry":
                self._process_s = 0.0
            else:
                self._control.orders.put(order)
                continue
            self._control.answer({"reply": order["order"]})

    def _process(self, record: Message) -> None:
        if self._process_s:
            pause(self._process_s, self._control.orphaned)
        partition, offset = _place(record)
        # The poll that gave it is over, so its number is the one before.
        self.recorder.event(
            "processed", op=self.op - 1, topic=self._topic, partition=partition, offset=offset
        )
        self.recorder.flush()
        self.processed += 1
        self._unprocessed.remove((partition, offset))
        if offset >= self._committed.get(partition, 0):
            self._uncommitted.append((partition, offset))
        if self._settings.commits == "auto-stored":
            self._store(record)
        self.report()

    def _store(self, record: Message) -> None:
        try:
            self._consumer.store_offsets(record)
        except KafkaException as error:
            # The partition has been taken away meanwhile: its next owner does this again.
            self.recorder.event("error", op=self.op, detail=f"store: {words_of(error.args[0])}")

    def _commit(self, records: list[Message]) -> bool:
        """Commit to the end of these records; return whether that was acknowledged."""
        if not self._step("commit"):
            return False
        ends = {partition: offset + 1 for partition, offset in map(_place, records)}
        self._owed |= self._positions(ends) if self._settings.commit_position else ends
        return self._commit_owed()

    def _positions(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets that the consumer would read next, where it knows them."""
        asked = [Place(self._topic, partition) for partition in sorted(partitions)]
        told = self._consumer.position(asked)
        return {place.partition: place.offset for place in told if place.offset >= 0}

    def _go_back(self, records: list[Message]) -> None:
        """Have records that could not be committed handed over again, by whoever has them then."""
        self._owed.clear()
        first: dict[int, int] = {}
        for partition, offset in map(_place, records):
            first.setdefault(partition, offset)
        for partition, offset in sorted(first.items()):
            try:
                self._consumer.seek(Place(self._topic, partition, offset))
            except KafkaException as error:
                # It has been taken away meanwhile: its next owner begins where the group is.
                self.recorder.event("error", op=self.op, detail=f"seek: {words_of(error.args[0])}")
            else:
                self._event("seek", partition, offset=offset)
        pause(_AGAIN_S, self._control.stop)

    def _commit_owed(self) -> bool:
        """Commit what has not been acknowledged yet of the partitions that it still has."""
        places = [Place(self._topic, p, offset) for p, offset in sorted(self._owed.items())]
        try:
            acked = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            # Nobody knows whether it was done. A cooperative member keeps partitions through a
            # rebalance in which its commits are refused, so it has to try again.
            self.recorder.event("error", op=self.op, detail=f"commit: {words_of(error.args[0])}")
            return False
        refused = [(place, why) for place in acked or [] if (why := place.error) is not None]
        for place, why in refused:
            self._event("error", place.partition, detail=f"commit: {words_of(why)}")
        self._owed.clear()
        self._on_commit(None, acked or [])
        return not refused

    def _on_commit(self, error: KafkaError | None, places: list[Place]) -> None:
        if error is not None:
            if error.code() != KafkaError._NO_OFFSET:
                self.recorder.event("error", op=self.op, detail=f"commit: {words_of(error)}")
            return
        for place in places:
            # An automatic commit names all partitions, also those of which nothing was stored.
            if place.error is None and place.offset >= 0:
                self._event("committed", place.partition, offset=place.offset)
                self._committed[place.partition] = place.offset
                self._commits_acked += 1
        known = self._committed
        self._uncommitted = [(p, o) for p, o in self._uncommitted if o >= known.get(p, 0)]
        self.recorder.flush()

    def _step(self, step: Act) -> bool:
        """Hold if it is to be held here; return whether to go on."""
        self._steps[step] += 1
        hold = self._hold
        if hold is not None and (hold["before"], hold["count"]) == (step, self._steps[step]):
            self._hold = None
            self._wait()
            return not self._control.stop.is_set()
        # One that is asked to stop finishes the poll that it is in: what was handed over may have
        # been committed already.
        return not self._control.orphaned.is_set()

    def _wait(self) -> None:
        self.recorder.flush()
        while not self._control.stop.is_set():
            self.report()
            try:
                order = self._control.orders.get(timeout=_HOLD_POLL_S)
            except queue.Empty:
                continue
            if order["do"] == "held":
                self._control.answer(
                    {
                        "reply": order["order"],
                        "delivered": self._delivered,
                        "processed": self.processed,
                        "committed": self._committed,
                        "unprocessed": self._unprocessed,
                        "uncommitted": self._uncommitted,
                    }
                )
            elif order["do"] == "go":
                self._control.answer({"reply": order["order"]})
                return

    def _rebalanced(self, what: str, places: list[Place]) -> None:
        super()._rebalanced(what, places)
        if what != "assigned":
            for place in places:
                self._owed.pop(place.partition, None)
        # A group that changes elsewhere tells a cooperative member of no partitions.
        self.rebalances += bool(places)
        self.recorder.flush()

    def report(self, *, force: bool = False) -> None:
        """Say how far it is, if it is time to."""
        self._control.report(
            self.recorder,
            processed=self.processed,
            commits=self._commits_acked,
            rebalances=self.rebalances,
            fetched=self.fetched,
            force=force,
        )


def _place(record: Message) -> tuple[int, int]:
    return (record.partition() or 0, record.offset() or 0)


def run(settings: MemberSettings, control: Control) -> None:
    """Poll, process and commit until told to stop; then leave the group."""
    member = GroupMember(settings, control)
    recorder = member.recorder
    if settings.audit:
        recorder.event("audit", topic=settings.topic, detail=member.described)
    # Asked first and told after: what is committed before it subscribes must still be there.
    member.fetch_offsets()
    if not settings.audit:
        member.subscribe(detail=member.described)
        recorder.flush()
        while not control.stop.is_set():
            member.turn()
            recorder.flush_if_due()
        # Leaving commits what was stored, and gives back what we have: part of the history too.
        member.close()
    recorder.close()
    member.report(force=True)


if __name__ == "__main__":
    main(run, MemberSettings)
