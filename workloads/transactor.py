"""The transactor: one transaction after the other, each committed, aborted or taken over.

Settings, besides `run_id`, `bootstrap`, `process`, `history` and `seed`:

    topic, partitions   where to; partition = value modulo partitions
    rate_per_s          records a second that are sent; 0 is as fast as the client can
    record_size_bytes   length of a record's value
    transactional_id    what the broker fences by, the run's id is put before it
    most_sends          a transaction sends 1 to so many records
    abort_share         how many of the transactions are aborted on purpose, 0 to 1
    takeover_share      in how many a second client takes over the transactional id before the
                        commit is tried, 0 to 1
    timeout_s           `transaction.timeout.ms`, in seconds
    config              librdkafka's settings of the producer (`workloads.client_config`)
    consume             librdkafka's settings of a consumer, for a client that polls as well and
                        commits its offsets in its transactions; or null

What each transaction does is drawn from the seed and the process number. A client that polls reads
all partitions (`workloads.txn_consumer`).
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from confluent_kafka import KafkaError, KafkaException, Message

from harness.core.op import OpType, sequence_of
from harness.history.transactions import Delivery, TxnRecorder
from workloads.client_config import Config
from workloads.control import Control, Settings, by_partition, main, number, setting
from workloads.outcome import REFUSED
from workloads.producer import Pace
from workloads.record import values_of
from workloads.recording import consuming_config, open_transactions
from workloads.transaction import Owner, TransactionalProducer, TransactionFailed
from workloads.txn_consumer import TxnConsumer
from workloads.txn_outcome import txn_outcome

_LOG = logging.getLogger(__name__)

Fate = Literal["commit", "abort", "takeover"]

MOST_WAIT_S = 0.05
"""The longest wait between two transactions, seconds: history is flushed in between."""

_REPORT_S = 5.0
"""How long to wait for the first delivery before an abort or a takeover, seconds."""
_LATE_SENDS = 2
"""So many records a zombie sends after it was taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a transactor was asked for; the fields are the settings of the same names."""

    topic: str
    partitions: int
    rate_per_s: float
    transactional_id: str
    most_sends: int
    abort_share: float
    takeover_share: float
    timeout_s: float
    config: Config


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
    """A client that does one transaction after the other, together with its history."""

    def __init__(
        self,
        plan: Plan,
        recorder: TxnRecorder,
        control: Control,
        *,
        random: Random,
        encode: Callable[[int], bytes],
        consumer: TxnConsumer | None,
    ) -> None:
        self._plan = plan
        self._recorder = recorder
        self._control = control
        self._random = random
        self._encode = encode
        self._values = self._reserved()
        self._next_value = 0
        self._stopped_at: float | None = None
        self._attempt = Attempt(number=-1)
        self._consumer = consumer
        self._producer: TransactionalProducer | None = None

    @property
    def used(self) -> int:
        """How many sequence numbers were used."""
        return self._next_value

    def open(self) -> None:
        """Get a producer that has the transactional id, if there is none and time for it."""
        while self._producer is None and self._keep_waiting():
            producer = self._new_producer()
            try:
                producer.init()
            except TransactionFailed as failed:
                self._recorder.event("error", detail=f"no transactional id: {failed}")
                producer.discard()
            else:
                self._producer = producer

    def transact(self) -> int:
        """Do one transaction, whatever comes of it; return how many records it sent."""
        producer, random = self._producer, self._random
        if producer is None:
            return 0
        mops = ["send"] * random.randint(1, self._plan.most_sends)
        if self._consumer is not None:
            mops += ["poll"] * random.randint(1, 2)
            random.shuffle(mops)
        fate = self._draw_fate()
        attempt = self._attempt = Attempt(number=self._recorder.begin())
        committed, error = False, None
        try:
            producer.begin()
            for mop in mops:
                if mop == "send":
                    self._send(producer, attempt)
                elif self._consumer is not None:
                    self._consumer.poll()
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
        self._recorder.end(kind, committing=attempt.commit_tried, error=error)
        if self._consumer is not None:
            self._consumer.settle(kind, resolve=self.open, go_on=self._keep_waiting)
        return len(attempt.sent)

    def finish(self) -> None:
        """Leave nothing open on the brokers that could be ended, and close the history."""
        self.open()
        self._recorder.close(used=self.used)

    # -- within a transaction ----------------------------------------------------------------------

    def _draw_fate(self) -> Fate:
        drawn = self._random.random()
        if drawn < self._plan.abort_share:
            return "abort"
        if drawn < self._plan.abort_share + self._plan.takeover_share:
            return "takeover"
        return "commit"

    def _send(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        value = next(self._values)
        self._next_value = sequence_of(value) + 1
        partition = value % self._plan.partitions
        self._recorder.pending.add(range(value, value + 1), time.monotonic_ns())
        try:
            producer.send(self._plan.topic, self._encode(value), partition)
        except (BufferError, KafkaException) as raised:
            name = raised.args[0].name() if isinstance(raised, KafkaException) else "_QUEUE_FULL"
            self._recorder.completed(
                value, REFUSED, partition=partition, error=name, txn=attempt.number
            )
        else:
            attempt.sent.add(value)

    def _finish(self, producer: TransactionalProducer, attempt: Attempt, fate: Fate) -> bool:
        """Bring the transaction to its end; return whether its commit was acknowledged."""
        self._recorder.flush()
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
            successor.init()
        except TransactionFailed:
            successor.discard()
            raise
        attempt.taken_over = True
        self._recorder.event("takeover", op=attempt.number)
        self._producer = successor
        try:
            for _ in range(_LATE_SENDS):
                self._send(zombie, attempt)
            attempt.commit_tried = True
            zombie.commit()
        except TransactionFailed as fenced:
            self._recorder.event("fenced", op=attempt.number, detail=fenced.name)
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
        producer.discard()
        self._producer = None
        # As of any producer that is rebuilt: order is not promised across this.
        self._recorder.event("error", op=self.used, detail=f"new producer after: {failed}")
        self._recorder.flush()

    # -- clients of librdkafka ---------------------------------------------------------------------

    def _new_producer(self) -> TransactionalProducer:
        return TransactionalProducer(
            {
                **self._plan.config,
                "transactional.id": self._plan.transactional_id,
                "transaction.timeout.ms": int(self._plan.timeout_s * 1000),
            },
            Owner(
                reported=self._reported,
                met=lambda words: self._recorder.event("error", detail=words),
                go_on=self._keep_waiting,
            ),
            limit_s=self._plan.timeout_s,
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
        self._recorder.delivered(value, report)
        self._attempt.reports += 1
        self._attempt.send_failed |= error is not None

    def _keep_waiting(self) -> bool:
        """Tell whether to go on trying; once told to stop, only for a while."""
        self._recorder.flush_if_due()
        self.report()
        if self._stopped_at is None and self._control.stop.is_set():
            self._stopped_at = time.monotonic()
        end_s = self._plan.timeout_s
        patient = self._stopped_at is None or time.monotonic() < self._stopped_at + end_s
        return patient and not self._control.orphaned.is_set()

    def _reserved(self) -> Iterator[int]:
        while True:
            yield from self._recorder.reserve()

    def report(self, *, force: bool = False) -> None:
        """Say how far we are, if it is time to."""
        recorder = self._recorder
        self._control.progress(
            counts={kind.value: count for kind, count in recorder.counts.items()},
            pending=recorder.under_way,
            polled=recorder.polled_of.total(),
            partitions_seen=by_partition(self._plan.topic, recorder.acked_of),
            more={
                "committed": recorder.txns[OpType.OK],
                "aborted": recorder.txns[OpType.FAIL],
                "in_doubt": recorder.txns[OpType.INFO],
            },
            force=force,
        )


def run(settings: Settings, control: Control) -> None:
    """Do transactions until told to stop, then close the history.

    Raises:
        KafkaChaosError: a setting is missing or wrong, or the history cannot be written.
    """
    process, run_id = setting(settings, "process", int), setting(settings, "run_id", str)
    # A cluster may be lent from run to run: ids and groups are a run's own.
    name = f"{run_id}-{setting(settings, 'transactional_id', str)}"
    plan = Plan(
        topic=setting(settings, "topic", str),
        partitions=setting(settings, "partitions", int),
        rate_per_s=number(settings, "rate_per_s"),
        transactional_id=name,
        most_sends=setting(settings, "most_sends", int),
        abort_share=number(settings, "abort_share"),
        takeover_share=number(settings, "takeover_share"),
        timeout_s=number(settings, "timeout_s"),
        config={
            **setting(settings, "config", dict),
            "bootstrap.servers": setting(settings, "bootstrap", str),
            "client.id": f"transactor-{process}",
        },
    )
    recorder, encode = open_transactions(settings, control)
    consumer: TxnConsumer | None = None
    if settings.get("consume") is not None:
        consume = consuming_config({**settings, "config": settings["consume"]}, role="transactor")
        consumer = TxnConsumer(
            {**consume, "group.id": name}, recorder, topic=plan.topic, partitions=plan.partitions
        )
    random = Random(f"{setting(settings, 'seed', int)} {process}")  # noqa: S311 (no secret)
    transactor = Transactor(
        plan, recorder, control, random=random, encode=encode, consumer=consumer
    )
    transactor.open()
    pace = Pace(plan.rate_per_s)
    while not control.stop.is_set():
        due, wait_s = pace.due()
        if due:
            pace.sent(transactor.transact())
            transactor.open()
        else:
            control.stop.wait(min(wait_s, MOST_WAIT_S))
        recorder.flush_if_due()
        transactor.report()
    transactor.finish()
    transactor.report(force=True)


if __name__ == "__main__":
    main(run)
