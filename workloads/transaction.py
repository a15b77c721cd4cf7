"""One transactional producer: librdkafka's calls, each bounded, and their errors classified."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from harness.core.errors import KafkaChaosError
from workloads.client_config import Config
from workloads.errors import words_of
from workloads.txn_outcome import Remedy, remedy_of

_LOG = logging.getLogger(__name__)

_REST_OF_TRANSACTION = -1.0
"""What librdkafka advises as time limit of the calls within a transaction."""
_MARGIN_S = 5.0
_INIT_SLICE_S = 0.5
_SERVE_S = 0.1

Report = tuple[KafkaError | None, Message]


class TransactionFailed(KafkaChaosError):
    """A call failed for good.

    Attributes:
        name: of librdkafka's error.
        fatal: whether the client is of no more use by librdkafka's own word.
        remedy: what may be done now; "retry" was tried until the time was over.
    """

    def __init__(self, error: KafkaError, remedy: Remedy) -> None:
        super().__init__(words_of(error))
        self.name: str = error.name()
        self.fatal: bool = error.fatal()
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who works with a producer.

    Attributes:
        reported: told of each delivery.
        met: told of errors that concern the client as a whole, in words.
        go_on: asked several times a second whether to wait further.
    """

    reported: Callable[[KafkaError | None, Message], None]
    met: Callable[[str], None]
    go_on: Callable[[], bool]


class TransactionalProducer:
    """A transactional producer of librdkafka, used by one thread.

    Calls within a transaction block up to what is left of `transaction.timeout.ms`; one that waits
    for the coordinator of a consumer group may not return at all when that broker is killed
    (librdkafka issues 5456 and 5511). So they are made in a thread of their own, and given up when
    their time is over. What they report is queued, and handed to the owner by the thread that uses
    the producer.
    """

    def __init__(self, config: Config, owner: Owner, *, limit_s: float) -> None:
        """Make the producer; nothing is asked of the cluster yet.

        Args:
            config: librdkafka's settings, whole but for callbacks.
            owner: who is told, and asked.
            limit_s: how long a call may take in all, seconds: the time of a transaction.
        """
        self._owner = owner
        self._limit_s = limit_s + _MARGIN_S
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._errors: queue.SimpleQueue[str] = queue.SimpleQueue()
        errors = self._errors
        self._producer: Any = Producer(
            {**config, "error_cb": lambda error: errors.put(words_of(error))}
        )

    def init(self) -> None:
        """Take over the transactional id: fence older clients, abort what they left open.

        Raises:
            TransactionFailed: it could not be, or the owner does not want to wait.
        """
        while True:
            try:
                self._producer.init_transactions(_INIT_SLICE_S)
            except KafkaException as raised:
                failed = _failed(raised)
                self.serve(_SERVE_S)
                if failed.remedy != "retry" or not self._owner.go_on():
                    raise failed from raised
            else:
                return

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            TransactionFailed: this client can begin none.
        """
        try:
            self._producer.begin_transaction()
        except KafkaException as raised:
            raise _failed(raised) from raised

    def send(self, topic: str, payload: bytes, partition: int) -> None:
        """Send a record within the transaction.

        Raises:
            KafkaException: it was refused, and is in no queue; BufferError likewise.
        """
        reports = self._reports
        self._producer.produce(
            topic, payload, None, partition, lambda error, message: reports.put((error, message))
        )

    def serve(self, wait_s: float) -> None:
        """Serve delivery reports, waiting at most so long for one."""
        try:
            self._producer.poll(wait_s)
        except KafkaException as raised:
            # A fatal error; the next call of the transaction tells it too.
            _LOG.info("while waiting for reports: %s", raised.args[0])
        self._hand_on()

    def await_reports(self, done: Callable[[], bool], *, limit_s: float) -> bool:
        """Serve delivery reports until it is done; return whether it was in time."""
        deadline = time.monotonic() + limit_s
        while not done():
            if time.monotonic() > deadline or not self._owner.go_on():
                return False
            self.serve(_SERVE_S)
        return True

    def send_offsets(self, places: list[Place], group: object) -> None:
        """Commit a consumer's offsets with the transaction.

        Raises:
            TransactionFailed: they will not be.
        """
        send = self._producer.send_offsets_to_transaction
        self._call(partial(send, places, group, _REST_OF_TRANSACTION))

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            TransactionFailed: it was not acknowledged.
        """
        self._call(partial(self._producer.commit_transaction, _REST_OF_TRANSACTION))

    def abort(self) -> None:
        """Abort the transaction.

        Raises:
            TransactionFailed: it was not acknowledged.
        """
        self._call(partial(self._producer.abort_transaction, _REST_OF_TRANSACTION))

    def discard(self) -> None:
        """Let go of it; librdkafka's own clean-up, which may take long, goes on aside.

        Nothing more is heard of its sends.
        """
        old, self._producer = [self._producer], None

        def bury() -> None:
            try:
                old[0].purge(in_queue=True, in_flight=True, blocking=False)
            except KafkaException as raised:
                _LOG.info("nothing purged: %s", raised.args[0])
            old.clear()

        threading.Thread(target=bury, name="discard", daemon=True).start()

    def _call(self, call: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._limit_s
        while True:
            raised = self._made(call, deadline)
            if raised is None:
                return
            failed = _failed(raised)
            if failed.remedy != "retry" or time.monotonic() > deadline:
                raise failed from raised
            self.serve(_SERVE_S)

    def _made(self, call: Callable[[], None], deadline: float) -> KafkaException | None:
        """Make a call in a thread of its own; return what it raised.

        Raises:
            TransactionFailed: it did not return in time, or the owner does not want to wait.
        """
        raised: list[KafkaException] = []
        done = threading.Event()

        def make() -> None:
            try:
                call()
            except KafkaException as error:
                raised.append(error)
            finally:
                done.set()

        threading.Thread(target=make, name="call", daemon=True).start()
        while not done.wait(_SERVE_S):
            self._hand_on()
            if not self._owner.go_on() or time.monotonic() > deadline:
                late = KafkaError(KafkaError._TIMED_OUT, "the call did not return in its time")
                raise TransactionFailed(late, "replace")
        self._hand_on()
        return raised[0] if raised else None

    def _hand_on(self) -> None:
        while not self._errors.empty():
            self._owner.met(self._errors.get())
        while not self._reports.empty():
            self._owner.reported(*self._reports.get())


def _failed(raised: KafkaException) -> TransactionFailed:
    error: KafkaError = raised.args[0]
    return TransactionFailed(error, remedy_of(error))
