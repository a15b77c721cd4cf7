"""The transactor: one transaction after the other, each committed, aborted or taken over.

What each transaction does is drawn from the seed and the process number. A client that polls reads
all partitions (`workloads.txn_consumer`).
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Message

from harness.core.op import sequence_of
from harness.history.transactions import Delivery, TxnRecorder
from workloads.client_config import PRODUCER_NICENESS
from workloads.control import Control, main
from workloads.outcome import REFUSED
from workloads.producer import Pace
from workloads.record import encoder, values_of
from workloads.settings import SendingSettings
from workloads.transaction import Owner, TransactionalProducer, TransactionFailed
from workloads.txn_consumer import TxnConsumer
from workloads.txn_outcome import txn_outcome

_LOG = logging.getLogger(__name__)

Fate = Literal["commit", "abort", "takeover"]

MOST_WAIT_S = 0.05
"""The longest wait between two transactions, seconds: history is flushed in between."""

_REPORT_S = 5.0
"""How long to wait for the first delivery before an abort or a takeover, seconds."""
_THINKING = 0.1
"""So large a share of transactions rests: the others make the load."""
_LATE_SENDS = 2
"""So many records a zombie sends after it was taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactorSettings(SendingSettings):
    """What a transactor is told; `config` is its producer's.

    Attributes:
        transactional_id: what the broker fences by, the run's id is put before it.
        most_sends: a transaction sends 1 to so many records.
        abort_share: how many of the transactions are aborted on purpose, 0 to 1.
        takeover_share: in how many a second client takes over the transactional id before the
            commit is tried, 0 to 1.
        timeout_s: `transaction.timeout.ms`, in seconds.
        think_s: one transaction in ten rests for up to so long after a step, seconds.
        consume: librdkafka's settings of a consumer, for a client that polls as well and commits
            its offsets in its transactions.
    """

    transactional_id: str
    most_sends: int
    abort_share: float
    takeover_share: float
    timeout_s: float
    think_s: float = 0.0
    consume: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The transactional id, and the group: a cluster may be lent from run to run."""
        return f"{self.run_id}-{self.transactional_id}"


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What is known so far of the transaction that is under way.

    Attributes:
        number: of the transaction.
        sent: the values that were given to the client library.
        reports: delivery reports that came.
        send_failed: whether one of them told of a failure.
        commit_tried: whether the commit was asked for.
        taken_over: whether another client had taken over before.
    """

    number: int
    sent: set[int] = field(default_factory=set)
    reports: int = 0
    send_failed: bool = False
    commit_tried: bool = False
    taken_over: bool = False


