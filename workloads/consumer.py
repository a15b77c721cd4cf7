"""The consumer: polls until it is told to stop, and records every record that it is given.

One poll is one call of `consume`; polls are numbered from 0, also those that return nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from harness.history.recorder import Recorder
from workloads.client_config import Config
from workloads.control import Control, main
from workloads.errors import words_of
from workloads.settings import ClientSettings

_LOG = logging.getLogger(__name__)

POLL_RECORDS = 500
"""At most so many records a poll."""
POLL_S = 0.2
"""The longest wait of a poll, seconds."""
CLOSE_S = 5.0
"""How long to wait for the group to let us go, seconds."""

_QUERY_S = 1.0
_RESET_CODES = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._LOG_TRUNCATION,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """What a consumer is told; to subscribe, `config` has a `group.id`.

    Attributes:
        mode: "assign": it takes the partitions itself, from their beginning, and stays with them;
            "subscribe": it is a member of a group, which gives and takes partitions.
        partitions: those to assign.
        seek_s: in mode assign, go back somewhere about every so many seconds; 0: never. Where to is
            drawn from `seed` and `process`.
    """

    mode: Literal["assign", "subscribe"]
    partitions: list[int] = field(default_factory=list)
    seek_s: float = 0.0


class RecordingConsumer:
    """A librdkafka consumer together with the history of its polls.

    Attributes:
        recorder: of the history.
        op: number of the poll that runs, or runs next.
    """

    def __init__(
        self,
        config: Config,
        recorder: Recorder,
        topic: str,
        **callbacks: Callable[..., None],
    ) -> None:
        self.recorder = recorder
        self._topic = topic
        self._lost: set[int] = set()
        self._is_dead = False
        self.op = 0
        self._consumer = Consumer({**config, "error_cb": self._on_error, **callbacks})

    def assign(
        self,
        partitions: list[int],
        *,
        offset: int = OFFSET_BEGINNING,
        detail: str | None = None,
    ) -> None:
        """Take the partitions, each from that offset on."""
        self._consumer.assign([Place(self._topic, p, offset) for p in partitions])
        for partition in partitions:
            self._event("assign", partition, detail=detail)

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Go on from these offsets, by partition; each seek is recorded."""
        places = [Place(self._topic, partition, offset) for partition, offset in offsets.items()]
        # A plain seek is refused by partitions that have not begun to fetch, or have been lost.
        self._consumer.incremental_unassign(places)
        self._consumer.incremental_assign(places)
        for place in places:
            # The beginning and the like are no offsets.
            offset = place.offset if place.offset >= 0 else None
            self._event("seek", place.partition, offset=offset)

    def committed(self, partitions: list[int], *, timeout_s: float) -> dict[int, int] | None:
        """Ask where the group of this consumer is, and record what was told.

        Returns:
            The committed offsets by partition, without those that have none; None if the answer is
            an error for one of them.

        Raises:
            KafkaException: nobody answered in time.
        """
        asked_ns = time.monotonic_ns()
        asked = [Place(self._topic, p) for p in partitions]
        places = self._consumer.committed(asked, timeout=timeout_s)
        if any(place.error is not None for place in places):
            return None
        known = {place.partition: place.offset for place in places if place.offset >= 0}
        for partition in partitions:
            told = known.get(partition)
            self._event("offset-fetch", partition, offset=told, detail=str(asked_ns))
        return known

    def subscribe(self, *, detail: str | None = None) -> None:
        """Join the group; partitions come and go during polls, and each move is recorded."""
        self.recorder.event("subscribe", op=self.op, topic=self._topic, detail=detail)
        self._consumer.subscribe(
            [self._topic],
            on_assign=lambda _, places: self._rebalanced("assigned", places),
            on_revoke=lambda _, places: self._rebalanced("revoked", places),
            on_lost=lambda _, places: self._rebalanced("lost", places),
        )

    def poll(self, most: int = POLL_RECORDS, wait_s: float = POLL_S) -> list[Message]:
        """Poll once, record what came and return the records; `most` of them if they are there."""
        try:
            messages = self._consumer.consume(most, wait_s)
        except KafkaException as error:
            # A fatal group error; the next polls show whether the consumer is of any more use.
            self._on_error(error.args[0])
            messages = []
        records = [message for message in messages if message.error() is None]
        self.recorder.polled(self.op, records)
        if len(records) < len(messages):
            for message in messages:
                if (problem := message.error()) is not None:
                    self._failed(message, problem)
        self.op += 1
        if self._lost:
            self._find_again()
        return records

    def close(self) -> None:
        """Leave, waiting at most `CLOSE_S` for a group that may be out of reach."""
        # The library's close cannot be bounded; the process ends without it if it must.
        closing = threading.Thread(target=self._consumer.close, name="close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _failed(self, message: Message, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            # No error: that it is at the end for now is told to who asks for it.
            return
        self._event("error", message.partition(), detail=words_of(error))
        partition = message.partition()
        if error.code() in _RESET_CODES and partition is not None and partition >= 0:
            self._lost.add(partition)

    def _find_again(self) -> None:
        """Seek to the beginning where the place in the log has gone: cut away, or deleted.

        From the beginning, so that no record is skipped by our own doing; the seek is recorded, for
        what follows it is neither a jump nor a repetition of Kafka's.
        """
        for partition in sorted(self._lost):
            try:
                place = Place(self._topic, partition)
                low, _ = self._consumer.get_watermark_offsets(place, timeout=_QUERY_S)
                self.seek({partition: low})
            except KafkaException as error:
                # No leader now; the next poll tries again.
                _LOG.info("no beginning of %s-%d yet: %s", self._topic, partition, error.args[0])
                return
            self._lost.discard(partition)

    def _rebalanced(self, what: str, places: list[Place]) -> None:
        for place in places:
            self.recorder.event(
                "rebalance", op=self.op, topic=place.topic, partition=place.partition, detail=what
            )

    def _event(
        self, f: str, partition: int | None, *, offset: int | None = None, detail: str | None = None
    ) -> None:
        self.recorder.event(
            f, op=self.op, topic=self._topic, partition=partition, offset=offset, detail=detail
        )

    def _on_error(self, error: KafkaError) -> None:
        self.recorder.event("error", op=self.op, detail=words_of(error))
        if error.fatal() and not self._is_dead:
            # Every later poll tells the same again.
            self._is_dead = True
            self.recorder.event("fatal", op=self.op, detail=words_of(error))


def run(settings: ConsumerSettings, control: Control) -> None:
    """Poll until told to stop, then close the history and leave."""
    recorder = settings.begin_polls("consumer")
    consumer = RecordingConsumer(settings.consumer_config("consumer"), recorder, settings.topic)
    if settings.mode == "assign":
        consumer.assign(settings.partitions)
    else:
        consumer.subscribe()
    seeker = _Seeker(settings) if settings.seek_s and settings.mode == "assign" else None
    while not control.stop.is_set():
        records = consumer.poll()
        if seeker is not None:
            seeker.seek(consumer, records)
        recorder.flush_if_due()
        control.report(recorder)
    if settings.mode == "subscribe":
        # Leaving revokes what we have, which is part of the history too.
        recorder.flush()
        consumer.close()
    recorder.close()
    control.report(recorder, force=True)


class _Seeker:
    """Moves a consumer back, now and then, to somewhere that it has been before."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._random = Random(f"{settings.seed} {settings.process}")  # noqa: S311 (a draw that its seed repeats, no secret)
        self._every_s = settings.seek_s
        self._highest: dict[int, int] = {}
        self._due = time.monotonic() + self._drawn_s()

    def seek(self, consumer: RecordingConsumer, records: list[Message]) -> None:
        """Take note of where the consumer is, and move it if it is time to."""
        for record in records:
            partition, offset = record.partition(), record.offset()
            if partition is not None and offset is not None:
                self._highest[partition] = max(offset, self._highest.get(partition, 0))
        if time.monotonic() < self._due or not self._highest:
            return
        self._due = time.monotonic() + self._drawn_s()
        partition = self._random.choice(sorted(self._highest))
        consumer.seek({partition: self._random.randint(0, self._highest[partition])})

    def _drawn_s(self) -> float:
        return self._every_s * self._random.uniform(0.5, 1.5)


if __name__ == "__main__":
    main(run, ConsumerSettings)
