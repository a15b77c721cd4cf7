"""A client under test in any language: confluent-kafka's classes, spoken over a pipe.

Every workload is written for `confluent_kafka.Producer` and `Consumer`. Here these are stand-ins,
each with a process of its own that a command starts: it is told by JSON lines on its standard
input what to do, and tells on its standard output what came of it (docs/client-protocol.md).

    python -m workloads.foreign_client MODULE SETTINGS_FILE

runs a client of a workload so, with the command of the variable `CLIENT_COMMAND`.
"""

import queue
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from workloads.foreign_pipe import HELLO_S, Message, Pipe, error_of, to_bytes, to_text

_QUEUED = 20_000
"""So many records may be under way: librdkafka's own limit is 100,000, of processes without a
pipe."""
_QUEUED_BYTES = 64 << 20
"""So many bytes of records may be under way: twice what Kafka's own producer buffers
(buffer.memory), so that its send() has to wait as it does under any load that is too much for its
brokers. What it has not taken in yet lies in the heap of the client's process."""
_FOR_EVER_S = 86_400.0
_NO_OFFSET = -1001
_BEGINNING, _END = -2, -1


class Producer:
    """Stands in for `confluent_kafka.Producer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._pipe = Pipe("producer", config)
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb", lambda _: None)
        self._under_way: dict[int, tuple[Message, Any]] = {}
        self._bytes = 0
        self._has_died = False

    def __len__(self) -> int:
        return len(self._under_way)

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: Any = None,  # noqa: ANN401 (a callback)
        headers: Iterable[tuple[str, bytes]] | None = None,
    ) -> None:
        """Send a record.

        Raises:
            BufferError: too many are under way, or too many bytes of them.
        """
        if len(self._under_way) >= _QUEUED or self._bytes >= _QUEUED_BYTES:
            raise BufferError("too many records are under way")
        request: dict[str, Any] = {"op": "produce", "topic": topic, "value": to_text(value)}
        if key is not None:
            request["key"] = to_text(key)
        if partition >= 0:
            request["partition"] = partition
        if headers is not None:
            request["headers"] = [[name, to_text(content)] for name, content in headers]
        number = self._pipe.post(request)
        self._under_way[number] = (Message(topic, partition, value=value), on_delivery)
        self._bytes += len(value or b"")

    def poll(self, timeout: float = 0) -> int:
        """Serve delivery reports, waiting at most so long for one."""
        self._pipe.flush()
        served, wait_s = 0, timeout
        while True:
            try:
                answer = (
                    self._pipe.completed.get(timeout=wait_s)
                    if wait_s > 0
                    else self._pipe.completed.get_nowait()
                )
            except queue.Empty:
                break
            wait_s = 0
            served += self._deliver(answer)
        dead = self._pipe.dead
        if dead is not None and not self._has_died:
            self._has_died = True
            self.purge()
            raise KafkaException(dead)
        return served

    def _deliver(self, answer: Mapping[str, Any]) -> int:
        if answer.get("event") == "error":
            self._on_error(error_of(answer["error"]))
            return 0
        sent, on_delivery = self._under_way.pop(answer.get("id", 0), (None, None))
        if sent is None:
            return 0
        self._bytes -= len(sent.value() or b"")
        error = error_of(answer["error"]) if "error" in answer else None
        message = Message(
            sent.topic(), answer.get("partition", sent.partition()),
            offset=answer.get("offset"), value=sent.value(), error=error,
        )  # fmt: skip
        if on_delivery is not None:
            on_delivery(error, message)
        return 1

    def flush(self, timeout: float = _FOR_EVER_S) -> int:
        """Wait until all is answered, at most so long; return how many are not."""
        end = time.monotonic() + timeout
        while self._under_way and (left := end - time.monotonic()) > 0 and not self._pipe.dead:
            self.poll(min(left, 0.1))
        return len(self)

    def purge(self, **_: bool) -> None:
        """Give up all that is under way: nobody knows what becomes of it."""
        given_up, self._under_way, self._bytes = self._under_way, {}, 0
        error = KafkaError(KafkaError._PURGE_INFLIGHT, "given up")
        for message, on_delivery in given_up.values():
            if on_delivery is not None:
                on_delivery(error, message)
        if self._pipe.dead is None and given_up:
            self._pipe.kill()

    def init_transactions(self, timeout: float = _FOR_EVER_S) -> None:
        """Take over the transactional id."""
        self._call("init_transactions", timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._call("begin_transaction", HELLO_S)

    def commit_transaction(self, timeout: float = _FOR_EVER_S) -> None:
        """Commit the transaction."""
        self._call("commit_transaction", timeout)

    def abort_transaction(self, timeout: float = _FOR_EVER_S) -> None:
        """Abort the transaction."""
        self._call("abort_transaction", timeout)

    def send_offsets_to_transaction(
        self,
        positions: Sequence[TopicPartition],
        group: Any,  # noqa: ANN401 (what `consumer_group_metadata` returned)
        timeout: float = _FOR_EVER_S,
    ) -> None:
        """Commit a consumer's offsets with the transaction."""
        offsets = [[p.topic, p.partition, p.offset] for p in positions]
        self._call("send_offsets", timeout, offsets=offsets, group=group)

    def _call(self, op: str, timeout: float, **more: Any) -> None:  # noqa: ANN401
        # The client's own limit ends the call; a second one beside it would be another call.
        limit_s = max(timeout, HELLO_S) if timeout >= 0 else _FOR_EVER_S
        try:
            self._pipe.call({"op": op, **more}, limit_s)
        finally:
            # What was told before the answer is known when the call returns, as with librdkafka.
            self.poll(0)


