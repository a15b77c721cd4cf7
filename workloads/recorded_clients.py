"""A user's own confluent-kafka clients, wrapped so that all they do becomes an op history."""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    TopicPartition,
)

from harness.core.errors import UsageError
from harness.core.op import OpType, value_of
from harness.history.op_history import NAMES, OpHistoryFile, key_of, pair
from workloads.outcome import REFUSED
from workloads.txn_outcome import txn_outcome

_LOG = logging.getLogger(__name__)

HEADER = "kafka-chaos-id"
"""The header by which a record is known again: its value, a whole number in ASCII."""
METADATA_S = 10.0
"""How long the first send to a topic waits at most to learn how many partitions that has."""

Identify = Callable[[str, Any, Any], int | str | None]
"""Takes the topic, the key and the value of a record, and returns what tells it from others."""
Delivery = Callable[[KafkaError | None, Message], None]
Rebalance = Callable[[Any, list[TopicPartition]], None]

_LIMIT = 1 << 63
_PLAIN = ("value", "key", "partition", "callback", "on_delivery", "timestamp", "headers")
_SERIALIZING = ("key", "value", "partition", "on_delivery", "timestamp", "headers")


class Identities:
    """How records get an identity when they are sent, and are known again when they are read.

    That is a number in a header, or what a function of the user finds in a record. A record without
    one (None) is left out of the history.
    """

    def __init__(self, recording: int, identify: Identify | None) -> None:
        """Number records from 0, within a recording; or let a function name them."""
        self._recording = recording
        self._identify = identify
        self._numbers = count()

    def given(self, topic: str, record: dict[str, Any]) -> int | str | None:
        """Return the identity of a record that is to be sent, and add the header to its fields.

        A header that it brings, having been read and sent on, is replaced.
        """
        if self._identify is not None:
            return self._found_in(topic, record.get("key"), record.get("value"))
        headers = record.get("headers") or []
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        # The next of a count is taken by one thread only.
        value = value_of(self._recording, next(self._numbers))
        kept = [pair for pair in pairs if pair[0] != HEADER]
        record["headers"] = [*kept, (HEADER, str(value).encode())]
        return value

    def found(self, message: Message) -> int | str | None:
        """Return the identity of a record that was read, and take the header off."""
        if self._identify is not None:
            return self._found_in(message.topic() or "", message.key(), message.value())
        headers: Any = message.headers() or ()
        numbers = [content for name, content in headers if name == HEADER]
        if numbers:
            kept: Any = [pair for pair in headers if pair[0] != HEADER] or None
            message.set_headers(kept)
        is_ours = bool(numbers) and isinstance(numbers[-1], bytes) and numbers[-1].isdigit()
        value = int(numbers[-1]) if is_ours else _LIMIT
        return value if value < _LIMIT else None

    def _found_in(self, topic: str, key: object, value: object) -> int | str | None:
        assert self._identify is not None  # noqa: S101 (both callers have asked)
        identity = self._identify(topic, key, value)
        is_number = type(identity) is int and -_LIMIT <= identity < _LIMIT
        if identity is None or isinstance(identity, str) or is_number:
            return identity
        raise UsageError(
            f"identify returned {identity!r} for a record of {topic!r}: it must return a text, an "
            "integer of 64 bits, or None for a record that is not to be looked at."
        )


def _number(identity: int | str) -> int:
    """Return the value that stands for an identity in an op history: of a text, 63 bits of hash."""
    if isinstance(identity, int):
        return identity
    return int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest()) >> 1


@dataclass(slots=True, kw_only=True, eq=False)
class _Send:
    """A record under way.

    `keys` are the partitions that it may be sent to; `offset` is that of its acknowledgement.
    """

    process: int
    value: int
    keys: Sequence[str]
    txn: "_Transaction | None"
    offset: int | None = None
    acked: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class _Transaction:
    """A transaction and its sends that librdkafka took."""

    number: int
    sends: list[_Send] = field(default_factory=list)
    send_failed: bool = False
    commit_tried: bool = False
    committed: bool = False


