"""The producer: sends records at a given rate until it is told to stop, and records all of it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from harness.core.op import sequence_of
from harness.history.sends import SendRecorder
from workloads.client_config import PRODUCER_NICENESS
from workloads.control import Control, main
from workloads.errors import words_of
from workloads.outcome import REFUSED, outcome_of
from workloads.record import block_encoder, values_of
from workloads.settings import SendingSettings

_LOG = logging.getLogger(__name__)

ORPHAN_FLUSH_S = 2.0
"""How long to wait for what is under way when the harness is gone, seconds."""

_POLL_S = 0.05
"""The longest wait in librdkafka, seconds: history is flushed and stdin obeyed in between."""
_BATCH = 500
"""Records sent between two polls when flat out."""
_ENCODED = 512
"""Records made at once; few enough to stay in the processor's cache until they are sent."""
_STAMPED = 32
"""Records that share one time of invocation; flat out, they leave within some 30 µs."""
_RENEWED_WITHIN_S = 2.0
"""So long at most nothing is sent while a producer whose time is over gets rid of its records."""
_HEADER = b"kafka-chaos"
_CATCH_UP_S = 1.0
"""After a stop longer than this the rate starts anew, instead of sending all that was missed."""

Delivery = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings(SendingSettings):
    """What a producer is told.

    Attributes:
        first_partition: the lowest of the partitions.
        keyed: give the value as key instead, and let the partitioner choose by its hash.
        sticky: give no key instead: the partitioner stays with a partition for a while.
        headers: how many headers each record has.
        quiet_s: each partition in its turn is sent nothing for so long, seconds; with one partition
            every other turn is its own. 0: none ever.
        life_s: after so long a new producer goes on, seconds. 0: one producer sends all.
        single_attempt: whether an error reported is the only attempt's (`workloads.outcome`).
        flush_s: how long to wait for what is under way when told to stop, seconds.
    """

    first_partition: int = 0
    keyed: bool = False
    sticky: bool = False
    headers: int = 0
    quiet_s: float = 0.0
    life_s: float = 0.0
    single_attempt: bool
    flush_s: float