class Transactor:
    """A client that does one transaction after the other, together with its history.

    Attributes:
        recorder: of the history.
    """

    def __init__(self, settings: TransactorSettings, control: Control) -> None:
        self._settings = settings
        self.recorder = settings.begin_sends(TxnRecorder)
        self._control = control
        self._random = Random(f"{settings.seed} {settings.process}")  # noqa: S311 (no secret)
        self._encode = encoder(
            run_id=settings.run_id, topic=settings.topic, size_bytes=settings.record_size_bytes
        )
        self._values = self._reserved()
        self._next_value = 0
        self._stopped_at: float | None = None
        self._attempt = Attempt(number=-1)
        self._producer: TransactionalProducer | None = None
        self._consumer: TxnConsumer | None = None
        if settings.consume is not None:
            consuming = replace(settings, config=settings.consume).kafka_config("transactor")
            self._consumer = TxnConsumer(
                {**consuming, "group.id": settings.name},
                self.recorder,
                topic=settings.topic,
                partitions=settings.partitions,
            )

    @property
    def used(self) -> int:
        """How many sequence numbers were used."""
        return self._next_value

    def open(self) -> None:
        """Get a producer that has the transactional id, if there is none and time for it."""
        while self._producer is None and self._keep_waiting():
            producer = self._new_producer()
            try:
                self._take_id(producer)
            except TransactionFailed as failed:
                self.recorder.event("error", detail=f"no transactional id: {failed}")
                if failed.fatal:
                    self.recorder.event("fatal", detail=str(failed))
                producer.discard()
            else:
                self._producer = producer

    def _take_id(self, producer: TransactionalProducer) -> None:
        """Let a client take over the transactional id, and record how long that took.

        Raises:
            TransactionFailed: it did not, or nobody said so: then it may yet happen.
        """
        begin_ns = time.monotonic_ns()
        try:
            producer.init()
        except TransactionFailed:
            self.recorder.event("init", detail="unanswered")
            raise
        took_s = (time.monotonic_ns() - begin_ns) / 1e9
        self.recorder.event("init", detail=f"{took_s:.3f}")

    def transact(self) -> int:
        """Do one transaction, whatever comes of it; return how many records it sent."""
        producer, random = self._producer, self._random
        if producer is None:
            return 0
        mops = ["send"] * random.randint(1, self._settings.most_sends)
        if self._consumer is not None:
            mops += ["poll"] * random.randint(1, 2)
            random.shuffle(mops)
        if self._settings.think_s and random.random() < _THINKING:
            # Before its first step the coordinator knows nothing of a transaction.
            mops.insert(random.randint(1, len(mops)), "think")
        fate = self._draw_fate()
        attempt = self._attempt = Attempt(number=self.recorder.begin())
        committed, error = False, None
        try:
            producer.begin()
            for mop in mops:
                if mop == "send":
                    self._send(producer, attempt)
                elif mop == "think":
                    self._think(producer)
                elif self._consumer is not None:
                    self._consumer.take()
                producer.serve(0.0)
            committed = self._finish(producer, attempt, fate)
        except TransactionFailed as failed:
            error = failed.name
            self._undo(producer, attempt, failed)
        kind = txn_outcome(
            committed=committed,
            commit_tried=attempt.commit_tried,
            send_failed=attempt.send_failed,
            taken_over=attempt.taken_over,
        )
        self.recorder.end(kind, committing=attempt.commit_tried, error=error)
        if self._consumer is not None:
            self._consumer.settle(kind, resolve=self.open, go_on=self._keep_waiting)
        return len(attempt.sent)

    def finish(self) -> None:
        """Leave nothing open on the brokers that could be ended, and close the history."""
        self.open()
        self.recorder.close(used=self.used)

    # -- within a transaction ----------------------------------------------------------------------

    def _draw_fate(self) -> Fate:
        drawn = self._random.random()
        if drawn < self._settings.abort_share:
            return "abort"
        if drawn < self._settings.abort_share + self._settings.takeover_share:
            return "takeover"
        return "commit"

    def _send(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        value = next(self._values)
        self._next_value = sequence_of(value) + 1
        partition = value % self._settings.partitions
        self.recorder.pending.add(range(value, value + 1), time.monotonic_ns())
        try:
            producer.send(self._settings.topic, self._encode(value), partition)
        except (BufferError, KafkaException) as raised:
            name = raised.args[0].name() if isinstance(raised, KafkaException) else "_QUEUE_FULL"
            self.recorder.completed(
                value, REFUSED, partition=partition, error=name, txn=attempt.number
            )
        else:
            attempt.sent.add(value)

    def _think(self, producer: TransactionalProducer) -> None:
        """Let time pass with the transaction open, as an application that computes."""
        end = time.monotonic() + self._random.uniform(0, self._settings.think_s)
        while time.monotonic() < end and not self._control.stop.is_set() and self._keep_waiting():
            producer.serve(MOST_WAIT_S)

    def _finish(self, producer: TransactionalProducer, attempt: Attempt, fate: Fate) -> bool:
        """Bring the transaction to its end; return whether its commit was acknowledged."""
        self.recorder.flush()
        if self._consumer is not None:
            self._consumer.send_offsets(producer)
        if fate == "commit":
            attempt.commit_tried = True
            producer.commit()
            return True
        # Without a record in the log there is nothing to be fenced; and an abort that overtakes
        # the first produce request kills the client (librdkafka issue 4849).
        producer.await_reports(lambda: attempt.reports > 0 or not attempt.sent, limit_s=_REPORT_S)
        if fate == "abort" or not attempt.reports or attempt.send_failed:
            producer.abort()
            return False
        return self._hand_over(producer, attempt)

    def _hand_over(self, zombie: TransactionalProducer, attempt: Attempt) -> bool:
        """Let a second client take over, and the first go on as if it did not know.

        Returns:
            Whether the commit of the zombie was acknowledged, which must not be.
        """
        successor = self._new_producer()
        try:
            self._take_id(successor)
        except TransactionFailed:
            successor.discard()
            raise
        attempt.taken_over = True
        self.recorder.event("takeover", op=attempt.number)
        self._producer = successor
        try:
            for _ in range(_LATE_SENDS):
                self._send(zombie, attempt)
            attempt.commit_tried = True
            zombie.commit()
        except TransactionFailed as fenced:
            self.recorder.event("fenced", op=attempt.number, detail=fenced.name)
            return False
        else:
            return True
        finally:
            zombie.discard()

    def _undo(
        self, producer: TransactionalProducer, attempt: Attempt, failed: TransactionFailed
    ) -> None:
        """Abort after an error, or replace a client that cannot even do that."""
        if failed.remedy == "abort":
            try:
                producer.abort()
            except TransactionFailed as still:
                failed = still
            else:
                return
        _LOG.warning("the client is replaced in transaction %s: %s", attempt.number, failed)
        if failed.fatal:
            self.recorder.event("fatal", op=attempt.number, detail=str(failed))
        producer.discard()
        self._producer = None
        # As of any producer that is rebuilt: order is not promised across this.
        self.recorder.event("error", op=self.used, detail=f"new producer after: {failed}")
        self.recorder.flush()

    # -- clients of librdkafka ---------------------------------------------------------------------

    def _new_producer(self) -> TransactionalProducer:
        return TransactionalProducer(
            {
                **self._settings.kafka_config("transactor"),
                "transactional.id": self._settings.name,
                "transaction.timeout.ms": int(self._settings.timeout_s * 1000),
            },
            Owner(
                reported=self._reported,
                met=lambda words: self.recorder.event("error", detail=words),
                go_on=self._keep_waiting,
            ),
            limit_s=self._settings.timeout_s,
        )

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        (value,) = values_of([message]).tolist()
        if value not in self._attempt.sent:
            return
        place = message.partition()
        partition = place if place is not None and place >= 0 else None
        report = Delivery(
            partition=partition,
            offset=None if error else message.offset(),
            acked=error is None,
            error=None if error is None else error.name(),
        )
        self.recorder.delivered(value, report)
        self._attempt.reports += 1
        self._attempt.send_failed |= error is not None

    def _keep_waiting(self) -> bool:
        """Tell whether to go on trying; once told to stop, only for a while."""
        self.recorder.flush_if_due()
        self._control.report(self.recorder)
        if self._stopped_at is None and self._control.stop.is_set():
            self._stopped_at = time.monotonic()
        end_s = self._settings.timeout_s
        patient = self._stopped_at is None or time.monotonic() < self._stopped_at + end_s
        return patient and not self._control.orphaned.is_set()

    def _reserved(self) -> Iterator[int]:
        while True:
            yield from self.recorder.reserve()


def run(settings: TransactorSettings, control: Control) -> None:
    """Do transactions until told to stop, then close the history."""
    transactor = Transactor(settings, control)
    transactor.open()
    pace = Pace(settings.rate_per_s)
    while not control.stop.is_set():
        due, wait_s = pace.due()
        if due:
            pace.sent(transactor.transact())
            transactor.open()
        else:
            control.stop.wait(min(wait_s, MOST_WAIT_S))
        transactor.recorder.flush_if_due()
        control.report(transactor.recorder)
    transactor.finish()
    control.report(transactor.recorder, force=True)


if __name__ == "__main__":
    main(run, TransactorSettings, niceness=PRODUCER_NICENESS)