class RecordedProducer:
    """A producer whose sends are recorded; what it does not define, the producer does.

    It is no instance of `confluent_kafka.Producer`. The history names two processes for what it
    sends: one for each record that is under way at a time, and as `producer` the one that the
    record's op is given when histories are merged (harness/history/op_history.py).
    """

    def __init__(
        self,
        producer: Producer,
        history: OpHistoryFile,
        identities: Identities,
        on_delivery: Delivery | None,
    ) -> None:
        self._inner = producer
        self._history = history
        self._identities = identities
        self._on_delivery = on_delivery
        self._names = _SERIALIZING if isinstance(producer, SerializingProducer) else _PLAIN
        self._process = history.new_process()
        # Held while a record is recorded and sent, so that both have one order. No callback runs
        # in `produce`, and serializers may send.
        self._order = threading.RLock()
        self._idle: list[int] = []
        self._under_way: set[_Send] = set()
        self._partitions: dict[str, int | None] = {}
        self._txn: _Transaction | None = None
        self._transactions = count()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the producer has)
        return getattr(self._inner, name)

    def __len__(self) -> int:
        return len(self._inner)

    def __bool__(self) -> bool:
        return bool(self._inner)

    def __enter__(self) -> "RecordedProducer":
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:  # noqa: ANN401 (as the producer's)
        return self._inner.__exit__(*error)

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (as there)
        """Record a send and let the producer make it; takes what the producer's `produce` takes."""
        if len(args) > len(self._names):
            raise TypeError(f"produce() takes at most {len(self._names) + 1} positional arguments")
        record = {**dict(zip(self._names, args, strict=False)), **kwargs}
        callbacks = [record.pop(name, None) for name in ("callback", "on_delivery")]
        callback = next(filter(None, callbacks), self._on_delivery)
        with self._order:
            identity = self._identities.given(topic, record)
            if identity is None:
                self._inner.produce(topic, **record, on_delivery=callback)
                return
            send = self._begin(topic, record.get("partition", -1), identity)
            delivered = partial(self._delivered, send, callback)
            try:
                self._inner.produce(topic, **record, on_delivery=delivered)
            except Exception as error:
                self._complete(send, REFUSED, error=_words_of(error))
                raise
            if send.txn is not None:
                send.txn.sends.append(send)

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[dict[str, Any]],
        partition: int = -1,
        callback: Delivery | None = None,
        on_delivery: Delivery | None = None,
    ) -> int:
        """Send messages one by one, for a batch has no headers; return how many were taken.

        One that is not taken gets its error as `_error`, as in the producer's `produce_batch`.
        """
        taken = 0
        for message in messages:
            record = {"partition": partition, "callback": callback or on_delivery, **message}
            try:
                self.produce(topic, **record)
                taken += 1
            except (BufferError, KafkaException) as error:
                message["_error"] = error.args[0]
        return taken

    def begin_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (as there)
        """Begin a transaction; one of which nobody heard the end is over."""
        self._inner.begin_transaction(*args, **kwargs)
        self._end_transaction()
        self._txn = _Transaction(number=next(self._transactions))

    def commit_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (as there)
        """Commit the transaction; if this raises, its outcome stays open until the next call."""
        if self._txn is not None:
            self._txn.commit_tried = True
        self._inner.commit_transaction(*args, **kwargs)
        if self._txn is not None:
            self._txn.committed = True
        self._end_transaction()

    def abort_transaction(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (as there)
        """Abort the transaction."""
        self._inner.abort_transaction(*args, **kwargs)
        self._end_transaction()

    def finish(self) -> None:
        """Record that the outcome of all that is under way will not be known."""
        with self._history.lock:
            for send in sorted(self._under_way, key=lambda send: send.value):
                self._complete(send, OpType.INFO, error="under way when the recorder was closed")

    def _begin(self, topic: str, partition: int | None, identity: int | str) -> _Send:
        keys = self._keys(topic, -1 if partition is None else partition)
        with self._history.lock:
            process = self._idle.pop() if self._idle else self._history.new_process()
            send = _Send(process=process, value=_number(identity), keys=keys, txn=self._txn)
            more: dict[str, object] = {"producer": self._process}
            if send.txn is not None:
                more["txn"] = send.txn.number
            if isinstance(identity, str):
                more[NAMES] = {str(send.value): identity}
            mops = [["send", key, send.value] for key in keys]
            head = {"process": process, "type": "invoke", "f": "send"}
            self._history.write({**head, "value": mops, **more})
            self._under_way.add(send)
            return send

    def _keys(self, topic: str, partition: int) -> Sequence[str]:
        """Return the keys of the partitions that a record may be sent to.

        If the process is killed before a delivery report tells which it was, it may be any.
        """
        if partition >= 0:
            return (key_of(topic, partition),)
        if topic not in self._partitions:
            try:
                listed = self._inner.list_topics(topic, timeout=METADATA_S).topics.get(topic)
            except KafkaException as error:
                # Not asked again: a program under test must not wait once more.
                _LOG.warning("the partitions of %s cannot be learnt: %s", topic, error)
                self._partitions[topic] = None
            else:
                if listed is None or not listed.partitions:
                    return (key_of(topic, None),)
                self._partitions[topic] = len(listed.partitions)
        known = self._partitions[topic]
        return [key_of(topic, n) for n in range(known)] if known else (key_of(topic, None),)

    def _delivered(
        self, send: _Send, callback: Delivery | None, error: KafkaError | None, message: Message
    ) -> None:
        with self._history.lock:
            place, offset = message.partition(), message.offset()
            if place is not None and place >= 0:
                send.keys = (key_of(message.topic() or "", place),)
            if error is None:
                send.acked = True
                # There is none under acks=0, nor where an idempotent producer repeats itself.
                send.offset = offset if offset is not None and offset >= 0 else None
            txn = send.txn
            if txn is not None and error is not None:
                txn.send_failed = True
            if txn is None:
                # Any error may hide an earlier attempt that got through (workloads/outcome.py).
                kind = OpType.OK if error is None else OpType.INFO
                self._complete(send, kind, error=None if error is None else error.name())
        if callback is not None:
            callback(error, message)

    def _end_transaction(self) -> None:
        """Record what is known of the transaction's sends."""
        with self._history.lock:
            txn, self._txn = self._txn, None
            if txn is None:
                return
            kind = txn_outcome(
                committed=txn.committed,
                commit_tried=txn.commit_tried,
                send_failed=txn.send_failed,
                taken_over=False,
            )
            for send in txn.sends:
                if kind is OpType.OK and not send.acked:
                    # Its delivery report is still to come, and tells where it is.
                    send.txn = None
                else:
                    self._complete(send, kind)

    def _complete(self, send: _Send, kind: OpType, *, error: str | None = None) -> None:
        """Record the outcome of a send, once."""
        with self._history.lock:
            if send not in self._under_way or self._history.closed:
                return
            self._under_way.discard(send)
            value = [["send", key, [send.offset, send.value]] for key in send.keys]
            head = {"process": send.process, "type": kind, "f": "send", "value": value}
            self._history.write(head if error is None else {**head, "error": error})
            # A process whose op ends as info is dead.
            if kind is not OpType.INFO:
                self._idle.append(send.process)


class RecordedConsumer:
    """A consumer whose polls are recorded; what it does not define, the consumer does.

    It is no instance of `confluent_kafka.Consumer`. Which partitions it has, and that it was told
    to read from somewhere else, is recorded, so that no order is expected across that.
    """

    def __init__(self, consumer: Consumer, history: OpHistoryFile, identities: Identities) -> None:
        self._inner = consumer
        self._history = history
        self._identities = identities
        self._process = history.new_process()
        self._held: set[str] = set()
        self._moved: set[str] = set()
        self._how = "assign"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the consumer has)
        return getattr(self._inner, name)

    def __enter__(self) -> "RecordedConsumer":
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:  # noqa: ANN401 (as the consumer's)
        return self._inner.__exit__(*error)

    def poll(self, *args: Any, **kwargs: Any) -> Message | None:  # noqa: ANN401 (as there)
        """Poll the consumer and record what it gives."""
        begin_ns = time.monotonic_ns()
        self._moved.clear()
        message: Message | None = self._inner.poll(*args, **kwargs)
        self._record(begin_ns, () if message is None else (message,))
        return message

    def consume(self, *args: Any, **kwargs: Any) -> list[Message]:  # noqa: ANN401 (as there)
        """Consume from the consumer and record what it gives, as one poll."""
        begin_ns = time.monotonic_ns()
        self._moved.clear()
        messages: list[Message] = self._inner.consume(*args, **kwargs)
        self._record(begin_ns, messages)
        return messages

    def subscribe(
        self,
        topics: list[str],
        on_assign: Rebalance | None = None,
        on_revoke: Rebalance | None = None,
        on_lost: Rebalance | None = None,
    ) -> None:
        """Subscribe the consumer and record each rebalance; callbacks get this object."""

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            keys = self._rebalanced(partitions)
            self._hold(self._held | keys, anew=keys)
            if on_assign is not None:
                on_assign(self, partitions)

        def taken(
            callback: Rebalance | None, _: Consumer, partitions: list[TopicPartition]
        ) -> None:
            self._hold(self._held - self._rebalanced(partitions))
            if callback is not None:
                callback(self, partitions)

        self._inner.subscribe(
            topics,
            on_assign=assigned,
            on_revoke=partial(taken, on_revoke),
            on_lost=partial(taken, on_lost or on_revoke),
        )
        self._how = "subscribe"
        self._hold(self._held)

    def unsubscribe(self) -> None:
        """End the subscription."""
        self._inner.unsubscribe()
        self._hold(())

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Assign partitions; each is read from where that says, also if it was assigned before."""
        self._inner.assign(partitions)
        self._hold(_keys_of(partitions), anew=self._held)

    def unassign(self) -> None:
        """Take all partitions from the consumer."""
        self._inner.unassign()
        self._hold(())

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Assign further partitions."""
        self._inner.incremental_assign(partitions)
        keys = _keys_of(partitions)
        self._hold(self._held | keys, anew=keys)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Take some partitions from the consumer."""
        self._inner.incremental_unassign(partitions)
        self._hold(self._held - _keys_of(partitions))

    def seek(self, partition: TopicPartition) -> None:
        """Let the consumer go on somewhere else."""
        self._inner.seek(partition)
        self._hold(self._held, anew=_keys_of([partition]))

    def _rebalanced(self, partitions: Iterable[TopicPartition]) -> set[str]:
        keys = _keys_of(partitions)
        self._moved |= keys
        return keys

    def _hold(self, keys: Iterable[str], *, anew: Iterable[str] = ()) -> None:
        """Record which partitions the consumer has, and which of them it reads from elsewhere."""
        with self._history.lock:
            held, self._held = self._held, set(keys)
            # An assignment that leaves a key out ends what was expected of its next record.
            for kept in (held.difference(anew), self._held):
                if (kept != held or kept is self._held) and not self._history.closed:
                    self._history.write(*pair(self._process, self._how, sorted(kept), sorted(kept)))

    def _record(self, begin_ns: int, messages: Sequence[Message]) -> None:
        polled: dict[str, list[tuple[int, int]]] = {}
        for key, offset, value in self._known(messages):
            polled.setdefault(key, []).append((offset, value))
        if not polled:
            return
        begin, end = pair(self._process, "poll", [["poll"]], [["poll", polled]])
        if self._moved:
            end["rebalance-log"] = [{"keys": sorted(self._moved)}]
        self._history.write({**begin, "time": begin_ns}, end)

    def _known(self, messages: Iterable[Message]) -> Iterator[tuple[str, int, int]]:
        for message in messages:
            if message.error() is not None:
                continue
            topic, identity = message.topic() or "", self._identities.found(message)
            if identity is None:
                with self._history.lock:
                    self._history.foreign[topic] += 1
            else:
                key = key_of(topic, message.partition())
                yield key, message.offset() or 0, _number(identity)


def _words_of(error: Exception) -> str:
    reason = error.args[0] if error.args else None
    return reason.name() if isinstance(reason, KafkaError) else type(error).__name__


def _keys_of(partitions: Iterable[TopicPartition]) -> set[str]:
    return {key_of(partition.topic, partition.partition) for partition in partitions}