class Pace:
    """How many records are due at a rate."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate = rate_per_s
        self._origin = time.monotonic()
        self._sent = 0

    def due(self) -> tuple[int, float]:
        """Return how many records may be sent now, and else how long to wait, in seconds."""
        if not self._rate:
            return _BATCH, 0.0
        now = time.monotonic()
        due = int((now - self._origin) * self._rate) + 1 - self._sent
        if due > self._rate * _CATCH_UP_S + 1:
            self._origin, self._sent, due = now, 0, 1
        if due > 0:
            return min(due, _BATCH), 0.0
        # librdkafka counts in milliseconds: a shorter wait would be none, and a busy loop.
        return 0, max(0.001, self._origin + self._sent / self._rate - now)

    def sent(self, count: int) -> None:
        """Take note of what was sent."""
        self._sent += count


class SendingProducer:
    """A librdkafka producer together with the history of its sends.

    Attributes:
        recorder: of the history.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self.recorder = settings.begin_sends(SendRecorder)
        self._encode = block_encoder(
            run_id=settings.run_id, topic=settings.topic, size_bytes=settings.record_size_bytes
        )
        self._block = range(0)
        self._chunk = range(0)
        self._encoded_from = 0
        self._payloads: list[bytes] = []
        self._fatal: KafkaError | None = None
        self._headers = [(f"header-{n}", _HEADER) for n in range(settings.headers)]
        self._delivered = self._delivery_callback()
        self._in_doubt = False
        self._born_s = time.monotonic()
        self._producer = self._open()

    @property
    def used(self) -> int:
        """How many sequence numbers were used: the rest of the last block was never sent."""
        return sequence_of((self._chunk or self._block).start)

    def send(self, count: int) -> int:
        """Send up to `count` records; return how many were.

        They are fewer if librdkafka's queue is full, or if the only partition is quiet.
        """
        if self._settings.partitions == 1 and self._quiet() is not None:
            return 0
        sent = 0
        while sent < count:
            if not self._chunk:
                self._encode_more()
            some = min(count - sent, len(self._chunk))
            done = self._send_all(self._chunk[:some])
            self._chunk = self._chunk[done:]
            sent += done
            if done < some:
                break
        return sent

    def _encode_more(self) -> None:
        """Take the next values, reserved ones, and make their records."""
        if not self._block:
            self._block = self.recorder.reserve()
        self._chunk, self._block = self._block[:_ENCODED], self._block[_ENCODED:]
        self._encoded_from = self._chunk.start
        self._payloads = self._encode(self._chunk)

    def _send_all(self, values: range) -> int:
        """Send these values; return how many found room."""
        for low in range(0, len(values), _STAMPED):
            some = values[low : low + _STAMPED]
            # One time for a few records, taken before the first: an invocation may be recorded
            # some microseconds early, never late.
            self.recorder.pending.add(some, time.monotonic_ns())
            done = self._send_some(some)
            if done < len(some):
                # Not queued, so not sent: the same records are tried again, invoked anew.
                self.recorder.pending.withdraw(some[done:])
                return low + done
        return len(values)

    def _send_some(self, values: range) -> int:
        """Send these values; return how many found room. This is the loop that must be fast."""
        produce: Callable[..., None] = self._producer.produce
        delivered = self._delivered
        settings = self._settings
        topic, partitions, keyed = settings.topic, settings.partitions, settings.keyed
        lowest, sticky = settings.first_partition, settings.sticky
        skip = values.start - self._encoded_from
        quiet = self._quiet()
        key = None
        if self._headers:
            produce = partial(produce, headers=self._headers)
        for value, payload in zip(values, self._payloads[skip : skip + len(values)], strict=True):
            place = lowest + value % partitions
            if place == quiet:
                place = lowest + (value + 1) % partitions
            if keyed:
                # A place of -1 lets the partitioner choose by the key.
                key, place = str(value), -1
            elif sticky:
                place = -1
            try:
                produce(topic, payload, key, place, delivered)
            except BufferError:
                return value - values.start
            except KafkaException as error:
                self._refused(value, place, error.args[0])
        return len(values)

    def _quiet(self) -> int | None:
        """Return the partition that is sent nothing now; all producers of it agree."""
        settings = self._settings
        if not settings.quiet_s:
            return None
        turn = int(time.monotonic() / settings.quiet_s) % max(2, settings.partitions)
        return settings.first_partition + turn if turn < settings.partitions else None

    def poll(self, wait_s: float) -> None:
        """Serve delivery reports, waiting at most so long for one; replace a producer that died.

        One whose time is over is replaced as well.
        """
        self._serve(wait_s)
        life_s = self._settings.life_s
        if self._fatal is None and life_s and time.monotonic() > self._born_s + life_s:
            self._renew()
        if self._fatal is not None:
            self._rebuild(self._fatal)

    def drain(self, limit_s: Callable[[], float]) -> None:
        """Wait until nothing is under way, at most until `limit_s()` says that none is left."""
        while len(self._producer) and (left := limit_s()) > 0:
            self._serve(min(left, _POLL_S))
            self.recorder.flush_if_due()

    def finish(self, control: Control) -> None:
        """Wait for what is under way as long as was asked, and close the history.

        Nobody waits for an orphan, so its end is short.
        """
        stopped = time.monotonic()

        def left_s() -> float:
            bound_s = ORPHAN_FLUSH_S if control.orphaned.is_set() else self._settings.flush_s
            return stopped + bound_s - time.monotonic()

        self.drain(left_s)
        self.recorder.close(used=self.used)

    def _serve(self, wait_s: float) -> None:
        """Serve delivery reports and errors; a fatal error is kept for `poll`."""
        try:
            self._producer.poll(wait_s)
        except KafkaException as error:
            # A fatal error is raised here, once, and not given to the error callback.
            if not error.args[0].fatal():
                raise
            self._on_error(error.args[0])

    def _open(self) -> Producer:
        return Producer({**self._settings.kafka_config("producer"), "error_cb": self._on_error})

    def _on_error(self, error: KafkaError) -> None:
        self.recorder.event("error", detail=words_of(error))
        if error.fatal():
            self._fatal = error

    def _delivery_callback(self) -> Delivery:
        """Return the callback of every record; closed over bare list methods, for it is hot."""
        acked, acked_ns = self.recorder.acked.append, self.recorder.acked_ns.append
        now, failed = time.monotonic_ns, self._failed

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acked(message)
                acked_ns(now())
            else:
                failed(error, message)

        return delivered

    def _failed(self, error: KafkaError, message: Message) -> None:
        (value,) = values_of([message])
        kind = outcome_of(error.code(), single=self._settings.single_attempt)
        self._in_doubt = True
        place = message.partition()
        # An unassigned partition is shown as -1.
        partition = place if place is not None and place >= 0 else None
        self.recorder.completed(value, kind, partition=partition, error=error.name())

    def _refused(self, value: int, place: int, error: KafkaError) -> None:
        partition = None if place < 0 else place
        self.recorder.completed(value, REFUSED, partition=partition, error=error.name())
        # _FATAL does not say why: what has said so already counts.
        if self._fatal is None and (error.fatal() or error.code() == KafkaError._FATAL):
            self._fatal = error

    def _renew(self) -> None:
        """Replace a producer whose time is over, when nothing of it is under way any more.

        So order is promised across this, unless the outcome of a send is not known: its request may
        yet be appended. A producer that does not get rid of its records in time lives once more.
        """
        end_s = time.monotonic() + _RENEWED_WITHIN_S
        self.drain(lambda: end_s - time.monotonic())
        self._born_s = time.monotonic()
        if len(self._producer) or self._fatal is not None:
            return
        if self._in_doubt:
            self.recorder.event("error", op=self.used, detail="new producer: its time was over")
            self._in_doubt = False
        self._producer = self._open()

    def _rebuild(self, fatal: KafkaError) -> None:
        """Replace a producer that librdkafka has declared dead by a new one.

        Sequence numbers go on. All older sends are completed first, those still under way as INFO;
        but a request that a frozen broker holds in its socket may still be appended afterwards. So
        the order of sends is not promised across this: the `error` event holds, as `op`, the
        first sequence number of the new producer.
        """
        self._fatal = None
        words = words_of(fatal)
        _LOG.warning("the producer met a fatal error and is replaced: %s", words)
        self.recorder.event("fatal", detail=words)
        old = self._producer
        old.purge(in_queue=True, in_flight=True, blocking=False)
        old.flush(ORPHAN_FLUSH_S)
        self._fatal = None
        self.recorder.abandon(error="_FATAL")
        self.recorder.event("error", op=self.used, detail=f"new producer after: {words}")
        self.recorder.flush()
        self._producer = self._open()


def run(settings: ProducerSettings, control: Control) -> None:
    """Send until told to stop; then wait for what is under way and close the history."""
    producer = SendingProducer(settings)
    pace = Pace(settings.rate_per_s)
    while not control.stop.is_set():
        due, wait_s = pace.due()
        sent = producer.send(due)
        pace.sent(sent)
        # What found no room is given time; otherwise reports are served without waiting.
        producer.poll(_POLL_S if sent < due else min(wait_s, _POLL_S))
        producer.recorder.flush_if_due()
        control.report(producer.recorder)
    producer.finish(control)
    control.report(producer.recorder, force=True)


if __name__ == "__main__":
    main(run, ProducerSettings, niceness=PRODUCER_NICENESS)