class Consumer:
    """Stands in for `confluent_kafka.Consumer`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._pipe = Pipe("consumer", config)
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb", lambda _: None)
        self._on_commit = config.get("on_commit")
        self._tells_ends = bool(config.get("enable.partition.eof"))
        # librdkafka's way to commit automatically: what is stored, now and then and at the end.
        self._commits = bool(config.get("enable.auto.commit"))
        self._stores = self._commits and bool(config.get("enable.auto.offset.store", True))
        self._every_s = float(config.get("auto.commit.interval.ms", 5000)) / 1000
        self._stored: dict[tuple[str, int], int] = {}
        self._committed_s = time.monotonic()
        self._ends: dict[tuple[str, int], int] = {}
        self._assigned: dict[tuple[str, int], None] | None = None
        self._callbacks: dict[str, Any] = {}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take partitions, each from its offset on."""
        self._assigned = {(p.topic, p.partition): None for p in partitions}
        self._assign(partitions)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Let partitions go; those of a group are kept, for they come back at once."""
        if self._assigned is not None:
            for place in partitions:
                self._assigned.pop((place.topic, place.partition), None)

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Take partitions beside others; of a group: go on from these offsets."""
        if self._assigned is None:
            for place in partitions:
                self.seek(place)
        else:
            self._assigned |= {(p.topic, p.partition): None for p in partitions}
            self._assign(partitions)

    def _assign(self, begun: Sequence[TopicPartition]) -> None:
        offsets = {(p.topic, p.partition): _offset(p) for p in begun}
        wanted = [[*place, offsets.get(place)] for place in self._assigned or ()]
        self._pipe.call({"op": "assign", "partitions": wanted}, HELLO_S)

    def seek(self, partition: TopicPartition) -> None:
        """Go on from an offset."""
        place = [partition.topic, partition.partition, _offset(partition)]
        self._pipe.call({"op": "seek", "partition": place}, HELLO_S)

    def subscribe(self, topics: Sequence[str], **callbacks: Any) -> None:  # noqa: ANN401
        """Join the group."""
        self._callbacks = callbacks
        self._pipe.call({"op": "subscribe", "topics": list(topics)}, HELLO_S)

    def poll(self, timeout: float = _FOR_EVER_S) -> Message | None:
        """Return the next record; None if there is none in time."""
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = _FOR_EVER_S) -> list[Message]:
        """Return the next records, after all callbacks of the group."""
        if time.monotonic() > self._committed_s + self._every_s:
            self._commit_stored()
        request = {"op": "poll", "max": num_messages, "timeout_ms": int(timeout * 1000)}
        answer = self._pipe.call(request, timeout + _FOR_EVER_S, self._tell)
        messages = [_read(record) for record in answer["records"]]
        if self._stores:
            for message in messages:
                self.store_offsets(message)
        for problem in answer.get("errors", ()):
            error = error_of(problem)
            places = problem.get("partitions") or ()
            messages += [Message(t, p, error=error) for t, p in places]
            if not places:
                self._on_error(error)
        while not self._pipe.completed.empty():
            self._completed(self._pipe.completed.get())
        if self._tells_ends:
            messages += self._at_ends(answer.get("positions", ()), messages)
        return messages

    def _at_ends(
        self, positions: Iterable[Sequence[Any]], given: Sequence[Message]
    ) -> list[Message]:
        """Return, where nothing came, how far everything was read: control records are passed."""
        came = {(message.topic(), message.partition()) for message in given}
        ends = []
        for topic, partition, offset in positions:
            place = (topic, partition)
            if place not in came and self._ends.get(place) != offset:
                self._ends[place] = offset
                error = KafkaError(KafkaError._PARTITION_EOF, "nothing more for now")
                ends.append(Message(topic, partition, offset=offset, error=error))
        return ends

    def _tell(self, told: Mapping[str, Any]) -> None:
        name = {"assigned": "on_assign", "revoked": "on_revoke", "lost": "on_lost"}.get(
            told["event"], ""
        )
        if told["event"] == "revoked":
            self._commit_stored(waits=True)
        for topic, partition in told["partitions"]:
            self._stored.pop((topic, partition), None)
        callback = self._callbacks.get(name)
        if callback is not None:
            callback(self, [TopicPartition(t, p) for t, p in told["partitions"]])

    def _completed(self, answer: Mapping[str, Any]) -> None:
        if self._on_commit is not None and "committed" in answer:
            error = error_of(answer["error"]) if "error" in answer else None
            self._on_commit(error, [TopicPartition(*place) for place in answer["committed"]])

    def store_offsets(self, message: Message) -> None:
        """Let the offset behind a record be committed in its time."""
        offset = message.offset()
        if offset is not None:
            self._stored[message.topic(), message.partition()] = offset + 1

    def _commit_stored(self, *, waits: bool = False) -> None:
        self._committed_s = time.monotonic()
        if not self._commits or not self._stored:
            return
        offsets = [TopicPartition(*place, offset) for place, offset in self._stored.items()]
        self._stored = {}
        try:
            self.commit(offsets=offsets, asynchronous=not waits)
        except KafkaException as error:
            self._on_error(error.args[0])

    def commit(
        self,
        *,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit offsets, or the positions of all partitions."""
        places = None if offsets is None else [[p.topic, p.partition, p.offset] for p in offsets]
        request = {"op": "commit", "offsets": places, "async": asynchronous}
        if asynchronous:
            self._pipe.post(request)
            self._pipe.flush()
            return None
        answer = self._pipe.call(request, _FOR_EVER_S)
        return [TopicPartition(*place) for place in answer["committed"]]

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float = _FOR_EVER_S
    ) -> list[TopicPartition]:
        """Return the committed offset of each partition."""
        return self._offsets("committed", partitions, timeout)

    def position(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return what is read next of each partition."""
        return self._offsets("position", partitions, HELLO_S)

    def _offsets(
        self, op: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> list[TopicPartition]:
        asked = [[p.topic, p.partition] for p in partitions]
        request = {"op": op, "partitions": asked, "timeout_ms": int(timeout_s * 1000)}
        told = self._pipe.call(request, timeout_s + 5)["offsets"]
        return [TopicPartition(t, p, _NO_OFFSET if o is None else o) for t, p, o in told]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = _FOR_EVER_S
    ) -> tuple[int, int]:
        """Return where a partition begins and ends."""
        place = [partition.topic, partition.partition]
        request = {"op": "ends", "partition": place, "timeout_ms": int(timeout * 1000)}
        answer = self._pipe.call(request, timeout + 5)
        return int(answer["low"]), int(answer["high"])

    def list_topics(self, topic: str, timeout: float = _FOR_EVER_S) -> Any:  # noqa: ANN401
        """Return metadata of a topic: its partitions."""
        request = {"op": "partitions", "topic": topic, "timeout_ms": int(timeout * 1000)}
        numbers = self._pipe.call(request, timeout + 5)["partitions"]
        known = SimpleNamespace(error=None, partitions={number: None for number in numbers})
        return SimpleNamespace(topics={topic: known})

    def consumer_group_metadata(self) -> Any:  # noqa: ANN401 (opaque to who hands it on)
        """Return what a producer needs to commit offsets for this consumer."""
        return self._pipe.call({"op": "group_metadata"}, HELLO_S)["group"]

    def close(self) -> None:
        """Leave the group, and end."""
        self._commit_stored(waits=True)
        self._pipe.close(HELLO_S)


def _offset(place: TopicPartition) -> int | str | None:
    if place.offset == _BEGINNING:
        return "beginning"
    if place.offset == _END:
        return "end"
    return place.offset if place.offset >= 0 else None


def _read(record: Sequence[Any]) -> Message:
    topic, partition, offset, key, value, *more = record
    headers = [(name, to_bytes(content) or b"") for name, content in more[0]] if more else None
    return Message(
        topic, partition, offset=offset, key=to_bytes(key), value=to_bytes(value), headers=headers
    )


def main() -> None:
    """Run a client's module with the stand-ins."""
    module, settings = sys.argv[1:3]
    hello = Pipe("none", {})
    told = {str(hello.hello.get("client", "client")): str(hello.hello.get("version", "unknown"))}
    hello.kill()
    stand_in: Any = confluent_kafka
    stand_in.Producer, stand_in.Consumer = Producer, Consumer
    stand_in.stood_in_for = told
    sys.argv = [module, settings]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
